"""Another partitions definition for a table that has been loaded: closed windows stay, and nothing is read again."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame, SparkSession

from incload_assets.assets import Append, Changes, Era, History, Overwrite
from incload_assets.change_log.context import LoadContext
from incload_assets.checks.closed import late_for_closed
from incload_assets.checks.gaps import gaps
from incload_assets.checks.observation import look
from incload_assets.declaration.source import DetectRequest, Position
from incload_assets.declaration.write import Write
from incload_assets.load import load as load_module
from incload_assets.load.hold import hold_window
from incload_assets.load.ranges import load_first_windows
from incload_assets.load.undo_plan import Undo, plan_undo
from incload_assets.maintenance.compact_logs import compact
from incload_assets.platform.errors import IncrementalLoadError, SchemaMismatch
from incload_assets.progress.status import table_status
from incload_assets.restore.rebuild import rebuild
from incload_assets.trial.literal_source import LiteralSource, Record
from tests.support.tables import DAYS, Loaded, StampedItem, day, item, make

UNTIL = "2026-01-03T00:00Z"
HOURS = dg.HourlyPartitionsDefinition("2026-01-03-00:00")
FORMER = (Era(DAYS, UNTIL),)
AFTER = datetime(2026, 2, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Touchy(LiteralSource):
    """A source that fails when anybody asks it for a window of January 1 or 2, or reads one."""

    def detect(self, request: DetectRequest) -> dict[str, Position]:
        assert not [w.key for w in request.windows if w.start < datetime(2026, 1, 3, tzinfo=UTC)]
        return super().detect(request)

    def extract(self, spark: SparkSession, table: str, position: Position, fields: Any) -> DataFrame:
        assert not [row for row in position.detail["rows"] if row.get("former")]
        return super().extract(spark, table, position, fields)


Declare = Callable[..., Loaded]


@pytest.fixture
def declared(spark: SparkSession, tmp_path: Path) -> Declare:
    """Declares one table, in whatever way; with former partitions its source is a touchy one."""

    def declare(content: dict[str, list[Record]], **options: Any) -> Loaded:
        if options.get("former_partitions"):
            options.setdefault("source", Touchy(content))
        return make(spark, tmp_path, content, **options)

    return declare


def former(id: str, value: str, seq: int, **more: str) -> Record:
    return item(id, value, seq, former="yes", **more)


def hour(number: int, of_day: int = 3) -> str:
    return f"2026-01-{of_day:02d}-{number:02d}:00"


CONTENT = {
    day(1): [former("a", "1", 1), former("b", "1", 2), former("c", "1", 3)],
    day(2): [former("a", "2", 4)],
    hour(0): [item("b", "3", 5), item("a", "late and old", 2)],
    hour(1): [item("c", None, 6, op="d"), item("d", "3", 7)],
}
ORACLE = {("a", "2", 4), ("b", "3", 5), ("d", "3", 7)}


@pytest.fixture
def changed(declared: Declare) -> Loaded:
    """A table with two loaded days, whose partitions are hours now."""
    days = declared(CONTENT)
    for number in (1, 2):
        days.load(number)
    return declared(CONTENT, partitions_def=HOURS, former_partitions=FORMER)


def properties(loaded: Loaded) -> list[str]:
    found = []
    for uri in (loaded.uri, loaded.lake.log_uri(loaded.table.key.path)):
        delta = loaded.lake.delta(uri)
        assert delta is not None
        found.append(delta.metadata().configuration["incload.windows"])
    return found


def test_hours_follow_days_and_the_table_is_that_of_all_rows(changed: Loaded) -> None:
    for key in (hour(1), hour(0)):
        changed.load(key)
    assert changed.rows() == ORACLE
    assert (
        properties(changed)
        == ["0 0 * * * UTC %Y-%m-%d until 2026-01-03T00:00:00+00:00; 0 * * * * UTC %Y-%m-%d-%H:%M"] * 2
    )
    files = changed.files()
    assert not changed.replay(changed.load(hour(0))).ingested
    assert changed.files() == files


def test_several_hours_load_together_after_days_that_did(declared: Declare) -> None:
    def together(loaded: Loaded, *keys: str) -> list[Any]:
        load = loaded.context()
        windows = [loaded.table.window_of(key) for key in keys]
        return [
            one for reports in load_first_windows(load, windows, lambda them: [w.key for w in them]) for one in reports
        ]

    assert len(together(declared(CONTENT), day(1), day(2))) == 2
    changed = declared(CONTENT, partitions_def=HOURS, former_partitions=FORMER)
    assert len(together(changed, hour(0), hour(1))) == 2
    assert changed.rows() == ORACLE


def test_hours_of_another_time_zone_follow_hours(declared: Declare) -> None:
    berlin = dg.HourlyPartitionsDefinition("2026-01-03-01:00", timezone="Europe/Berlin")
    content = {"2026-01-02-23:00": [former("a", "1", 1), former("b", "1", 1)], "2026-01-03-01:00": [item("a", "2", 2)]}
    hours = dg.HourlyPartitionsDefinition("2026-01-01-00:00")
    declared(content, partitions_def=hours).load("2026-01-02-23:00")
    changed = declared(content, partitions_def=berlin, former_partitions=[Era(hours, UNTIL)])
    report = changed.load("2026-01-03-01:00")
    assert report.window.start == datetime(2026, 1, 3, tzinfo=UTC)
    assert changed.rows() == {("a", "2", 2), ("b", "1", 1)}


def test_a_later_start_closes_the_windows_before_it(declared: Declare) -> None:
    content = {day(1): [former("a", "1", 1)], day(2): [former("b", "1", 1)], day(3): [item("a", "3", 3)]}
    days = declared(content)
    days.load(1), days.load(2)
    later = declared(content, partitions_def=dg.DailyPartitionsDefinition("2026-01-03"), former_partitions=FORMER)
    later.load(3)
    assert later.rows() == {("a", "3", 3), ("b", "1", 1)}
    assert [*later.table.closed] == [day(1), day(2)]


def test_an_earlier_start_adds_windows_before_the_others(declared: Declare) -> None:
    content = {"2025-12-31": [item("a", "0", 0), item("z", "0", 0)], day(1): [item("a", "1", 1)]}
    declared(content).load(1)
    earlier = declared(content, partitions_def=dg.DailyPartitionsDefinition("2025-12-31"))
    earlier.load("2025-12-31")
    assert earlier.rows() == {("a", "1", 1), ("z", "0", 0)}


def test_code_without_the_former_partitions_is_refused_and_told_what_to_declare(
    changed: Loaded, declared: Declare
) -> None:
    with pytest.raises(SchemaMismatch, match="declare the former partitions beside the new ones"):
        declared(CONTENT, partitions_def=HOURS).load(hour(0))
    changed.load(hour(0))
    rows = changed.rows()
    for present in (DAYS, HOURS):
        with pytest.raises(SchemaMismatch, match=r"incload.windows 0 0 \* \* \* UTC %Y-%m-%d until 2026-01-03T00:00"):
            declared(CONTENT, partitions_def=present).load(day(2) if present == DAYS else hour(1))
    moved = dg.HourlyPartitionsDefinition("2026-01-02-00:00")
    with pytest.raises(SchemaMismatch, match="declare the former partitions"):
        declared(CONTENT, partitions_def=moved, former_partitions=[Era(DAYS, "2026-01-02T00:00Z")]).load(hour(1))
    assert changed.rows() == rows


def test_former_partitions_are_not_closed_while_the_log_has_a_window_that_ends_later(declared: Declare) -> None:
    days = declared(CONTENT | {day(3): [item("x", "x", 9)]})
    days.load(1), days.load(3)
    before = days.versions()
    changed = declared(CONTENT, partitions_def=HOURS, former_partitions=FORMER)
    with pytest.raises(SchemaMismatch, match=f"the log has {day(3)}, and no former definition has such a window"):
        changed.load(hour(0))
    assert days.versions() == before


def killed(*_: Any, **__: Any) -> Any:
    """What a load does that is killed here."""
    raise KeyboardInterrupt


def test_former_partitions_are_not_closed_while_a_landing_is_not_merged(
    declared: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = declared(CONTENT)
    days.load(1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(load_module, "apply_changes", killed)  # after the landing of the window, before its merge
        days.load(2)
    changed = declared(CONTENT, partitions_def=HOURS, former_partitions=FORMER)
    with pytest.raises(SchemaMismatch, match=f"the log has {day(2)}, and the table has no commit of their merge"):
        changed.load(hour(0))
    days.load(2)
    hold_window(days.context(), days.table.window_of(day(1)), actor="a", because="b")
    changed.load(hour(0))
    assert changed.rows() == {("a", "2", 4), ("b", "3", 5), ("c", "1", 3)}


@dataclass(frozen=True)
class Completed(LiteralSource):
    """A source that knows when a window is complete: when it has a row that says so."""

    def settled(self, position: Position) -> bool:
        return any("complete" in row for row in position.detail.get("rows", ()))


def test_former_partitions_are_not_closed_while_the_source_may_still_add_rows_to_them(declared: Declare) -> None:
    content = {day(1): [item("a", "1", 1, complete="")], day(2): [item("b", "1", 1)], hour(0): [item("c", "1", 1)]}
    days = declared(content, source=Completed(content))
    days.load(1)
    changed = declared(content, source=Completed(content), partitions_def=HOURS, former_partitions=FORMER)
    with pytest.raises(SchemaMismatch, match=f"the log has no complete load of {day(2)}"):
        changed.load(hour(0))
    days.load(2)
    with pytest.raises(SchemaMismatch, match=f"the log has no complete load of {day(2)}"):
        changed.load(hour(0))
    content[day(2)] = [item("b", "1", 1, complete="")]
    days.load(2)
    changed.load(hour(0))
    assert len(changed.rows()) == 3


def test_a_wiped_instance_is_rebuilt_and_closed_windows_are_proven_without_an_event(changed: Loaded) -> None:
    changed.load(hour(0))
    with dg.DagsterInstance.ephemeral() as wiped:
        found = rebuild(changed.context(), wiped)
        assert (found.proven, found.closed, found.refused) == ([hour(0)], [day(1), day(2)], {})
        assert wiped.get_materialized_partitions(changed.table.key) == {hour(0)}
        assert "1 rebuilt, 0 known already, 0 not proven, 2 closed and proven" in found.summary("items", dry_run=False)
        [closed] = table_status(wiped, changed.table, changed.lake, AFTER).closed
        assert str(closed) == "closed: 2 windows, daily until 2026-01-03T00:00+00:00"
        delta = changed.lake.delta(changed.uri)
        assert delta is not None
        delta.delete("id = 'c'")
        lost = rebuild(changed.context(), wiped)
        assert lost.closed == [day(2)]
        assert list(lost.refused) == [day(1)] and "it is closed; RESTORE" in lost.refused[day(1)]


def test_a_closed_window_is_neither_loaded_nor_undone(changed: Loaded) -> None:
    changed.load(hour(0))
    with pytest.raises(IncrementalLoadError, match=f"{day(1)}': closed"):
        changed.table.window_of(day(1))
    plans = plan_undo(changed.table, changed.lake, None, Undo("2020-01-01"))
    assert {plan.window: "closed" in plan.refused for plan in plans} == {day(1): True, day(2): True, hour(0): False}


def test_the_log_of_closed_windows_is_compacted(changed: Loaded) -> None:
    changed.load(hour(0))
    load = changed.context()
    done = compact(
        load, datetime(2026, 1, 3, tzinfo=UTC), lambda keys: {k: load.log.records()[k].fingerprint for k in keys}
    )
    assert (done.windows, done.before, done.removed) == (2, 4, 1)
    assert changed.load(hour(1)).evidence.pending == 0
    assert changed.rows() == ORACLE


def test_what_comes_late_for_a_closed_window_is_reported_and_not_read(changed: Loaded, declared: Declare) -> None:
    content = {**CONTENT}
    eras = [Era(DAYS, UNTIL, source=LiteralSource(content))]
    asked = declared(content, source=Touchy(content), partitions_def=HOURS, former_partitions=eras)
    records = asked.context().log.records()
    assert late_for_closed(asked.table, asked.lake, records) == {}
    content[day(2)] = [*CONTENT[day(2)], former("late", "2", 4)]
    assert late_for_closed(asked.table, asked.lake, records) == {day(2): "2 rows"}
    with dg.DagsterInstance.ephemeral() as instance:
        result = gaps(look(instance, asked.table, asked.lake, datetime(2026, 1, 3, 1, tzinfo=UTC)))
    assert not result.passed and "other data than was loaded for 1 closed window" in (result.description or "")


@pytest.mark.parametrize(
    ("write", "options"),
    [
        (History(), {}),
        (Append(), {"changes": Changes(keys=["id"])}),
        (Overwrite(partition_by="at"), {"contract": StampedItem, "changes": Changes()}),
    ],
    ids=["history", "append", "overwrite"],
)
def test_each_way_of_writing_gives_the_table_of_one_definition(
    spark: SparkSession, tmp_path: Path, declared: Declare, write: Write, options: dict[str, Any]
) -> None:
    content = {
        day(1): [former("a", "1", 1, at="2026-01-01T05:00:00Z")],
        day(2): [former("b", "1", 2, at="2026-01-02T05:00:00Z")],
        hour(4): [item("a", "2", 3, at="2026-01-03T04:00:00Z")],
    }
    days = declared(content, write=write, **options)
    days.load(1), days.load(2)
    changed = declared(content, write=write, partitions_def=HOURS, former_partitions=FORMER, **options)
    changed.load(hour(4))
    whole = {day(1): content[day(1)], day(2): content[day(2)], day(3): content[hour(4)]}
    oracle = make(spark, tmp_path, whole, write=write, name="oracle", **options)
    for number in (1, 2, 3):
        oracle.load(number)
    assert changed.rows(*changed.table.schema.names) == oracle.rows(*changed.table.schema.names)
    with dg.DagsterInstance.ephemeral() as wiped:
        found = rebuild(LoadContext(spark, changed.table, changed.lake), wiped)
    assert (found.closed, found.proven, found.refused) == ([day(1), day(2)], [hour(4)], {})
