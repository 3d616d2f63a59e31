"""What is made of ratios: a line, a record, a picture."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console

from tests.benchmarks.page import MEASURED, markdown
from tests.benchmarks.pairs import Comparison, compare
from tests.benchmarks.report import KEPT, MISSED, Found, as_json, earlier, table, write
from tests.support.documents import DOCS

GOOD = Comparison("load / by hand", (0.5, 0.25, 1.0), 0.8, {"rows": 20}, "mostly landing")
BAD = Comparison("large & small", (2.0, 4.0), 1.2)
FOUND = Found("small", datetime(2026, 1, 5, tzinfo=UTC), {"warm": [GOOD], "growth": [BAD]}, {"run": "OSError: no"})


def test_both_ways_run_in_turn_and_only_the_later_rounds_count() -> None:
    ran: list[str] = []
    found = compare(
        "a / b",
        lambda n: ran.append(f"a{n}"),
        lambda n: ran.append(f"b{n}"),
        pairs=2,
        warm_up=1,
        prepare=lambda n: ran.append(f"prepare {n}"),
    )
    assert ran == ["prepare 0", "a0", "b0", "prepare 1", "a1", "b1", "prepare 2", "a2", "b2"]
    assert len(found.ratios) == 2
    assert found.met is None


def test_the_table_says_what_was_asked_and_whether_it_is_met() -> None:
    console = Console(width=150)
    with console.capture() as shown:
        console.print(table(FOUND))
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.get().splitlines() if "│" in line]
    lines = {name: told for name, *told in rows}
    assert lines["load / by hand"] == ["0.50", "0.25 - 1.00", "<= 0.8", "met"]
    assert lines["large & small"] == ["3.00", "2.00 - 4.00", "<= 1.2", "missed"]
    assert lines["run"][-1] == "failed"
    assert {"mostly landing", "OSError: no"} < set(lines)


def test_record_and_picture_are_written(tmp_path: Path) -> None:
    write(FOUND, tmp_path / "out")
    told = json.loads((tmp_path / "out" / "results.json").read_text())
    assert (told["scale"], told["date"], told["failed"]) == (
        "small",
        "2026-01-05T00:00:00+00:00",
        {"run": "OSError: no"},
    )
    assert set(told["versions"]) > {"python", "pyspark", "delta-spark"}
    first, second = told["rows"]
    assert first == {
        "row": "warm", "name": "load / by hand", "median": 0.5, "min": 0.25, "max": 1.0, "bound": 0.8, "met": True,
        "ratios": [0.5, 0.25, 1.0], "sizes": {"rows": 20}, "note": "mostly landing",
        "measured": "2026-01-05T00:00:00+00:00",
    }  # fmt: skip
    assert (second["row"], second["met"]) == ("growth", False)
    svg = ET.parse(tmp_path / "out" / "results.svg").getroot()
    dots = svg.findall("{*}circle")
    assert [dot.get("fill") for dot in dots] == [KEPT, MISSED]
    assert float(dots[0].get("cx", 0)) < float(dots[1].get("cx", 0))
    assert "large & small" in [text.text for text in svg.findall("{*}text")]


def test_rows_that_are_not_measured_again_keep_their_dates(tmp_path: Path) -> None:
    assert earlier(tmp_path, "small") == {}
    write(FOUND, tmp_path)
    at = "2026-01-05T00:00:00+00:00"
    assert earlier(tmp_path, "small") == {"warm": [replace(GOOD, measured=at)], "growth": [replace(BAD, measured=at)]}
    assert earlier(tmp_path, "full") == {}
    busy = replace(GOOD, measured=at, share=0.95, busy=True)
    write(replace(FOUND, comparisons={"promises": [busy]}), tmp_path / "busy")
    assert earlier(tmp_path / "busy", "small") == {"promises": [busy]}
    later = replace(
        FOUND, at=datetime(2026, 2, 1, tzinfo=UTC), comparisons={**earlier(tmp_path, "small"), "run": [BAD]}
    )
    assert [row["measured"][:10] for row in as_json(later)["rows"]] == ["2026-01-05", "2026-01-05", "2026-02-01"]


def test_a_line_of_the_page_names_what_is_missed() -> None:
    assert markdown(as_json(FOUND)["rows"]).splitlines()[2:] == [
        "| load / by hand | 0.50 | 0.25 – 1.00 | ≤ 0.8 |  |",
        "| large & small | 3.00 | 2.00 – 4.00 | ≤ 1.2 | missed |",
    ]


def test_a_promise_is_kept_by_the_share_that_it_speaks_of_and_a_busy_machine_is_named() -> None:
    twenty = (*[0.5] * 19, 3.0)
    kept = Comparison("wait / promise", twenty, 1, note="p95 60 s", measured="2026-01-05", share=0.95, busy=True)
    assert kept.met and replace(kept, ratios=(*twenty, 3.0)).met is False
    assert replace(kept, ratios=(0.5,), share=0.5).met
    found = replace(FOUND, comparisons={"promises": [kept]})
    assert markdown(as_json(found)["rows"]).splitlines()[2:] == [
        "| wait / promise | 0.50 | 0.50 – 3.00 | ≤ 1 | p95 60 s; busy machine |"
    ]


def test_the_documentation_shows_what_was_measured_at_full_scale() -> None:
    results = json.loads(MEASURED.read_text())
    assert (results["scale"], results["failed"]) == ("full", {})
    assert markdown(results["rows"]) in (DOCS / "cost.md").read_text()
