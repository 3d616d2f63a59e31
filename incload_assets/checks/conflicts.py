"""The check ``conflicts``: sources of one table that contradict each other.

The table has what the source with the higher priority says. But the owners of the sources should learn of the
contradiction, and only the log still has the rows of both.
"""

import dagster as dg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.change import DELETE, UPSERTS, sets
from incload_assets.change_log.log import ChangeLog
from incload_assets.checks.kinds import TableCheck
from incload_assets.checks.observation import records, verdict
from incload_assets.contract.contract import MASK
from incload_assets.declaration.table import Table
from incload_assets.platform.lake import Lake
from incload_assets.platform.sql import col, content_hash_sql
from incload_assets.platform.wording import several
from incload_assets.sources.several import Several
from incload_assets.sources.several_rows import NAME as SOURCE_NAME
from incload_assets.sources.several_rows import PRIORITY, source_of

NAME = "conflicts"
DESCRIPTION = "No two sources of the table have different values for one key at the same position."

SAMPLED = 10


def can_conflict(table: Table) -> bool:
    """True if two sources can have different values for one key at the same position."""
    return bool(isinstance(table.source, Several) and table.changes.keys and table.changes.sequence_by)


def conflicts(spark: SparkSession, table: Table, lake: Lake) -> dg.AssetCheckResult:
    """Keys for which two sources have different values at the same position; WARN if there are any."""
    log = ChangeLog(table, lake)
    version = log.version()
    if version is None:
        return _result(table, True, "Nothing was loaded yet.", {})
    place, found = _place(table), _conflicts(log.read(spark, version), table)
    count = found.count()
    metadata: dict[str, dg.MetadataValue] = {"conflicts": dg.MetadataValue.int(count)}
    if not count:
        return _result(table, True, "No source contradicts another.", metadata)
    shown = found.orderBy(*map(col, place)).head(SAMPLED)
    personal = table.contract.personal
    metadata["sample"] = records(
        [*place, "sources"],
        ([*(MASK if name in personal else row[name] for name in place), ", ".join(row["_sources"])] for row in shown),
    )
    first = "wins" if PRIORITY in table.changes.sequence_by else "would win with source_priority in sequence_by"
    return _result(
        table,
        False,
        f"Sources contradict each other for {several(count, 'key')} at the same position. The source named first "
        f"{first}. What to do: see the sample, and let the owners of the sources settle which of them is right.",
        metadata,
    )


def _place(table: Table) -> list[str]:
    """The columns that identify a key and a position in its history."""
    return list(dict.fromkeys(n for n in (*table.identity, *table.changes.sequence_by) if n != PRIORITY))


def _conflicts(log: DataFrame, table: Table) -> DataFrame:
    place = _place(table)
    told = [name for name in table.columns if name not in (*place, SOURCE_NAME, PRIORITY)]
    upsert = F.col("_kind").isin(*UPSERTS)
    if table.by_column:
        of_each = [F.when(upsert & sets(name), F.expr(content_hash_sql([name]))) for name in told]
    else:
        of_each = [F.when(upsert, F.expr(content_hash_sql(told)))] if told else []
    most = F.greatest(
        F.lit(0), F.count_distinct(F.col("_kind") == DELETE), *(F.count_distinct(content) for content in of_each)
    )
    return (
        log.filter(F.col("_kind").isin(*UPSERTS, DELETE))
        .groupBy(*map(col, place))
        .agg(F.array_sort(F.collect_set(source_of(F.col("_source.file")))).alias("_sources"), most.alias("_contents"))
        .filter((F.size("_sources") > 1) & (F.col("_contents") > 1))
        .select(*(col(name).cast("string").alias(name) for name in place), "_sources")
    )


def _result(table: Table, passed: bool, description: str, metadata: dict[str, dg.MetadataValue]) -> dg.AssetCheckResult:
    return verdict(table, NAME, passed, description, metadata, dg.AssetCheckSeverity.WARN)


CHECK = TableCheck(
    name=NAME,
    description=DESCRIPTION,
    runbook="duplicate-writes",
    evaluate=conflicts,
    applies_to=can_conflict,
)
