"""Files that no version within the retention holds, removed from a table and its log: Delta's ``VACUUM``.

A load that rewrites a file leaves the old one where it is, for those who still read it. How long is the table's
``delta.deletedFileRetentionDuration``: Delta's week, two days for logs, unless it is set. Which files are due, Delta's
commits tell, so that the cost follows what loads have replaced. They do not tell of files that a killed load has
written and never committed: these are found by listing everything, which is done now and then.

A listing cannot tell them from those that a load is writing just now, but by their age. So a retention that is shorter
than a load may take is refused.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.staged import remove_unfinished
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.delta.session import settings
from incload_assets.delta.sql import literal
from incload_assets.maintenance.jobs import MaintenanceJob
from resources.errors import DeclarationError

SHORTEST = timedelta(days=1)
"""The shortest retention; no load takes that long."""

_PROPERTY, _WEEK = "delta.deletedFileRetentionDuration", "interval 1 week"
_SETTINGS = {
    "spark.databricks.delta.vacuum.logging.enabled": "true",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
}
"""Counts are in the commits that a vacuum makes, and nowhere else; on S3 Delta does without them unless told. And what
lists is as many tasks as this, however few folders there are: Spark's 10,000 of them took 12 s for none."""
_START, _OWN = "VACUUM START", ("VACUUM START", "VACUUM END")
_A_WEEK = timedelta(weeks=1)
"""In which all files are listed once."""


@dataclass(frozen=True)
class Vacuumed:
    """What a vacuum removed.

    Args:
        files: How many, empty folders included.
        size: Of these, in bytes.
    """

    files: int = 0
    size: int = 0

    def __add__(self, other: "Vacuumed") -> "Vacuumed":
        return Vacuumed(self.files + other.files, self.size + other.size)


def vacuum(load: LoadContext, *, everything: bool) -> Vacuumed:
    """Remove files that no version within the retention holds from a table and its log.

    Args:
        load: Of the run.
        everything: Whether to list all files, so that those are found which were never committed.

    Raises:
        DeclarationError: The retention is too short; nothing was removed from this one.

    Example:
        >>> vacuum(LoadContext(spark, table, lake, info=print), everything=False)  # doctest: +SKIP
        Vacuumed(files=40, size=180224)
    """
    done, name = Vacuumed(), load.table.name
    for what, uri in ((name, load.uri), (f"the log of {name}", load.log.uri)):
        delta = load.lake.delta(uri)
        if delta is None:
            continue
        kept = _retention(load.spark, delta, what)
        if _is_at_rest(delta, kept):
            load.info(f"{what}: nothing was replaced since the last time")
            continue
        removed = _vacuum(load, uri, delta.version(), everything=everything)
        if everything and uri == load.log.uri:
            removed += Vacuumed(remove_unfinished(load.lake, uri, datetime.now(UTC) - kept))
        load.info(
            f"{what}: {removed.files} files removed ({removed.size / 1e6:,.1f} MB), replaced {kept} ago or before"
        )
        done += removed
    return done


def _retention(spark: SparkSession, delta: DeltaTable, what: str) -> timedelta:
    """How long replaced files stay."""
    declared = delta.metadata().configuration.get(_PROPERTY, _WEEK)
    since = f"timestamp_seconds(0) + CAST({literal(declared)} AS INTERVAL)"
    row = spark.sql(f"SELECT unix_seconds({since}) AS seconds").first()
    assert row is not None
    kept = timedelta(seconds=row["seconds"])
    if kept < SHORTEST:
        raise DeclarationError(
            f"{what}: {_PROPERTY} is {declared!r}",
            rule=f"replaced files stay for {SHORTEST.days} day or more, so that none is removed that a load is writing",
            remedy=f"ALTER TABLE … SET TBLPROPERTIES ('{_PROPERTY}' = '{_WEEK}')",
        )
    return kept


def _is_at_rest(delta: DeltaTable, kept: timedelta) -> bool:
    """Whether the last vacuum has removed all that there will be to remove as long as nothing is committed."""
    until = kept + _A_WEEK
    history = delta.history(2 * (until.days + 1))  # of a table at rest these are its vacuums, two commits a night
    if not history or any("timestamp" not in commit for commit in history):  # of a writer that tells nothing
        return False
    changed = next((commit for commit in history if commit.get("operation") not in _OWN), history[-1])
    return _at(changed) + until < _at(history[0])


def _at(commit: dict[str, int]) -> datetime:
    return datetime.fromtimestamp(commit["timestamp"] / 1000, UTC)


def _vacuum(load: LoadContext, uri: str, version: int, *, everything: bool) -> Vacuumed:
    """Remove what is due; what that was is told by a commit after the version."""
    statement = f"VACUUM {load.lake.sql_name(uri)}"
    with settings(load.spark, _SETTINGS):
        try:
            load.spark.sql(statement if everything else f"{statement} LITE").first()
        except PySparkException as error:
            if "DELTA_CANNOT_VACUUM_LITE" not in str(error):
                raise
            load.spark.sql(statement).first()  # commits since the last time are gone, or there was none
    delta = load.lake.delta(uri)
    assert delta is not None
    told = delta.history(delta.version() - version)
    metrics: dict[str, str] = next(
        (commit["operationMetrics"] for commit in told if commit.get("operation") == _START), {}
    )
    return Vacuumed(int(metrics.get("numFilesToDelete", 0)), int(metrics.get("sizeOfDataToDelete", 0)))


_SUNDAY = 6
"""The day on which all files are listed."""


def _work(context: dg.OpExecutionContext, table: Table) -> dict[str, dg.MetadataValue]:
    everything = windows.now().weekday() == _SUNDAY
    with context.resources.spark.session(table.name) as spark:
        done = vacuum(LoadContext(spark, table, context.resources.lake, info=context.log.info), everything=everything)
    return {
        "vacuum_files_removed": dg.MetadataValue.int(done.files),
        "vacuum_bytes_removed": dg.MetadataValue.int(done.size),
    }


VACUUM_TABLES = MaintenanceJob(
    name="vacuum_tables",
    step_name="vacuum_each_table",
    cron="50 2 * * *",  # when small files have been put together
    about="Removes the files that loads have replaced longer ago than the table's retention, of its log, too.",
    undone="not vacuumed",
    work=_work,
)
