"""What the benchmarks found, as a table, as JSON and as a picture."""

import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from rich.table import Table

from tests.benchmarks.pairs import Comparison

RESULTS = "results.json"
WIDTH, LEFT, RIGHT, LINE, TOP = 1200, 560, 1180, 26, 44
KEPT, MISSED, NOT_ASKED, FAINT = "#2a7d4f", "#b3372f", "#4a6078", "#d5d9de"
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True)
class Found:
    """The outcome of all rows that ran.

    Args:
        scale: Their sizes: full or small.
        at: When, aware.
        comparisons: By row.
        failed: Why, by row; a row may have some comparisons and then fail.
    """

    scale: str
    at: datetime
    comparisons: Mapping[str, Sequence[Comparison]]
    failed: Mapping[str, str]

    @property
    def all(self) -> list[Comparison]:
        """The comparisons of all rows."""
        return [found for row in self.comparisons.values() for found in row]


def table(found: Found) -> Table:
    """For the terminal."""
    shown = Table("A / B", "median", "from - to", "asked", "", title=f"Ratios at {found.scale} scale")
    for one in found.all:
        asked = "" if one.bound is None else f"<= {one.bound:.3g}"
        verdict = {True: "met", False: "missed", None: ""}[one.met]
        name = f"{one.name}\n  {one.note}" if one.note else one.name
        shown.add_row(name, f"{one.median:.2f}", f"{one.low:.2f} - {one.high:.2f}", asked, verdict)
    for row, reason in found.failed.items():
        shown.add_row(f"{row}\n  {reason}", "", "", "", "failed")
    if found.scale == "small":
        shown.caption = "At small scale the ratios mean nothing: it shows only that everything runs."
    return shown


def as_json(found: Found) -> dict[str, Any]:
    """All that was found, for programs."""
    packages = {name: version(name) for name in ("pyspark", "delta-spark", "deltalake", "dagster")}
    return {
        "date": found.at.isoformat(timespec="seconds"),
        "scale": found.scale,
        "versions": {"python": platform.python_version(), **packages},
        "rows": [
            {"row": row, **_told(one), "measured": one.measured or found.at.isoformat(timespec="seconds")}
            for row, several in found.comparisons.items()
            for one in several
        ],
        "failed": dict(found.failed),
    }


def _told(one: Comparison) -> dict[str, Any]:
    return {
        "name": one.name,
        "median": one.median,
        "min": one.low,
        "max": one.high,
        "bound": one.bound,
        "met": one.met,
        "ratios": list(one.ratios),
        "sizes": dict(one.sizes),
        "note": one.note,
        **({"share": one.share} if one.share != 0.5 else {}),
        **({"busy": True} if one.busy else {}),
    }


def picture(found: Found) -> str:
    """SVG: a line for each comparison, from the smallest ratio to the largest, a dot at the median, a bar at the bound.

    Ratios are on a logarithmic scale, so that half and double are equally far from 1. It is written directly: none of
    the packages that are here draws plots.
    """
    shown = found.all
    height = TOP + LINE * len(shown) + 10
    values = [v for one in shown for v in (one.low, one.high, one.bound or 1)] + [0.1, 2]
    low, high = math.log(min(values) / 1.2), math.log(max(values) * 1.2)

    def at(ratio: float) -> str:
        return f"{LEFT + (math.log(ratio) - low) / (high - low) * (RIGHT - LEFT):.1f}"

    svg = ET.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {height}", width=f"{WIDTH}")
    svg.set("style", "font: 13px sans-serif; background: white")
    days = sorted({one.measured[:10] or f"{found.at:%Y-%m-%d}" for one in shown})
    period = " to ".join(dict.fromkeys([days[0], days[-1]]))
    _text(svg, 10, 18, f"Ratio A / B, {found.scale} scale, {period}; bar: asked, at most")
    for tick in TICKS:
        if low <= math.log(tick) <= high:
            _line(svg, at(tick), TOP - 12, at(tick), height - 6, FAINT, 2 if tick == 1 else 1)
            _text(svg, at(tick), TOP - 18, f"{tick:g}", "middle")
    for number, one in enumerate(shown):
        y = TOP + LINE * number + 8
        color = {True: KEPT, False: MISSED, None: NOT_ASKED}[one.met]
        _text(svg, 10, y + 4, one.name)
        _text(svg, LEFT - 10, y + 4, f"{one.median:.2f}", "end")
        _line(svg, at(one.low), y, at(one.high), y, color, 3)
        ET.SubElement(svg, "circle", cx=at(one.median), cy=f"{y}", r="5", fill=color)
        if one.bound is not None:
            _line(svg, at(one.bound), y - 9, at(one.bound), y + 9, "black", 2)
    return ET.tostring(svg, encoding="unicode")


def _text(svg: ET.Element, x: float | str, y: float, text: str, anchor: str = "start") -> None:
    ET.SubElement(svg, "text", {"x": f"{x}", "y": f"{y}", "text-anchor": anchor}).text = text


def _line(svg: ET.Element, x1: str, y1: float, x2: str, y2: float, color: str, width: int) -> None:
    ends = {"x1": x1, "y1": f"{y1}", "x2": x2, "y2": f"{y2}"}
    ET.SubElement(svg, "line", {**ends, "stroke": color, "stroke-width": f"{width}"})


def earlier(folder: Path, scale: str) -> dict[str, list[Comparison]]:
    """What a folder's ``results.json`` has of each row at that scale; nothing where there is none."""
    file = folder / RESULTS
    told = json.loads(file.read_text()) if file.exists() else {"scale": scale, "rows": []}
    found: dict[str, list[Comparison]] = {}
    for one in told["rows"] if told["scale"] == scale else ():
        ratios, measured = tuple(one["ratios"]), one.get("measured") or told["date"]
        found.setdefault(one["row"], []).append(
            Comparison(
                one["name"],
                ratios,
                one["bound"],
                one["sizes"],
                one["note"],
                measured,
                one.get("share", 0.5),
                one.get("busy", False),
            )
        )
    return found


def write(found: Found, folder: Path) -> None:
    """Write ``results.json`` and ``results.svg`` into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULTS).write_text(json.dumps(as_json(found), indent=2) + "\n")
    (folder / "results.svg").write_text(picture(found) + "\n")
