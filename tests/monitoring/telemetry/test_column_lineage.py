"""Where columns come from, compared with what a person reads in the functions of the sample tables."""

import os
from collections.abc import Callable
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from incload_assets.assets import Append, Changes, Files, incremental_asset
from incload_assets.assets.incremental import table_of
from incload_assets.declaration.table import Table
from incload_assets.monitoring.telemetry.column_lineage import ColumnLineage, column_lineage
from incload_assets.tables.retail import articles, customer_features, daily_sales, events, orders, settings

Read = set[tuple[str, str, str]]


def declared(asset: dg.AssetsDefinition) -> Table:
    table = table_of(asset)
    assert table is not None
    return table


UPSTREAM = {tuple(table.key.path): table for table in map(declared, (orders.orders, events.events))}


def of(asset: dg.AssetsDefinition) -> ColumnLineage:
    found = column_lineage(declared(asset), UPSTREAM)
    assert found is not None
    return found


def read(lineage: ColumnLineage, column: str) -> Read:
    return {(origin.frame, origin.column, origin.use) for origin in lineage.columns[column]}


def test_columns_that_the_function_leaves_alone_are_the_fields_of_the_source() -> None:
    found = of(orders.orders)
    assert found.columns.keys() == set(declared(orders.orders).columns) and not found.rows
    for name in found.columns.keys() - {"order_date"}:
        assert read(found, name) == {("source", name, "IDENTITY")}
    assert read(found, "order_date") == {("source", "ordered_at", "TRANSFORMATION")}


def test_conditions_decide_and_are_no_value() -> None:
    found = of(settings.settings)
    assert read(found, "value") == {("source", "value", "TRANSFORMATION"), ("source", "is_secret", "CONDITIONAL")}
    assert read(found, "secret_hash") == {("source", "value", "TRANSFORMATION"), ("source", "is_secret", "CONDITIONAL")}


def test_aggregates_of_a_derived_table_are_followed_to_the_columns_upstream() -> None:
    found = of(daily_sales.daily_sales)
    assert read(found, "order_date") == {("orders", "order_date", "IDENTITY")}
    assert read(found, "currency") == {("orders", "currency", "IDENTITY")}
    assert read(found, "orders") == {("orders", "status", "CONDITIONAL")}
    assert read(found, "amount") == {("orders", "amount", "AGGREGATION"), ("orders", "status", "CONDITIONAL")}
    assert {(o.column, o.use) for o in found.rows} == {("order_date", "GROUP_BY"), ("currency", "GROUP_BY")}


def test_joins_of_renamed_columns_are_followed_to_both_sides() -> None:
    found = of(customer_features.customer_features)
    assert found.columns.keys() == set(declared(customer_features.customer_features).columns)
    assert read(found, "customer_id") == {("orders", "customer_id", "IDENTITY"), ("events", "user_id", "IDENTITY")}
    assert read(found, "feature_date") == {("orders", "order_date", "IDENTITY"), ("events", "event_date", "IDENTITY")}
    assert read(found, "orders") == set()
    assert read(found, "largest_order") == {("orders", "amount", "AGGREGATION")}
    assert read(found, "last_event_at") == {("events", "occurred_at", "IDENTITY")}
    assert ("events", "user_id", "JOIN") in {(o.frame, o.column, o.use) for o in found.rows}


def test_fields_that_the_source_makes_up_are_from_no_field_of_its_records() -> None:
    assert read(of(articles.articles), "cdc_sequence") == set()


class Row(pa.DataFrameModel):
    """A row with something to compute."""

    id: T.StringType = pa.Field(nullable=False)
    a: T.StringType = pa.Field(nullable=True)
    b: T.StringType = pa.Field(nullable=True)
    made: T.StringType = pa.Field(nullable=True)


def lineage_of(function: Callable[[DataFrame], Any]) -> ColumnLineage | None:
    @incremental_asset(
        partitions_def=dg.DailyPartitionsDefinition("2026-01-01"),
        source=Files("{landing}/rows/{window:%Y-%m-%d}/*.json"),
        contract=Row,
        changes=Changes(keys=["id"]),
        write=Append(),
        code_version="1",
    )
    def rows(changes: DataFrame) -> DataFrame:
        return function(changes)

    return column_lineage(declared(rows), {})


def made_by(function: Callable[[DataFrame], Any]) -> Read | None:
    """The origins of the column ``made``; None if they are unknown."""
    found = lineage_of(function)
    return read(found, "made") if found is not None and "made" in found.columns else None


VALUE_OF_A = {("source", "a", "TRANSFORMATION")}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda d: d.withColumn("made", F.expr("upper(a)")), VALUE_OF_A),
        (lambda d: d.withColumn("made", F.expr("CASE WHEN b = 'x' THEN a END")),
         VALUE_OF_A | {("source", "b", "CONDITIONAL")}),
        (lambda d: d.withColumn("made", d["a"].cast("int").cast("string")), VALUE_OF_A),
        (lambda d: d.withColumn("c", F.col("a")).withColumn("made", F.col("c")).drop("c"),
         {("source", "a", "IDENTITY")}),
        (lambda d: d.drop("made").withColumnRenamed("a", "made").withColumn("a", F.lit(None)),
         {("source", "a", "IDENTITY")}),
        (lambda d: d.select("*").withColumn("made", F.concat_ws("-", "a", F.lit("x"))), VALUE_OF_A),
        (lambda d: d.withColumn("made", F.array_join(F.transform(F.split("a", ","), lambda x: F.upper(x)), ",")),
         VALUE_OF_A),
        (lambda d: d.withColumn("made", F.max("a").over(Window.partitionBy("b"))),
         {("source", "a", "AGGREGATION"), ("source", "b", "WINDOW")}),
        (lambda d: d.withColumn("made", F.lit("always the same")), set()),
        (lambda d: d.withColumn("made", F.expr("(SELECT max(a) FROM elsewhere)")), None),
        (lambda d: d.withColumn("made", F.col("a")) if d.isEmpty() else d, None),
        (lambda d: d.withColumn("made", F.col(d.columns[0])), None),
        (lambda d: d.mapInPandas(lambda rows: rows, "made string"), None),
        (lambda d: None, None),
    ],
)  # fmt: skip
def test_what_a_plan_does_not_tell_is_unknown_and_everything_else_is_told(
    function: Callable[[DataFrame], Any], expected: Read | None
) -> None:
    before = dict(os.environ)
    assert made_by(function) == expected
    assert dict(os.environ) == before


def test_a_hash_is_marked_as_masking_what_it_is_made_of() -> None:
    found = lineage_of(lambda d: d.withColumn("made", F.sha2("a", 256)).withColumn("b", F.upper("b")))
    assert found is not None
    assert {name: [o.masked for o in found.columns[name]] for name in ("made", "b")} == {"made": [True], "b": [False]}


def test_one_unknown_column_leaves_the_others_known() -> None:
    found = lineage_of(lambda d: d.withColumn("made", F.expr("(SELECT 1)")).withColumn("a", F.upper("a")))
    assert found is not None
    assert found.columns.keys() == {"id", "a", "b"} and read(found, "a") == VALUE_OF_A
