"""A Delta table that no load has made is adopted: its rows become the oldest changes of its log."""

from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Merge, Overwrite, Quarantine
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.layout import bucket_sql
from incload_assets.declaration.window import window_of
from incload_assets.load.reconcile import examine
from incload_assets.recovery import base_rows
from incload_assets.recovery.adopt import adopt
from incload_assets.recovery.base_rows import Base, base_window
from incload_assets.writes.strategy import strategy_of
from resources.errors import SchemaMismatch
from tests.support.literal_source import Record
from tests.support.tables import DAYS, Loaded, day, item, make
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
    return LoadContext(table.spark, table.table, table.lake)


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
    keys = [*load.log.controls(), *base.keys]
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
