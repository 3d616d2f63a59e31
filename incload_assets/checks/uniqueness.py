"""The check ``uniqueness``: whether every key, and every value declared unique, is in one row of the whole table.

The merge keeps keys unique within the partitions that it touches. A key whose partition value changed is in two
partitions, which only a query across all partitions finds.
"""

from collections.abc import Sequence

import dagster as dg
from pyspark.sql import DataFrame, GroupedData, Row, SparkSession
from pyspark.sql import functions as F

from incload_assets.checks.beliefs import broken_laws
from incload_assets.checks.kinds import TableCheck, not_at_all
from incload_assets.checks.observation import records, verdict
from incload_assets.contract.contract import MASK
from incload_assets.declaration.table import Table
from incload_assets.platform.lake import Lake
from incload_assets.platform.sql import col
from incload_assets.platform.wording import several

NAME = "uniqueness"
DESCRIPTION = "Every key, and every value declared unique, is in one row of the whole table."

SAMPLED = 10


def uniqueness(spark: SparkSession, table: Table, lake: Lake) -> dg.AssetCheckResult:
    """The check that keys and unique columns are unique across all partitions; ERROR if not."""
    uri = lake.table_uri(table.key.path)
    version = lake.version(uri)
    if version is None:
        return _result(table, True, "The table does not exist yet.", {})
    rows = spark.read.format("delta").option("versionAsOf", version).load(lake.spark_uri(uri))
    metadata: dict[str, dg.MetadataValue] = {"delta_version": dg.MetadataValue.int(version)}
    broken, (keys, _) = [], table.write.unique_rows(table.changes)
    for columns, condition in rules(table):
        total, repeated, affected = _count(meant := rows.filter(condition) if condition else rows, columns)
        what = "key" if columns == keys else "unique"
        metadata |= {
            "rows": dg.MetadataValue.int(total),
            f"{what}_repeated": dg.MetadataValue.int(repeated),
            f"{what}_rows_affected": dg.MetadataValue.int(affected),
        }
        if repeated:
            metadata[f"{what}_sample"] = _sample(meant, table, columns)
            broken.append(f"{several(repeated, 'value')} of ({', '.join(columns)}) in {several(affected, 'row')}")
    for law, count in broken_laws(rows, table).items():
        metadata[f"beliefs_{law.replace(' ', '_')}"] = dg.MetadataValue.int(count)
        broken.append(f"{several(count, 'belief')} {law}")
    ended = table.write.open_rows is not None
    if not broken:
        what = "key" if keys else "value"
        return _result(table, True, f"{several(total, 'row')}, no {what} twice.", metadata)
    return _result(
        table,
        False,
        f"Not unique: {'; '.join(broken)}. What to do: see the sample. A key in two partitions means that its "
        "partition value changed: choose a partition column whose value never changes. The same value under two keys "
        "has to be corrected at the source. Then materialize the affected windows again."
        + (" Beliefs that were ended are nowhere but in the table: restore them from a backup." if ended else ""),
        metadata,
    )


def _result(table: Table, passed: bool, description: str, metadata: dict[str, dg.MetadataValue]) -> dg.AssetCheckResult:
    return verdict(table, NAME, passed, description, metadata, dg.AssetCheckSeverity.ERROR)


def rules(table: Table) -> list[tuple[tuple[str, ...], str | None]]:
    """The column sets that have to be unique, each with the condition on its rows; none without keys or uniques."""
    keys, condition = table.write.unique_rows(table.changes)
    unique = table.contract.unique
    also = unique if unique and set(unique) != set(keys) else ()
    return [(columns, condition) for columns in (keys, also) if columns]


def _groups(rows: DataFrame, columns: Sequence[str]) -> GroupedData:
    return rows.groupBy(*(col(name).alias(f"_k{i}") for i, name in enumerate(columns)))


def _count(rows: DataFrame, columns: Sequence[str]) -> tuple[int, int, int]:
    """The numbers of rows, of values in more than one row, and of rows with such values, in one aggregate."""
    many = F.col("_n") > 1
    row = (
        _groups(rows, columns)
        .agg(F.count(F.lit(1)).alias("_n"))
        .agg(
            F.coalesce(F.sum("_n"), F.lit(0)).alias("total"),
            F.count(F.when(many, 1)).alias("repeated"),
            F.coalesce(F.sum(F.when(many, F.col("_n"))), F.lit(0)).alias("affected"),
        )
        .first()
    )
    assert row is not None
    return row.total, row.repeated, row.affected


def _sample(rows: DataFrame, table: Table, columns: Sequence[str]) -> dg.TableMetadataValue:
    partition = table.write.partition_by
    place = F.array_sort(F.collect_set(col(partition).cast("string"))) if partition else F.array().cast("array<string>")
    found = (
        _groups(rows, columns)
        .agg(F.count(F.lit(1)).alias("_n"), F.slice(place, 1, 5).alias("_place"))
        .filter(F.col("_n") > 1)
        .orderBy(F.desc("_n"), *(f"_k{i}" for i in range(len(columns))))
        .select(*(F.col(f"_k{i}").cast("string").alias(f"_k{i}") for i in range(len(columns))), "_n", "_place")
        .head(SAMPLED)
    )
    shown = [*columns, "rows", *([f"values of {partition}"] if partition else [])]
    return records(shown, (_cells(row, table, columns) for row in found))


def _cells(row: Row, table: Table, columns: Sequence[str]) -> list[object]:
    personal = table.contract.personal
    values = [MASK if name in personal else row[f"_k{i}"] for i, name in enumerate(columns)]
    place = [", ".join(value or "NULL" for value in row["_place"])] if table.write.partition_by else []
    return [*values, row["_n"], *place]


CHECK = TableCheck(
    name=NAME,
    description=DESCRIPTION,
    runbook="duplicate-writes",
    evaluate=uniqueness,
    rough={"delta_version": not_at_all},
    applies_to=lambda table: bool(rules(table)),
)
