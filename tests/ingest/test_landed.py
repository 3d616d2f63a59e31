"""Rows of a log validated by another contract than the one by which they were landed: three rows each."""

from collections.abc import Sequence
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Changes, Masked, Merge
from incload_assets.assets.incremental import table_of
from incload_assets.declaration.table import Table
from incload_assets.ingest.landed import validated_from_log
from tests.support.tables import GoodItem, Item, day, declared

pytestmark = pytest.mark.reads

LOG = (
    "id string, value string, seq bigint, _kind string, _window string, _source struct<file: string, block: bigint, "
    "row: bigint>, _payload string, _rescued string, _unset array<string>"
)


def of(contract: type, **options: Any) -> Table:
    usual: dict[str, Any] = {"changes": Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'")}
    found = table_of(declared(contract=contract, **usual | options))
    assert found is not None
    return found


def validated(spark: SparkSession, table: Table, *rows: Sequence[Any], log: str = LOG) -> dict[str, list[str]]:
    """The reasons by key, of rows with key, value, sequence, kind, rescued fields and unset columns."""
    made = [
        (id, value, seq, kind, day(1), ("a.json", 0, number), None, rescued, unset)
        for number, (id, value, seq, kind, rescued, unset) in enumerate(rows)
    ]
    found = validated_from_log(spark.createDataFrame(made, log), table, [table.window_of(day(1))])
    return {row["id"]: row["_reasons"] for row in found.select("id", "_reasons").collect()}


def test_a_check_validates_upserts_and_not_deletes(spark: SparkSession) -> None:
    assert validated(
        spark,
        of(GoodItem),
        ("a", "bad", 1, "upsert", None, None),
        ("b", "good", 1, "upsert", None, None),
        ("c", "bad", 1, "delete", None, None),
    ) == {"a": ["value: 'bad' is the excluded bad"], "b": [], "c": []}


def test_another_type_converts_the_values_as_they_are_stored(spark: SparkSession) -> None:
    class Numbered(Item):
        value: T.IntegerType = pa.Field(nullable=True, ge=0)

    assert validated(
        spark,
        of(Numbered),
        ("a", "7", 1, "upsert", None, None),
        ("b", "seven", 1, "upsert", None, None),
        ("c", "-7", 1, "upsert", None, None),
    ) == {"a": [], "b": ["value: 'seven' is not int"], "c": ["value: '-7' not >= 0"]}


class Counted(Item):
    """An item with an extra column."""

    count: T.IntegerType = pa.Field(nullable=False, ge=0)


def test_a_new_column_is_taken_from_the_rescued_fields(spark: SparkSession) -> None:
    rows = (
        ("a", None, 1, "upsert", '{"count": "7"}', None),
        ("b", None, 1, "upsert", '{"count": "many"}', None),
        ("c", None, 1, "upsert", None, None),
    )
    expected = {"a": [], "b": ["count: 'many' is not int"], "c": ["count: NULL is not allowed"]}
    assert validated(spark, of(Counted), *rows) == expected
    stored = LOG.replace("_kind", "count int, _kind", 1)
    with_column = [(*row[:3], None, *row[3:]) for row in rows]
    made = [
        (id, value, seq, count, kind, day(1), ("a.json", 0, 0), None, rescued, unset)
        for id, value, seq, count, kind, rescued, unset in with_column
    ]
    table = of(Counted)
    found = validated_from_log(spark.createDataFrame(made, stored), table, [table.window_of(day(1))])
    assert {row["id"]: row["_reasons"] for row in found.collect()} == expected, "the column is there and not filled yet"


def test_columns_that_a_change_leaves_unset_are_not_missing(spark: SparkSession) -> None:
    class Valued(Counted):
        value: T.StringType = pa.Field(nullable=False)

    rows = (
        ("a", None, 1, "upsert", None, ["value"]),
        ("b", None, 1, "upsert", None, []),
        ("c", "x", 1, "upsert", '{"count": "1"}', []),
    )
    partial = of(Valued, write=Merge(partial=True))
    assert validated(spark, partial, *rows) == {"a": [], "b": ["value: NULL is not allowed"], "c": []}


def test_checks_of_protected_columns_are_not_made_again_and_the_others_are(spark: SparkSession) -> None:
    class Hidden(Item):
        value: T.StringType = pa.Field(nullable=True, isin=["x"], metadata={"personal": Masked(keep=0)})
        seq: T.LongType = pa.Field(nullable=False, ge=1)

    assert validated(
        spark,
        of(Hidden),
        ("a", "****", 1, "upsert", '{"count": "***"}', None),
        ("b", "****", 0, "upsert", None, None),
        ("c", None, None, "upsert", None, None),
    ) == {"a": [], "b": ["seq: '0' not >= 1"], "c": ["seq: NULL is not allowed"]}


def test_what_is_masked_is_no_value_of_a_column_that_is_declared_now(spark: SparkSession) -> None:
    class Hidden(Counted):
        value: T.StringType = pa.Field(nullable=True, metadata={"personal": Masked(keep=0)})
        count: T.IntegerType = pa.Field(nullable=True)

    assert validated(
        spark,
        of(Hidden),
        ("a", "****", 1, "upsert", '{"count": "***"}', None),
        ("b", "****", 1, "upsert", '{"other": "***"}', None),
        ("c", None, 1, "upsert", None, None),
    ) == {"a": [], "b": [], "c": []}


def test_the_columns_are_those_of_validated_rows(spark: SparkSession) -> None:
    made = [("a", "x", 1, "upsert", day(1), ("a.json", 0, 0), None, None, None)]
    table = of(Item)
    found = validated_from_log(spark.createDataFrame(made, LOG), table, [table.window_of(day(1))])
    assert found.columns == [
        *table.columns, "_kind", "_reasons", "_window", "_source", "_payload", "_rescued", "_hash"
    ]  # fmt: skip
    assert found.filter(F.size("_reasons") > 0).count() == 0
