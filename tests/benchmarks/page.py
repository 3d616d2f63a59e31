"""The table of `docs/cost.md`, as it follows from ``results.json``: ``python -m tests.benchmarks.page`` prints it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.report import RESULTS

MEASURED = Path(__file__).with_name(RESULTS)


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each comparison.

    Args:
        rows: As ``results.json`` has them.

    Example:
        >>> print(markdown([{"name": "a / b", "median": 2.61, "min": 0.4, "max": 30.2, "bound": 2, "met": False}]))
        | | median | from – to | asked | |
        |---|---|---|---|---|
        | a / b | 2.61 | 0.40 – 30 | ≤ 2 | missed |
    """
    lines = ["| | median | from – to | asked | |", "|---|---|---|---|---|"]
    for row in rows:
        asked = "" if row["bound"] is None else f"≤ {row['bound']:.3g}"
        spread = f"{_short(row['min'])} – {_short(row['max'])}"
        told = ["missed"] if row["met"] is False else []
        told += [row["note"]] if "share" in row else []
        verdict = "; ".join([*told, "busy machine"] if row.get("busy") else told)
        lines.append(f"| {row['name']} | {_short(row['median'])} | {spread} | {asked} | {verdict} |")
    return "\n".join(lines)


def _short(ratio: float) -> str:
    """Two digits after the point, from ten on none."""
    return f"{ratio:.{2 if ratio < 10 else 0}f}"


if __name__ == "__main__":
    print(markdown(json.loads(MEASURED.read_text())["rows"]))
