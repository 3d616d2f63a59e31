"""A Delta table that no load has made is adopted: its rows become the oldest changes of its log."""

import re
import shutil
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Changes, Fold, FullReload, History, Merge, Overwrite, Quarantine, Snapshot
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import base_keys, window_records_of
from incload_assets.declaration.layout import bucket_sql
from incload_assets.declaration.window import window_of
from incload_assets.declaration.write import Write
from incload_assets.history.row_trace import trace_row
from incload_assets.load import base_rows
from incload_assets.load.base_rows import Base, base_window
from incload_assets.load.reconcile import examine
from incload_assets.platform.errors import SchemaMismatch
from incload_assets.platform.lake import Lake
from incload_assets.progress.audit import audit_uri
from incload_assets.restore.adopt import adopt
from incload_assets.restore.rebuild import rebuild
from incload_assets.trial.literal_source import Record
from incload_assets.writes.strategy import strategy_of
from tests.support.tables import DAYS, DatedItem, Loaded, day, item, make
from tests.writes.case import SEED, Case, Content, hashes_of
from tests.writes.case_append import APPEND, APPEND_ROWS
from tests.writes.case_delete_insert import DELETE_INSERT
from tests.writes.case_merge import MERGE, newest
from tests.writes.case_merge_partial import MERGE_PARTIAL
from tests.writes.case_merge_partitioned import MERGE_PARTITIONED
from tests.writes.case_merge_soft_delete import MERGE_SOFT_DELETE
from tests.writes.case_overwrite import OVERWRITE

BUCKETED = Case("merge_bucketed", Merge(buckets=3), newest, columns=("id", "value", "seq"))
CASES = (
    MERGE,
    BUCKETED,
    MERGE_PARTITIONED,
    MERGE_PARTIAL,
    MERGE_SOFT_DELETE,
    APPEND,
    APPEND_ROWS,
    DELETE_INSERT,
    OVERWRITE,
)


class Killed(Exception):
    """Stands for the end of the process."""


def frame(table: Loaded, records: Iterable[Record], deleted: Iterable[str] = ()) -> DataFrame:
    """The rows of a table, as somebody else would write them."""
    marks, names = set(deleted), table.table.columns
    rows = [
        (*(_value(table.table.type_of(name), record.get(name)) for name in names), record["id"] in marks)
        for record in records
    ]
    schema = T.StructType([*table.table.contract.schema.fields, T.StructField("is_deleted", T.BooleanType())])
    made = table.spark.createDataFrame(rows, schema)
    if not getattr(table.table.write, "soft_delete", None):
        made = made.drop("is_deleted")
    bucket = bucket_sql(table.table)
    return made.withColumn("_bucket", F.expr(bucket)) if bucket else made


def _value(kind: T.DataType, text: str | None) -> Any:
    if text is None or isinstance(kind, T.StringType):
        return text
    return date.fromisoformat(text) if isinstance(kind, T.DateType) else int(text)


def write(table: Loaded, rows: DataFrame, *, files: int = 1) -> None:
    """Write the table by plain Spark."""
    rows.repartition(files).write.format("delta").partitionBy(*table.table.write.stored_by).save(table.uri)


def context(table: Loaded) -> LoadContext:
    return table.context()


def random_content(case: Case) -> Content:
    """Random changes of few keys, with ties, repetitions, NULL sequences, and older and newer deletes."""
    chance, deletes = Random(SEED), case.changes.delete_when is not None
    content: Content = {}
    for number in range(1, 5):
        rows = [
            item(str(chance.randint(1, 12)), chance.choice(["", "a", "b", None]), chance.choice([None, 0, 1, 2, 3]),
                 chance.choice("uud") if deletes and number > 1 else "u")
            for _ in range(20)
        ]  # fmt: skip
        for row in rows:
            if case is MERGE_PARTIAL and row["op"] == "u":
                row |= {"other": chance.choice("xy")}
                if number > 1:
                    del row[chance.choice(["value", "other"])]
            if case is MERGE_PARTITIONED:
                row |= {"day": day(1 + int(row["id"] or 0) % 3)}
            if case is OVERWRITE:
                row |= {"day": day(chance.choice([number, 1 + number % 4]) if number > 1 else chance.choice([1, 2]))}
        content[day(number)] = rows
    if case.changes.truncate_when:
        content[day(3)].append(item(None, None, 1, "t"))
    return content


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_table_is_the_fold_of_what_it_had_and_of_all_changes_and_killed_adoptions_go_on(
    spark: SparkSession, tmp_path: Path, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_rows, "ROWS_AT_ONCE", 1)
    content = random_content(case)
    table = make(spark, tmp_path, content, quarantine=Quarantine(max_share=1.0), **case.declared)
    base = content.pop(day(1))
    if case is APPEND_ROWS:
        base = [*{(r["id"], r["value"], r["seq"]): r for r in base}.values()]
    elif case is not OVERWRITE:
        base = [*{r["id"]: r for r in base}.values()]
    deleted = [r["id"] for r in base[::2]] if case is MERGE_SOFT_DELETE else []
    write(table, frame(table, base, deleted), files=1 if case is DELETE_INSERT else 3)
    had = {day(1): base + [r | {"op": "d"} for r in base if r["id"] in deleted]}
    if case is OVERWRITE:
        had = {day(n): [r for r in base if r["day"] == day(n)] for n in (1, 2)}
    files = table.files()

    assert adopt(context(table), dry_run=True).rows == len(base)
    assert table.lake.delta(table.lake.log_uri(table.table.key.path)) is None
    chunks = adopt(context(table), dry_run=True).base.chunks
    if chunks > 1:
        with pytest.raises(Killed):
            adopt(context(table), done=_killed_after(1))
        with pytest.raises(SchemaMismatch, match="not complete"):
            table.load(2)
    done = adopt(context(table))
    assert (done.landed, done.there) == ((chunks - 1, 1) if chunks > 1 else (chunks, 0))
    assert adopt(context(table)).before
    assert table.files() == files  # its rows stay where they are

    loaded: Content = dict(had)
    for number in (3, 2, 4):
        table.load(number)
        loaded[day(number)] = content.get(day(number), [])
        assert case.held(table) == case.right(table, loaded, hashes_of(table))
    for number in (2, 3):  # what is withdrawn leaves what was there before
        content[day(number)] = []
        loaded[day(number)] = []
        table.load(number)
        assert case.held(table) == case.right(table, loaded, hashes_of(table))
    assert pending(table, done.base) == 0  # a full fold of everything finds nothing to do


def pending(table: Loaded, base: Base) -> int:
    """The keys that a full fold of all windows and base rows would change."""
    load = context(table)
    keys = [*load.log.records(), *base.keys]
    views = tuple(base_window(key) if key in base.keys else window_of(DAYS, key) for key in keys)
    at = load.read_view(views, "test", of_range=True)
    if isinstance(table.table.write, Overwrite):
        at = load.read_view(views[: -len(base.keys) or None], "test", of_range=True)
    plan = strategy_of(table.table).plan(load, at, full=True)
    return sum(found.pending for found in examine(plan, at).values())


def _killed_after(number: int) -> Callable[[int, int], None]:
    def done(landed: int, total: int) -> None:
        if landed == number:
            raise Killed

    return done


def adopted(spark: SparkSession, folder: Path, records: list[Record], **options: Any) -> Loaded:
    table = make(spark, folder, **options)
    write(table, frame(table, records))
    adopt(context(table))
    return table


def test_a_table_that_changes_while_it_is_adopted_is_refused_until_the_adoption_begins_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_rows, "ROWS_AT_ONCE", 1)
    table = make(spark, tmp_path)
    write(table, frame(table, [item(str(n), "a", 1) for n in range(20)]), files=3)
    with pytest.raises(Killed):
        adopt(context(table), done=_killed_after(1))
    with pytest.raises(SchemaMismatch, match="not complete"):
        table.load(1)
    frame(table, [item("new", "b", 1)]).write.format("delta").mode("append").save(table.uri)
    with pytest.raises(SchemaMismatch, match="another writer committed WRITE"):
        adopt(context(table))
    done = adopt(context(table), again=True, because="the other writer is stopped")
    assert (done.rows, done.there) == (21, 0)
    log = table.lake.delta(table.lake.log_uri(table.table.key.path))
    assert log is not None and base_keys(log) == done.base.keys
    assert {row[0] for row in table.log("upsert", "id")} == {row[0] for row in table.rows("id")}
    assert sum(record.rows_read for record in window_records_of(log).values()) == 21
    [entry] = entries(table.lake)
    assert (entry["action"], entry["table"], entry["because"]) == ("adopt", "items", "the other writer is stopped")


def test_a_table_that_lost_adopted_rows_is_not_loaded_until_they_are_restored_from_the_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = adopted(spark, tmp_path, [item("old", "a", 1), item("both", "a", 1)])
    table.content[day(2)] = [item("both", "b", 2), item("new", "b", 1)]
    table.load(2)
    right = {("old", "a", 1), ("both", "b", 2), ("new", "b", 1)}
    assert table.rows() == right
    trace = trace_row(table.table, table.lake, {"id": "old"})
    assert trace.agrees and [change.window for change in trace.changes] == ["base 00001"]
    with dg.DagsterInstance.ephemeral() as instance:  # what goes through the windows of a log leaves out base rows
        assert rebuild(context(table), instance).proven == [day(2)]
    shutil.rmtree(table.uri)
    table.content[day(2)] = []
    with pytest.raises(SchemaMismatch, match="incload adopt items"):
        table.load(2)
    assert adopt(context(table)).restored == 2
    assert table.rows() == {("old", "a", 1), ("both", "b", 2)}
    table.load(2)
    assert table.rows() == {("old", "a", 1), ("both", "a", 1)}


def test_what_does_not_fit_is_refused_with_all_reasons_and_nothing_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(spark, tmp_path, contract=DatedItem, write=Merge(partition_by="day"))
    rows = frame(table, [item("a", "x", 1, day=day(1)), item("a", "y", 1, day=day(2))])
    rows.union(rows.selectExpr("NULL", "value", "seq", "day")).write.format("delta").save(table.uri)
    said = refused(table)
    statement = re.search(r"CREATE OR REPLACE TABLE .+ FROM delta\.`[^`]+`", said)
    assert statement is not None and "partitioned by []" in said
    spark.sql(
        statement.group().removesuffix(". Rule: each row of an adopted table becomes a change of its log, and loads")
    )
    said = refused(table)
    assert "2 rows with NULL in id" in said and "1 key with several rows, for example a" in said
    spark.sql(f"DELETE FROM {table.lake.sql_name(table.uri)} WHERE id IS NULL OR value = 'y'")
    spark.sql(f"ALTER TABLE {table.lake.sql_name(table.uri)} ADD COLUMNS (mine STRING)")
    found = adopt(context(table), dry_run=True)
    assert (
        found.rows == 1 and "mine is not in the contract" in found.notes[0] and "others have written" in found.notes[1]
    )
    narrow = make(spark, tmp_path, contract=Other, write=Merge(partition_by="day"))
    said = refused(narrow)
    assert "lacks the column more" in said and "column value is string, declared is bigint" in said
    assert table.lake.delta(table.lake.log_uri(table.table.key.path)) is None


@pytest.mark.parametrize(
    "write", [History(), Snapshot(), FullReload(), Fold(maxes=["value"])], ids=lambda write: type(write).__name__
)
def test_rows_that_are_no_changes_are_refused_with_the_reason(
    spark: SparkSession, tmp_path: Path, write: Write
) -> None:
    table = make(spark, tmp_path, write=write, changes=Changes(keys=["id"], sequence_by=["seq"]))
    with pytest.raises(SchemaMismatch, match="cannot be adopted") as error:
        adopt(context(table))
    assert error.value.rule and error.value.remedy


def refused(table: Loaded) -> str:
    with pytest.raises(SchemaMismatch) as error:
        adopt(context(table))
    return str(error.value)


def entries(lake: Lake) -> list[dict[str, Any]]:
    delta = lake.delta(audit_uri(lake))
    assert delta is not None
    return delta.to_pyarrow_table().to_pylist()


class Other(DatedItem):
    """Another contract than the table has."""

    value: T.LongType = pa.Field(nullable=True)
    more: T.StringType = pa.Field(nullable=False)
