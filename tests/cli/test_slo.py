"""``incload slo``, run as a person runs it, in a clone with one table and its history."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from incload_assets.cli.support.slo_view import worded
from incload_assets.history.load_row import LoadRow
from incload_assets.history.loads_table import LoadsTable
from incload_assets.platform.lake import Lake
from tests.support.project_copy import Clone, readme_files

PLAIN = {"INCLOAD_SAMPLES": "false", "INCLOAD_PRICE_PER_HOUR": "3"}


MIDNIGHT = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def loaded(days_ago: int) -> LoadRow:
    """The load of a day, a minute after its end."""
    end = MIDNIGHT - timedelta(days=days_ago)
    return LoadRow(
        table="payments",
        window=f"{end - timedelta(days=1):%Y-%m-%d}",
        window_start=end - timedelta(days=1),
        window_end=end,
        due_at=end + timedelta(minutes=5),
        outcome="loaded",
        ended_at=end + timedelta(minutes=1),
        instance="elsewhere",
        event=100 - days_ago,
        run_id=f"run-{days_ago}",
        seconds=600.0,
        bytes=500_000_000,
    )


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The README's table, of which four days were loaded a minute after their end, and the days since then not yet."""
    clone = Clone.of(tmp_path_factory.mktemp("clone"), "sc://localhost:1")
    clone.write("my_lake/tables/payments.py", readme_files()["my_lake/tables/payments.py"])
    rows = [loaded(days) for days in (5, 4, 3, 2)]
    assert LoadsTable(Lake(str(clone.root / ".incload" / "lake"))).append(rows, after=0)
    return clone


@pytest.mark.slow
def test_each_indicator_is_shown_with_its_target_and_for_programs(clone: Clone) -> None:
    shown, data = clone.incload("slo", "payments", **PLAIN), clone.incload("slo", "payments", "--json", **PLAIN)
    assert (shown.returncode, data.returncode) == (0, 0), shown.stderr + data.stderr
    lines = {line.split()[0]: line.split() for line in shown.stdout.splitlines()}
    assert lines["payments"][1:] == ["value", "target", "met", "budget", "left", "trend"]
    assert lines["freshness_p50"][1:3] == ["1", "min"]
    [found] = json.loads(data.stdout)
    values = {sli["name"]: sli["value"] for sli in found["slis"]}
    due = 5 + (
        datetime.now(UTC) >= MIDNIGHT + timedelta(minutes=10)
    )  # today's midnight ended one; loads are known later
    assert (values["success"], values["freshness_p50"], values["cost"]) == (4 / due, 60, 2.0)
    assert values["cost_per_gb"] == 1.0, "2 GB for 2"
    [success] = [sli for sli in found["slis"] if sli["name"] == "success"]
    assert (success["target"], success["met"], success["budget_left"], success["trend"]) == (0.999, False, 0.0, None)


@pytest.mark.slow
def test_without_a_name_there_is_a_line_for_each_table(clone: Clone) -> None:
    shown = clone.incload("slo", **PLAIN)
    heading, line = shown.stdout.splitlines()
    assert heading.split()[:2] == ["table", "met"] and line.split()[:4] == ["payments", "0", "of", "3"], shown.stdout


@pytest.mark.slow
def test_a_table_that_is_not_there_is_refused_with_the_names_of_those_that_are(clone: Clone) -> None:
    refused = clone.incload("slo", "paiments", **PLAIN)
    assert refused.returncode == 1
    assert "there is no table 'paiments'" in refused.stderr and "write 'payments'" in refused.stderr


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.4, "seconds", "400 ms"),
        (59, "seconds", "59 s"),
        (90, "seconds", "1 min 30 s"),
        (7_200, "seconds", "2 h"),
        (86_400, "seconds", "1 d"),
        (1.0, "share", "100 %"),
        (0.9991, "share", "99.91 %"),
        (0.00025, "share", "0.025 %"),
        (0.0, "share", "0 %"),
        (1_234_567, "rows", "1,234,567"),
        (1_500, "bytes", "1.5 kB"),
        (2.5, "price/GB", "2.50/GB"),
        (0.0314, "price", "0.031"),
        (90, "seconds/GB", "1 min 30 s/GB"),
        (None, "share", "-"),
    ],
)
def test_numbers_are_short_and_have_their_unit(value: float | None, unit: str, text: str) -> None:
    assert worded(value, unit) == text  # type: ignore[arg-type]
