"""A table with a change feed: what a reader of the feed sees, and what the feed spares it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, DeleteInsert, FullReload, History, Merge, Overwrite
from incload_assets.declaration.evolution import Evolution
from incload_assets.declaration.write import FEED_COLUMNS, Write
from incload_assets.history.feed import Feed, feed_of
from incload_assets.maintenance import compact_files
from incload_assets.maintenance.rebucket import rebucket
from incload_assets.platform.errors import DeclarationError, IncrementalLoadError, SourceMissing
from tests.support.documents import documented_block
from tests.support.feeds import Follower
from tests.support.tables import DatedItem, Item, Loaded, StampedItem, day, item, make

FED = Merge(change_feed=True)
RUN = "2f9e1c1e-1111-4222-8333-444455556666"


class Named(pa.DataFrameModel):
    """An item with a personal value."""

    id: T.StringType = pa.Field(nullable=False)
    value: T.StringType = pa.Field(nullable=True, metadata={"personal": True})
    seq: T.LongType = pa.Field(nullable=True)


class Wider(pa.DataFrameModel):
    """An item with another column, and a number of a wider type."""

    id: T.StringType = pa.Field(nullable=False)
    n: T.LongType = pa.Field(nullable=True)
    seq: T.LongType = pa.Field(nullable=True)
    extra: T.StringType = pa.Field(nullable=True)


class Narrow(pa.DataFrameModel):
    """The same before."""

    id: T.StringType = pa.Field(nullable=False)
    n: T.IntegerType = pa.Field(nullable=True)
    seq: T.LongType = pa.Field(nullable=True)


def three_days() -> dict[str, list[Any]]:
    return {
        day(1): [item(key, "a", 1) for key in ("kept", "changed", "deleted")],
        day(2): [item("kept", "a", 1), item("changed", "b", 2), item("deleted", None, 2, "d"), item("new", "b", 2)],
        day(3): [item("changed", "c", 3)],
    }


def shown(table: Loaded, since: str, limit: int = 50) -> Feed:
    return feed_of(table.table, table.lake, since, limit=limit)


def test_a_feed_has_the_rows_that_changed_and_none_of_repetitions_and_compactions(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(spark, tmp_path, three_days(), contract=Named, write=FED)
    with pytest.raises(SourceMissing, match="there is no table yet"):
        shown(table, "0")
    reader = Follower(table.uri)
    table.content[day(4)] = [item("in a file of its own", "a", 1)]
    for number in (1, 4, 2):
        table.load(number, run_id=f"{number}{RUN}")
        reader.check()
    seen = {"insert": 5, "update_preimage": 1, "update_postimage": 1, "delete": 1}
    assert reader.kinds == seen
    table.load(2, run_id="again")
    monkeypatch.setattr(compact_files, "MANY", 1)
    assert compact_files.compact_files(table.context()).before > 0
    reader.check()
    assert reader.kinds == seen
    table.content[day(1)].pop(0)  # of the windows left, the second has the row, too
    table.load(1)
    reader.check()
    assert reader.kinds == seen

    found = shown(table, f"2{RUN}"[:9])
    assert [(one.windows, one.runs, one.inserted, one.updated, one.deleted) for one in found.commits] == [
        (day(2), (f"2{RUN}",), 1, 1, 1)
    ]
    rows = [(row.change, row.values["id"], row.values["value"], row.values["seq"]) for row in found.rows]
    assert rows == [
        ("update_preimage", "changed", "***", 1),
        ("update_postimage", "changed", "***", 2),
        ("delete", "deleted", "***", 1),
        ("insert", "new", "***", 2),
    ]
    assert shown(table, "0").counts == shown(table, "1h").counts == (5, 1, 1)
    assert [len(shown(table, "0", limit).rows) for limit in (0, 4, 99)] == [0, 4, 8]
    newest = reader.version
    assert shown(table, str(newest + 1)).commits == ()
    with pytest.raises(IncrementalLoadError, match=f"has no version {newest + 2} and no commit of such a run"):
        shown(table, str(newest + 2))
    with pytest.raises(IncrementalLoadError, match="'yesterday' is no version, no time and no duration"):
        shown(table, "yesterday")


def test_what_is_no_longer_kept_is_an_error_with_the_retention_and_the_remedy(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(spark, tmp_path, three_days(), write=FED)
    for number in (1, 2, 3):
        table.load(number)
    newest = table.lake.version(table.uri)
    for file in Path(table.uri, "_change_data").glob("*.parquet"):
        file.unlink()
    with pytest.raises(IncrementalLoadError, match=r"files of the versions 0 to .* are no longer kept.*1 week"):
        shown(table, "0")
    DeltaTable(table.uri).create_checkpoint()
    os.remove(Path(table.uri, "_delta_log", f"{0:020}.json"))
    for since in ("0", "90d"):
        with pytest.raises(
            IncrementalLoadError, match=r"the changes before version 1, .*30 days.* reads the whole table again"
        ):
            shown(table, since)
    assert newest is not None and shown(table, str(newest + 1)).rows == ()


def test_an_existing_table_has_a_feed_from_its_next_load_on_and_keeps_it(spark: SparkSession, tmp_path: Path) -> None:
    before = make(spark, tmp_path, three_days())
    before.load(1)
    with pytest.raises(IncrementalLoadError, match=r"has no change feed.*write Merge\(change_feed=True\)"):
        shown(before, "0")
    reader = Follower.of_now(before.uri)
    table = make(spark, tmp_path, three_days(), write=FED)
    table.load(2)
    begins = reader.version + 1
    reader.check()
    assert reader.kinds == {"insert": 1, "update_preimage": 1, "update_postimage": 1, "delete": 1}
    with pytest.raises(IncrementalLoadError, match=f"its change feed begins with version {begins}"):
        shown(table, "0")
    before.load(3)  # by code that does not declare it
    reader.check()
    assert reader.kinds["update_postimage"] == 2
    assert shown(table, str(begins)).counts == (1, 2, 1)


def test_a_reader_goes_on_through_wider_types_and_new_columns(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(1): [item("a", "1", 1, n="1"), item("b", "1", 1, n="2")],
        day(2): [item("a", "2", 2, n="3", extra="x")],
    }
    table = make(spark, tmp_path, content, write=FED, contract=Narrow)
    table.load(1)
    reader = Follower(table.uri)
    reader.check()
    wider = make(spark, tmp_path, content, write=FED, contract=Wider, evolution=Evolution(widen="apply"))
    wider.load(2)
    reader.check()
    Follower(table.uri).check()


def rows_of_overwrite(*ids: str) -> list[Any]:
    return [item(id, "a", 1, day=day(1)) for id in ids]


SPARED: list[tuple[Write, Changes, Any, dict[str, int]]] = [
    (Overwrite(partition_by="day", change_feed=True), Changes(), DatedItem, {"insert": 3, "delete": 3}),
    (FullReload(max_shrink=1.0, change_feed=True), Changes(), DatedItem, {"insert": 3, "delete": 3}),
    (Append(change_feed=True), Changes(), DatedItem, {"insert": 2, "delete": 1}),
]


@pytest.mark.parametrize(("write", "changes", "contract", "kinds"), SPARED, ids=lambda value: type(value).__name__)
def test_a_window_that_is_replaced_tells_of_the_rows_that_differ_alone(
    spark: SparkSession, tmp_path: Path, write: Write, changes: Changes, contract: Any, kinds: dict[str, int]
) -> None:
    content = {day(1): rows_of_overwrite("same", "same", "same too", "fewer", "fewer", "gone")}
    table = make(spark, tmp_path, content, contract=contract, changes=changes, write=write)
    table.load(1)
    assert shown(table, "0").commits[0].inserted == (6 if kinds["delete"] == 3 else 4)
    reader, version = Follower.of_now(table.uri), table.lake.version(table.uri) or 0
    content[day(1)] = rows_of_overwrite("same", "same", "same too", "fewer", "new", "other")
    table.load(1)
    assert table.lake.version(table.uri) == version + 1, "nothing had to be repaired"
    reader.check()
    assert reader.kinds == kinds


def test_rows_that_leave_a_partition_are_deleted_and_missing_copies_inserted(
    spark: SparkSession, tmp_path: Path
) -> None:
    def at(id: str, hour: int) -> Any:
        return item(id, "a", 1, at=f"2026-01-01T{hour:02}:00:00Z")

    content = {day(1): [at("moves", 1), at("more", 2)]}
    write = Overwrite(partition_by="at", change_feed=True)
    table = make(spark, tmp_path, content, contract=StampedItem, changes=Changes(), write=write)
    table.load(1)
    since = (table.lake.version(table.uri) or 0) + 1
    content[day(1)] = [at("moves", 3), *[at("more", 2)] * 3]
    table.load(1)
    delta = table.lake.delta(table.uri)
    assert delta is not None
    assert sorted(delta.to_pyarrow_table()["id"].to_pylist()) == ["more"] * 3 + ["moves"]
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", since).load(table.uri)
    kinds = {row["_change_type"]: row["count"] for row in feed.groupBy("_change_type").count().collect()}
    assert kinds == {"insert": 3, "delete": 1}
    with pytest.raises(IncrementalLoadError, match=f"deltalake finds no file.*startingVersion={since}"):
        shown(table, str(since))


def test_history_and_groups_have_a_feed_of_what_they_change(spark: SparkSession, tmp_path: Path) -> None:
    for number, write in enumerate((History(change_feed=True), DeleteInsert(by=["id"], change_feed=True))):
        table = make(spark, tmp_path / str(number), three_days(), write=write, changes=None if not number else GROUPS)
        reader = Follower(table.uri)
        for window in (3, 1, 2, 1):
            table.load(window)
            reader.check()


GROUPS = Changes(sequence_by=["seq"], delete_when="op = 'd'")


@pytest.mark.parametrize("name", [*FEED_COLUMNS, "_Change_Type"])
def test_a_column_that_a_feed_adds_is_refused_when_it_is_declared(name: str) -> None:
    contract = type("Odd", (Item,), {"__annotations__": {name: T.StringType}, name: pa.Field(nullable=True)})
    with pytest.raises(DeclarationError, match=f"'{name}'. Rule: names that begin with an underscore are reserved"):
        make(None, Path("nowhere"), contract=contract, write=FED)  # type: ignore[arg-type]


def documented() -> dict[str, Any]:
    """The readers that the page shows, for tables whose key is ``id``."""
    names: dict[str, Any] = {}
    for block in ("def changes_after", "def follow_in_duckdb", "def follow_in_spark"):
        exec(compile(documented_block("python", block).replace("order_id", "id"), "tables.md", "exec"), names)
    return names


def test_the_readers_that_are_shown_go_on_where_they_were_and_read_the_table_again_where_versions_are_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    content, names = three_days(), documented()
    table, copy = make(spark, tmp_path, content, write=FED), f"{tmp_path}/copy"
    in_spark, from_duckdb = ("", -1), duckdb.connect()

    def follow() -> list[set[Any]]:
        nonlocal in_spark
        names["follow_in_duckdb"](from_duckdb, table.uri)
        in_spark = names["follow_in_spark"](spark, table.uri, copy, *in_spark)
        of_spark = {(row["id"], row["value"], row["seq"]) for row in DeltaTable(copy).to_pyarrow_table().to_pylist()}
        return [set(from_duckdb.execute("SELECT id, value, seq FROM orders").fetchall()), of_spark]

    def delete_and_revive() -> None:
        """In one read a key is deleted and comes back."""
        content[day(4)] = [item("changed", None, 4, "d"), item("kept", None, 4, "d")]
        table.load(4)
        content[day(5)] = [item("changed", "d", 5)]
        table.load(5)

    def forget() -> None:
        """Delta keeps no commit that the readers do not have yet."""
        content[day(6)] = [item("kept", "e", 6)]
        table.load(6)
        content[day(7)] = [item("new", None, 7, "d")]
        table.load(7)
        DeltaTable(table.uri).create_checkpoint()
        newest = table.lake.version(table.uri) or 0
        for version in range(newest):
            Path(table.uri, "_delta_log", f"{version:020}.json").unlink(missing_ok=True)

    def make_again() -> None:
        """The table is lost, and loads make it again, with as many versions as before."""
        versions = table.lake.version(table.uri) or 0
        shutil.rmtree(table.uri)
        while (table.lake.version(table.uri) or 0) <= versions:
            table.content[day(1)] = [item("changed", "z", 50 + (table.lake.version(table.uri) or 0))]
            table.load(1)

    steps: list[Callable[[], Any]] = [
        lambda: table.load(1),
        lambda: table.load(2),
        lambda: None,
        lambda: table.load(3),
        delete_and_revive,
        forget,
        make_again,
    ]
    for step in steps:
        step()
        right = table.rows("id", "value", "seq")
        assert follow() == [right, right], step.__doc__
    copied = DeltaTable(copy).history()
    assert [one["operation"] for one in reversed(copied)] == ["WRITE", "MERGE", "MERGE", "MERGE", "WRITE", "WRITE"]


def test_a_window_that_moved_to_partitions_without_rows_is_replaced_in_one_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    weeks = dg.TimeWindowPartitionsDefinition(start="2026-01-01", cron_schedule="0 0 */5 * *", fmt="%Y-%m-%d")
    content = {day(1): [item("a", "1", 1, day=day(1)), item("b", "1", 1, day=day(2))]}
    write = Overwrite(partition_by="day", change_feed=True)
    table = make(spark, tmp_path, content, contract=DatedItem, changes=Changes(), write=write, partitions_def=weeks)
    table.load(day(1))
    reader = Follower.of_now(table.uri)
    content[day(1)] = [item("c", "1", 1, day=day(3))]
    report = table.load(day(1))
    assert (report.merged.inserted, report.merged.deleted) == (1, 2)
    assert report.table_version == reader.version + 1
    reader.check()


def test_a_reader_of_a_table_that_gets_another_number_of_buckets_has_its_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = three_days()
    table = make(spark, tmp_path, content, write=Merge(buckets=4, change_feed=True))
    table.load(1)
    reader = Follower.of_now(table.uri)
    wider = make(spark, tmp_path, content, write=Merge(buckets=6, change_feed=True))
    rebucket(wider.context())
    wider.load(2)
    reader.check()
    assert reader.kinds["insert"] == 1 and reader.kinds["delete"] == 1
