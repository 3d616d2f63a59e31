"""The source's clock against ours, and rows of the future."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from incload_assets.assets import Changes
from incload_assets.checks.clock import CHECK, clock
from incload_assets.checks.observation import Observation
from incload_assets.declaration.source import Clock
from incload_assets.platform.errors import SourceUnavailable
from incload_assets.platform.lake import Lake
from incload_assets.progress.progress import SourceState
from incload_assets.trial.literal_source import LiteralSource
from tests.support.tables import StampedItem, day, item, make

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


class Dated(LiteralSource):
    """Its clocks are given."""

    has_row_times = True

    told: list[Clock]

    def clocks(self, table: str) -> list[Clock]:
        return self.told


class Down(LiteralSource):
    has_row_times = True

    def clocks(self, table: str) -> list[Clock]:
        raise SourceUnavailable(f"{table}: the database is down", remedy="start it")


def checked(folder: Path, source: LiteralSource) -> dg.AssetCheckResult:
    table = make(None, folder, source=source).table  # type: ignore[arg-type]
    with dg.DagsterInstance.ephemeral() as instance:
        seen = Observation(table, Lake(str(folder)), instance, datetime.now(UTC), SourceState([], {}, {}), [])
        return clock(seen)


@pytest.mark.parametrize(
    ("clocks", "passed", "said"),
    [
        ([Clock(3 * SECOND, 5 * MINUTE)], True, "The source's clock is 3 seconds ahead of ours."),
        ([Clock(-SECOND / 2, 5 * MINUTE)], True, "The source's clock is ours."),
        (
            [Clock(-SECOND, MINUTE), Clock(-7 * MINUTE, 5 * MINUTE)],
            False,
            "The source's clock is 7 minutes behind ours. Its lag allows 5 minutes. What to do: set the clocks, or "
            "declare a longer lag.",
        ),
        (
            [Clock(SECOND, MINUTE), Clock(-SECOND, MINUTE, 2, "2999-01-01 00:00:00+00")],
            False,
            "The source's clock is 1 second ahead of ours. 2 rows dated in the future, from 2999-01-01 00:00:00+00 on. "
            "They are loaded when that time has come; no load waits for them. What to do: correct them at the source "
            "if the time is wrong.",
        ),
    ],
)
def test_a_clock_that_is_off_and_rows_of_the_future_are_told(
    tmp_path: Path, clocks: list[Clock], passed: bool, said: str
) -> None:
    source = Dated({})
    object.__setattr__(source, "told", clocks)
    found = checked(tmp_path, source)
    assert (found.passed, found.description) == (passed, said)
    assert found.metadata["rows_in_the_future"].value == sum(one.ahead for one in clocks)


def test_a_source_that_does_not_answer_says_so(tmp_path: Path) -> None:
    found = checked(tmp_path, Down({}))
    assert not found.passed
    assert (found.description or "").startswith("The source could not be checked: items: the database is down.")


def test_windows_whose_changes_are_dated_in_the_future_are_found_without_reading_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    by_time = Changes(keys=["id"], sequence_by=["at"])
    loaded = make(spark, tmp_path, contract=StampedItem, changes=by_time)
    now = datetime.now(UTC)
    for number, at in enumerate((now - MINUTE, now + MINUTE, now + timedelta(days=400)), start=1):
        loaded.content[day(number)] = [item(f"a{number}", "x", 1, at=at.isoformat())]
        loaded.load(number)
    with dg.DagsterInstance.ephemeral() as instance:
        found = clock(Observation(loaded.table, loaded.lake, instance, now, SourceState([], {}, {}), []))
    assert not found.passed and found.metadata is not None
    assert found.metadata["windows_in_the_future"].value == 1
    assert f"Changes in {day(3)} have a 'at' in the future" in (found.description or "")


@pytest.mark.parametrize("ranges", ["at", "_hash"])
def test_changes_of_the_future_are_found_in_files_without_a_range_and_rejected_ones_are_no_changes(
    tmp_path: Path, ranges: str
) -> None:
    table = make(None, tmp_path, contract=StampedItem, changes=Changes(keys=["id"], sequence_by=["at"])).table  # type: ignore[arg-type]
    lake, now = Lake(str(tmp_path)), datetime.now(UTC)
    far = datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
    rows = [(now, "upsert", 1), (far, "upsert", 2), (far, "rejected", 3), (None, "delete", 4), (far, "delete", 4)]
    log = [{"at": at, "_hash": 1, "_kind": kind, "_window": day(number)} for at, kind, number in rows]
    write_deltalake(
        lake.log_uri(table.key.path),
        pa.Table.from_pylist(log),
        partition_by=["_window", "_kind"],
        configuration={"delta.dataSkippingStatsColumns": ranges},
    )
    with dg.DagsterInstance.ephemeral() as instance:
        found = clock(Observation(table, lake, instance, now, SourceState([], {}, {}), []))
    assert (found.passed, found.metadata["windows_in_the_future"].value) == (False, 2)
    assert f"Changes in {day(2)}, {day(4)} have a 'at' in the future" in (found.description or "")


def test_tables_ordered_by_a_time_have_the_check_and_others_only_if_their_source_has_times(tmp_path: Path) -> None:
    by_time = make(None, tmp_path, contract=StampedItem, changes=Changes(keys=["id"], sequence_by=["at"])).table  # type: ignore[arg-type]
    assert CHECK.applies_to(by_time)
    assert not CHECK.applies_to(make(None, tmp_path).table)  # type: ignore[arg-type]
