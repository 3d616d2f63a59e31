"""Snapshot, sentence by sentence, on literal rows."""

from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Quarantine, Snapshot
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.window import window_of
from incload_assets.platform.errors import ContractViolation, DeclarationError
from incload_assets.writes.merge_into import app_id
from tests.load.test_load import bins
from tests.support.tables import GoodItem, Item, Loaded, day, item, make


class Placed(Item):
    """An item and its region."""

    region: T.StringType = pa.Field(nullable=True)


def declared(spark: SparkSession, folder: Path, content: dict[str, Any], **options: Any) -> Loaded:
    given = {"write": Snapshot(), "changes": Changes(keys=["id"]), "quarantine": Quarantine(max_share=1.0)}
    return make(spark, folder, content, **(given | options))


def test_the_newest_extract_is_the_table_and_only_what_differs_is_written(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(1): [item("1", "a", 1), item("2", "b", 1), item("3", "c", 1)],
        day(2): [item("1", "a", 1), item("2", None, 1), item("4", "d", None)],
        day(3): [item("4", "d", None), item("2", None, 1), item("1", "a", 1)],
    }
    table = declared(spark, tmp_path, content)
    assert bins(table.load(1).evidence) == (3, 0, 0, 0)
    merged = table.load(2).merged
    assert (merged.inserted, merged.updated, merged.deleted) == (1, 1, 1)
    files, expected = table.files(), {("1", "a", 1), ("2", None, 1), ("4", "d", None)}
    assert table.rows() == expected
    assert bins(table.load(3).evidence) == (3, 0, 0, 0)
    assert (table.files(), table.rows()) == (files, expected)
    content[day(1)] = [item(str(n), "late", 99) for n in range(9)]
    assert bins(table.load(1).evidence) == (0, 9, 0, 0)
    assert (table.files(), table.rows()) == (files, expected)


def test_of_two_rows_of_a_key_one_counts_and_both_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    rows = [item("1", "a", 2), item("1", "b", 1), item("1", "b", 1), item("2", "c", None), item("2", "d", 0)]
    ordered = declared(spark, tmp_path / "1", {day(1): rows}, changes=Changes(keys=["id"], sequence_by=["seq"]))
    assert bins(ordered.load(1).evidence) == (2, 2, 1, 0)
    assert ordered.rows() == {("1", "a", 2), ("2", "d", 0)}
    outcomes = []
    for number, content in enumerate((rows, rows[::-1])):
        table = declared(spark, tmp_path / f"unordered-{number}", {day(1): content})
        assert bins(table.load(1).evidence) == (2, 2, 1, 0)
        outcomes.append(table.rows("id", "value"))
    assert outcomes[0] == outcomes[1]


def test_an_empty_or_suddenly_small_extract_stops_and_deletes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    rows = [item(str(n), "a", 1) for n in range(4)]
    content = {day(1): rows, day(2): [], day(3): rows[:1], day(4): rows[:2]}
    table = declared(spark, tmp_path, content)
    table.load(1)
    for number, count in ((2, 0), (3, 1)):
        with pytest.raises(
            ContractViolation,
            match=f"{day(number)}: the extract has {count} acceptable rows, the extract before it, 2026-01-01, had 4.*"
            r"Snapshot\(max_shrink=1.0\)",
        ):
            table.load(number)
    assert len(table.rows()) == 4
    table.load(4)
    assert table.rows("id") == {("0",), ("1",)}
    anything = declared(spark, tmp_path, content | {day(5): []}, write=Snapshot(max_shrink=1.0))
    anything.load(5)
    assert anything.rows() == set()


def test_only_the_scope_is_compared(spark: SparkSession, tmp_path: Path) -> None:
    def placed(id: str, value: str, region: str | None) -> Any:
        return item(id, value, 1, region=region)

    table = declared(
        spark,
        tmp_path,
        {
            day(1): [placed("1", "a", "EU"), placed("2", "b", "EU"), placed("3", "c", "US"), placed("4", "d", None)],
            day(2): [placed("2", "B", "EU"), placed("9", "z", "EU")],
        },
        contract=Placed,
        write=Snapshot(scope="region = 'EU'"),
    )
    others = [("7", "u", 1, "US"), ("8", "n", 1, None), ("9", "moves", 1, "US")]
    table.written_by_another(others)
    assert bins(table.load(1).evidence) == (2, 0, 0, 2)
    assert table.log("rejected", "id", "_reasons") == [
        ("3", ["outside the snapshot's scope region = 'EU'"]),
        ("4", ["outside the snapshot's scope region = 'EU'"]),
    ]
    assert table.rows() == {("1", "a", 1, "EU"), ("2", "b", 1, "EU"), *others}
    table.load(2)
    assert table.rows() == {("2", "B", 1, "EU"), ("9", "z", 1, "EU"), *others[:2]}


@pytest.mark.parametrize(
    ("scope", "says"),
    [
        ("opp(value) = 'x'", r"Spark does not understand it \(UNRESOLVED_ROUTINE\)"),
        ("upper(value)", "it is string, neither true nor false"),
        ("value = 1", r"it cannot be worked out for a row \(CAST_INVALID_INPUT\)"),
    ],
)
def test_a_scope_that_spark_cannot_work_out_is_named(
    spark: SparkSession, tmp_path: Path, scope: str, says: str
) -> None:
    table = make(
        spark, tmp_path, {day(1): [item("1", "a", 1)]}, write=Snapshot(scope=scope), changes=Changes(keys=["id"])
    )
    with pytest.raises(DeclarationError, match=f"items 2026-01-01: write.scope is .*{says}.* Remedy: "):
        table.load(1)


def test_a_key_that_moves_to_another_partition_has_one_row(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(1): [item("1", "a", 1, region="EU"), item("2", "b", 1, region="EU"), item("3", "c", 1, region=None)],
        day(2): [item("1", "a", 1, region="US"), item("3", "c", 1, region="EU")],
    }
    write = Snapshot(partition_by="region")
    table = declared(spark, tmp_path, content, contract=Placed, write=write)
    table.load(1)
    merged = table.load(2).merged
    assert table.rows() == {("1", "a", 1, "US"), ("3", "c", 1, "EU")}
    assert (merged.inserted, merged.updated, merged.deleted) == (0, 2, 1)


def test_a_bad_row_does_not_delete_the_good_one_it_hides(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(1): [item("1", "a", 1), item("2", "b", 1), item("3", "c", 1)],
        day(2): [item("1", "bad", 2), item("2", "B", 2), item("5", "bad", 2)],
        day(3): [item("1", "bad", 3), item("2", "bad", 3)],
        day(4): [item("2", "good", 4), item(None, "x", 4)],
    }
    table = declared(spark, tmp_path, content, contract=GoodItem, write=Snapshot(max_shrink=1.0))
    table.load(1)
    assert bins(table.load(2).evidence) == (1, 0, 0, 2)
    assert table.rows() == {("1", "a", 1), ("2", "B", 2)}
    assert bins(table.load(3).evidence) == (0, 0, 0, 2)
    assert table.rows() == {("1", "a", 1), ("2", "B", 2)}
    table.load(4)  # one bad row whose key cannot be read: it could be any that is missing
    assert table.rows() == {("1", "a", 1), ("2", "good", 4)}


def test_a_bad_row_stands_for_whatever_the_extracts_before_it_say(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("1", "a", 1)], day(2): [item("1", "bad", 2)]}
    table = declared(spark, tmp_path, content, contract=GoodItem, write=Snapshot(max_shrink=1.0))
    table.load(2)
    assert table.rows() == set()
    assert bins(table.load(1).evidence) == (1, 0, 0, 0)
    assert table.rows() == {("1", "a", 1)}
    content[day(1)] = [item("1", "corrected", 1), item("4", "e", 1)]
    assert bins(table.load(1).evidence) == (1, 1, 0, 0)
    assert table.rows() == {("1", "corrected", 1)}


def test_without_delete_missing_each_key_has_the_row_of_the_newest_extract_with_the_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(1): [item("1", "a", 1), item("2", "b", 1)],
        day(2): [item("2", "B", 1), item("3", "c", 1)],
        day(3): [],
    }
    table = declared(spark, tmp_path, content, write=Snapshot(delete_missing=False))
    table.load(3)
    table.load(2)
    assert bins(table.load(1).evidence) == (1, 1, 0, 0)
    assert table.rows() == {("1", "a", 1), ("2", "B", 1), ("3", "c", 1)}
    content[day(2)] = []
    table.load(2)
    assert table.rows() == {("1", "a", 1), ("2", "b", 1)}


def test_a_forgotten_load_of_an_older_extract_cannot_bring_its_rows_back(spark: SparkSession, tmp_path: Path) -> None:
    table = declared(spark, tmp_path, {day(1): [item("1", "old", 1)], day(2): [item("2", "new", 2)]})
    table.load(1)
    context, write = LoadContext(spark, table.table, table.lake), table.table.write
    window = window_of(table.table.partitions_def, day(1))
    table.lake.delta(table.uri).delete()  # type: ignore[union-attr] # so that the load has something to write
    at = context.read_view((window,), app_id(table.table, window))
    forgotten = write.plan(context, at, full=True)
    table.load(2)
    assert write.apply(context, at, forgotten) is None
    assert table.rows() == {("2", "new", 2)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"write": Snapshot(max_shrink=-1)}, "items: write.max_shrink is -1.*from 0 to 1"),
        (
            {"write": Snapshot(scope="place = 'EU'")},
            "items: write.scope is .*, which names 'place'. Rule.*id, value, seq",
        ),
        ({"write": Snapshot(scope="value = = 1")}, "items: write.scope is .*, which cannot be parsed from '= 1' on"),
        ({"write": Snapshot(scope="seq < unix_timestamp()")}, "items: write.scope is .*, with current_timestamp in it"),
        ({"write": Snapshot(scope="seq < (SELECT 1)")}, "items: write.scope is .*, with a query in it"),
        ({"write": Snapshot(scope="1 = 1")}, "items: write.scope is '1 = 1', which names no column"),
        ({"changes": Changes()}, "items: changes.keys is empty"),
        ({"changes": Changes(keys=["id"], delete_when="op = 'd'")}, "Snapshot does not support deletes"),
    ],
)
def test_declarations_that_cannot_work_are_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DeclarationError, match=message):
        declared(spark, tmp_path, {}, **options)
