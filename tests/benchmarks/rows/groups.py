"""A derived table whose large windows change in a few rows: only the changed groups computed again, or all."""

import os
from collections.abc import Iterator
from datetime import date, timedelta
from unittest.mock import patch

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from incload_assets.assets import Changes, Merge, Overwrite, Upstream, derived_asset, incremental_asset
from incload_assets.assets.incremental import table_of
from incload_assets.platform.lake import Lake
from incload_assets.trial.literal_source import LiteralSource
from tests.benchmarks.bench import Bench
from tests.benchmarks.pairs import Comparison
from tests.support.tables import Loaded

FIRST, DAYS, CHANGED = date(2026, 1, 1), 28, 50
MONTHS = dg.MonthlyPartitionsDefinition(f"{FIRST}")


class Step(pa.DataFrameModel):
    """What somebody did."""

    id: T.StringType = pa.Field(nullable=False)
    who: T.LongType = pa.Field(nullable=False)
    amount: T.LongType = pa.Field(nullable=False)
    seq: T.LongType = pa.Field(nullable=False)
    day: T.DateType = pa.Field(nullable=False)


class Journey(pa.DataFrameModel):
    """What somebody did in a month."""

    month: T.DateType = pa.Field(nullable=False)
    who: T.LongType = pa.Field(nullable=False)
    amount: T.LongType = pa.Field(nullable=True)


@incremental_asset(
    partitions_def=dg.DailyPartitionsDefinition(f"{FIRST}"),
    source=LiteralSource({}),
    contract=Step,
    changes=Changes(keys=["id"], sequence_by=["seq"]),
    write=Merge(partition_by="day"),
)
def steps(changes: DataFrame) -> DataFrame:
    """Steps of each day."""
    return changes


def in_order(steps: DataFrame) -> DataFrame:
    """The longest wait between two steps, for which all steps are sorted."""
    waited: Column = F.col("amount") - F.lag("amount").over(Over.partitionBy("who").orderBy("day", "id"))
    return _by_month(steps.withColumn("amount", waited), F.max("amount"))


def summed(steps: DataFrame) -> DataFrame:
    """A sum, for which nothing is sorted."""
    return _by_month(steps, F.sum("amount"))


def groups(bench: Bench) -> Iterator[Comparison]:
    """A month with a few more rows, computed by groups and as a whole: with a sort of all rows, and with a sum."""
    rows, spark, root = bench.sizes.big // 10, bench.session(), bench.new("groups")
    with patch.dict(os.environ, INCLOAD_LAKE=f"{root}"):
        lake = Lake(root=f"{root}")
        uri = lake.table_uri(steps.key.path)
        made = spark.range(rows * DAYS).selectExpr(
            "CAST(id AS string) AS id",
            f"CAST(pmod(hash(id), {max(rows // 100, 1)}) AS bigint) AS who",
            "id % 100 AS amount",
            "1L AS seq",
            f"date_add(DATE'{FIRST}', CAST(id DIV {rows} AS int)) AS day",
        )
        made.repartition("day").write.format("delta").partitionBy("day").save(uri)

        def arrive(number: int) -> None:
            day = FIRST + timedelta(days=number % DAYS)
            more = f"SELECT concat('{number} ', id), id, 5L, 2L, DATE'{day}' FROM range({CHANGED})"
            spark.sql(f"INSERT INTO {lake.sql_name(uri)} {more}")

        for function, told in ((in_order, "all rows sorted"), (summed, "a sum")):
            sides = []
            for by in (["who"], []):
                asset = derived_asset(
                    name=f"{function.__name__}_{len(by)}",
                    partitions_def=MONTHS,
                    of={"steps": Upstream(steps, partition="day")},
                    contract=Journey,
                    write=Overwrite(partition_by="month"),
                    keys=["month", "who"],
                    groups=by,
                )(function)
                table = table_of(asset)
                assert table is not None
                sides.append(Loaded(spark, table, lake, {}))
            by_groups, whole = sides
            for side in sides:
                side.load(f"{FIRST}")
            yield bench.compare(
                f"derived month with {CHANGED} more rows, {told}: by groups / as a whole",
                lambda _, side=by_groups: side.load(f"{FIRST}"),
                lambda _, side=whole: side.load(f"{FIRST}"),
                prepare=arrive,
                bound=None,
                sizes={"rows": rows * DAYS, "groups": max(rows // 100, 1)},
            )
            assert by_groups.rows() == whole.rows()


def _by_month(steps: DataFrame, value: Column) -> DataFrame:
    month = F.trunc("day", "month").alias("month")
    return steps.groupBy(month, "who").agg(value.alias("amount"))
