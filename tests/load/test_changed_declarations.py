"""Tables that are there, and a declaration that has changed: their rows follow it, or nothing is written."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.functions as F
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession

from incload_assets.assets import Append, Changes, DeleteInsert, Fold, History, Merge, Overwrite, Snapshot
from incload_assets.declaration.write import Write
from incload_assets.platform.errors import SchemaMismatch
from tests.support.tables import DatedItem, Item, Loaded, day, item, make
from tests.writes.case_fold import Tally

HOURS = dg.HourlyPartitionsDefinition("2026-01-01-00:00")


class SubItem(Item):
    """An item of two keys."""

    sub: T.StringType = pa.Field(nullable=False)


class MoreItem(Item):
    """An item with an extra column."""

    extra: T.StringType = pa.Field(nullable=True)


class TwiceOrdered(Item):
    """An item that can be ordered by another column."""

    seq2: T.LongType = pa.Field(nullable=True)


class Narrow(Item):
    """An item with a member."""

    part: T.StructType([T.StructField("b", T.StringType())]) = pa.Field(nullable=True)  # type: ignore[valid-type]


class Wide(Item):
    """An item with a member more, before the other."""

    part: T.StructType(  # type: ignore[valid-type]
        [T.StructField("a", T.StringType()), T.StructField("b", T.StringType())]
    ) = pa.Field(nullable=True)


Declare = Callable[..., Loaded]


@pytest.fixture
def declared(spark: SparkSession, tmp_path: Path) -> Declare:
    """Declares one table, in whatever way, with its code version worked out."""

    def declare(content: dict[str, list[Any]], **options: Any) -> Loaded:
        return make(spark, tmp_path, content, **({"code_version": None} | options))

    return declare


@pytest.mark.parametrize("write", [Merge(buckets=8), History(buckets=8)], ids=["merge", "history"])
def test_a_table_in_buckets_is_not_written_with_its_keys_in_another_order(declared: Declare, write: Write) -> None:
    content = {day(n): [item(f"k{i}", "v", n, sub=f"s{i}") for i in range(4)] for n in (1, 2)}
    declared(content, contract=SubItem, write=write, keys=["id", "sub"]).load(1)
    turned = declared(content, contract=SubItem, write=write, keys=["sub", "id"])
    before = turned.files()
    with pytest.raises(SchemaMismatch, match=r"bucket_keys id, sub, .*declared is .*bucket_keys sub, id"):
        turned.load(2)
    assert turned.files() == before
    plain = declared(content, contract=SubItem, write=write, keys=["id", "sub"])
    assert plain.load(2).evidence.applied == 4


FOLDED = {
    "write": Fold(sums=["amount"], mins=["least"]),
    "contract": Tally,
    "changes": Changes(keys=["id"], sequence_by=["seq"]),
}
OVERWRITTEN = {"write": Overwrite(partition_by="day"), "contract": DatedItem, "changes": Changes()}


@pytest.mark.parametrize(
    ("options", "windows"),
    [
        (FOLDED, HOURS),
        (OVERWRITTEN, dg.DailyPartitionsDefinition("2026-01-01", timezone="Europe/Berlin")),
        ({"write": Merge()}, dg.DailyPartitionsDefinition("20260101", fmt="%Y%m%d")),
    ],
    ids=["hours", "another time zone", "other names"],
)
def test_a_table_is_not_written_by_windows_of_another_definition(
    declared: Declare, options: dict[str, Any], windows: dg.TimeWindowPartitionsDefinition
) -> None:
    row = item("a", "x", 1, amount="5", least="x", day=day(1))
    first = windows.get_first_partition_key()
    assert first
    content = {day(1): [row], first: [row]}
    daily = declared(content, **options)
    daily.load(1)
    rows = daily.rows()
    with pytest.raises(SchemaMismatch, match=r"incload.windows 0 0 \* \* \* UTC %Y-%m-%d, declared is"):
        declared(content, partitions_def=windows, **options).load(first)
    assert daily.rows() == rows
    assert not daily.replay(daily.load(1)).ingested


def test_a_later_start_is_no_other_definition(declared: Declare) -> None:
    content = {day(n): [item("a", "x", n)] for n in (1, 2)}
    declared(content).load(1)
    later = declared(content, partitions_def=dg.DailyPartitionsDefinition("2026-01-02", end_offset=1))
    later.load(2)
    assert later.rows() == {("a", "x", 2)}


def test_a_snapshot_may_come_by_the_hour_from_now_on(declared: Declare) -> None:
    content = {day(1): [item("a", "old", 1)], "2026-01-01-05:00": [item("b", "new", 2)]}
    options: dict[str, Any] = {"write": Snapshot(max_shrink=1.0), "changes": Changes(keys=["id"], sequence_by=["seq"])}
    declared(content, **options).load(1)
    hourly = declared(content, partitions_def=HOURS, **options)
    hourly.load("2026-01-01-05:00")
    assert hourly.rows() == {("b", "new", 2)}


def test_a_history_is_not_written_with_other_names_of_its_columns(declared: Declare) -> None:
    content = {day(n): [item("a", f"v{n}", n)] for n in (1, 2)}
    declared(content, write=History()).load(1)
    with pytest.raises(SchemaMismatch, match="versions begins, valid_to, is_current"):
        declared(content, write=History(valid_from="begins")).load(2)


def test_versions_are_those_of_another_sequence_when_all_windows_were_loaded_again(declared: Declare) -> None:
    content = {day(1): [item("a", "v1", 1, seq2="100")], day(2): [item("a", "v2", 2, seq2="50")]}
    options: dict[str, Any] = {"contract": TwiceOrdered, "write": History(track=["value"])}
    before = declared(content, **options)
    for window in (1, 2):
        before.load(window)
    after = declared(content, changes=Changes(keys=["id"], sequence_by=["seq2"]), **options)
    for window in (1, 2):
        after.load(window)
    assert after.rows("value", "valid_from", "valid_to") == {("v2", 50, 100), ("v1", 100, None)}


def test_whole_changes_count_as_such_when_all_windows_were_loaded_again(declared: Declare) -> None:
    ids = [f"k{n}" for n in range(8)]
    content = {
        day(1): [{"id": id, "value": "v", "seq": "1", "op": "u"} for id in ids],
        day(2): [{"id": id, "extra": "o", "seq": "2", "op": "u"} for id in ids],
    }
    for write in (Merge(partial=True), Merge()):
        table = declared(content, contract=MoreItem, write=write)
        for window in (1, 2):
            table.load(window)
    assert table.rows("id", "value", "seq", "extra") == {(id, None, 2, "o") for id in ids}


@pytest.mark.parametrize("write", [Merge(partial=True), History(partial=True)], ids=["merge", "history"])
def test_changes_from_before_a_column_was_declared_leave_it_as_it_is(declared: Declare, write: Write) -> None:
    content: dict[str, list[Any]] = {
        day(1): [{"id": "a", "value": "v5", "seq": "5", "op": "u"}, {"id": "b", "value": "v5", "seq": "5", "op": "u"}],
        day(2): [{"id": id, "extra": "x", "seq": "3", "op": "u"} for id in "ab"],
        day(3): [{"id": "b", "extra": None, "seq": "4", "op": "u"}],
    }
    declared(content, write=write).load(1)
    more = declared(content, contract=MoreItem, write=write)
    for window in (2, 3):
        more.load(window)
    expected = {("a", "v5", 5, "x"), ("b", "v5", 5, None)}
    if isinstance(write, History):
        expected |= {("a", None, 3, "x"), ("b", None, 3, "x"), ("b", None, 4, None)}
    assert more.rows("id", "value", "seq", "extra") == expected
    more.load(1)
    assert more.rows("id", "value", "seq", "extra") == expected


def test_no_column_of_events_without_keys_is_left_out(declared: Declare) -> None:
    content: dict[str, list[Any]] = {day(1): [item("a", "x", 1, extra=extra) for extra in "12"]}
    options: dict[str, Any] = {"write": Append(), "changes": Changes()}
    all_of_it = declared(content, contract=MoreItem, **options)
    all_of_it.load(1)
    with pytest.raises(SchemaMismatch, match="'extra', which the declaration lacks"):
        declared(content, **options).load(1)
    assert len(all_of_it.rows()) == 2


NAMES: Sequence[str] = ("w", "count", "t", "s", "log")


@pytest.mark.parametrize(
    "write",
    [
        Snapshot(max_shrink=1.0),
        Merge(partial=True),
        Merge(soft_delete="gone"),
        History(),
        History(partial=True),
        DeleteInsert(by=["count"]),
    ],
    ids=lambda write: type(write).__name__,
)
def test_columns_may_have_any_name(declared: Declare, write: Write) -> None:
    """Of the loader's own columns all but a few begin with an underscore; those are nobody's business."""
    model = type("Named", (pa.DataFrameModel,), {
        "__annotations__": dict.fromkeys([*NAMES, "seq"], T.StringType) | {"seq": T.LongType},
        **{name: pa.Field(nullable=name != "count") for name in (*NAMES, "seq")},
    })  # fmt: skip
    rows = [{**dict.fromkeys(NAMES, f"x{n}"), "count": "a", "seq": str(n), "op": "u"} for n in (1, 2)]
    changes = Changes(keys=["count"], sequence_by=["seq"], delete_when="op = 'd'" if write.deletes else None)
    table = declared({day(n): [rows[n - 1]] for n in (1, 2)}, contract=model, write=write, changes=changes)
    for window in (2, 1, 2):
        table.load(window)
    assert ("a", "x2", 2) in table.rows("count", "w", "seq")


@pytest.mark.parametrize("gone", ["the table", "the log"])
def test_a_table_or_log_that_is_made_again_agrees_with_the_other_though_members_are_declared_in_another_order(
    declared: Declare, gone: str
) -> None:
    content = {day(n): [item(f"k{n}", "v", n)] for n in (1, 2)}

    def narrow(rows: DataFrame) -> DataFrame:
        return rows.withColumn("part", F.struct(F.col("value").alias("b")))

    def wide(rows: DataFrame) -> DataFrame:
        return rows.withColumn("part", F.struct(F.col("id").alias("a"), F.col("value").alias("b")))

    declared(content, contract=Narrow, function=narrow, code_version="1").load(1)
    table = declared(content, contract=Wide, function=wide, code_version="2")
    for number in (1, 2):
        table.load(number)
    shutil.rmtree(table.uri if gone == "the table" else table.lake.log_uri(table.table.key.path))
    for number in (1, 2):
        assert table.load(number).evidence.pending == 0
    delta = table.lake.delta(table.uri)
    assert delta is not None
    found = {row["id"]: row["part"] for row in delta.to_pyarrow_table(columns=["id", "part"]).to_pylist()}
    assert found == {"k1": {"a": "k1", "b": "v"}, "k2": {"a": "k2", "b": "v"}}
