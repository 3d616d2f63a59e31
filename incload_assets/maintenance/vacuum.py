"""Delta's ``VACUUM`` of a table and its log: removes files that no version within the retention uses.

A load that rewrites a file leaves the old one for readers of older versions, for the table's
``delta.deletedFileRetentionDuration``: unless this is set, a week (Delta's default), and two days for logs. The files
that are due are listed in Delta's commits, so the cost depends only on what loads have replaced. Files that a killed
load wrote but never committed are found by listing all files, once a week. A listing can distinguish them from files
that a load is writing only by their age. So a retention that is shorter than a load may take is refused.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.former import FormerLandings
from incload_assets.change_log.staged import remove_unfinished
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.delta.counts import Counts
from incload_assets.delta.session import settings
from incload_assets.maintenance.jobs import MaintenanceJob
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.sql import literal
from incload_assets.platform.wording import size

SHORTEST = timedelta(days=1)
"""The shortest retention allowed; no load takes that long."""

_PROPERTY, _WEEK = "delta.deletedFileRetentionDuration", "interval 1 week"
_SETTINGS = {
    "spark.databricks.delta.vacuum.logging.enabled": "true",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
}
"""The counts of a vacuum are only in its commits, and on S3 Delta makes these only with the first setting. The second
is the number of listing tasks, however few folders there are: Spark's default of 10,000 took 12 s for no folder."""
_START, _OWN = "VACUUM START", ("VACUUM START", "VACUUM END")
_A_WEEK = timedelta(weeks=1)
"""The interval at which all files are listed."""


@dataclass(frozen=True)
class Vacuumed(Counts):
    """The counts of a vacuum: files removed, including empty folders, and their size in bytes."""

    files: int = 0
    size: int = 0


def vacuum(load: LoadContext, *, everything: bool) -> Vacuumed:
    """Removes files from a table and its log that no version within the retention uses.

    With ``everything`` all files are listed, to find those that were never committed.

    Raises:
        DeclarationError: The retention of the table or its log is too short; nothing was removed from it.
    """
    done, name = Vacuumed(), load.table.name
    for what, uri in ((name, load.uri), (f"the log of {name}", load.log.uri)):
        delta = load.lake.delta(uri)
        if delta is None:
            continue
        kept = _retention(load.spark, delta, what)
        if _is_at_rest(delta, kept):
            load.info(f"{what}: no files have been replaced since the last vacuum")
            continue
        removed = _vacuum(load, uri, delta.version(), everything=everything)
        if everything and uri == load.log.uri:
            removed += Vacuumed(remove_unfinished(load.lake, uri, datetime.now(UTC) - kept))
        load.info(f"{what}: removed {removed.files} files ({size(removed.size)}) that were replaced over {kept} ago")
        done += removed
    return done


def _retention(spark: SparkSession, delta: DeltaTable, what: str) -> timedelta:
    """How long replaced files are kept."""
    declared = delta.metadata().configuration.get(_PROPERTY, _WEEK)
    since = f"timestamp_seconds(0) + CAST({literal(declared)} AS INTERVAL)"
    row = spark.sql(f"SELECT unix_seconds({since}) AS seconds").first()
    assert row is not None
    kept = timedelta(seconds=row["seconds"])
    if kept < SHORTEST:
        raise DeclarationError(
            f"{what}: {_PROPERTY} is {declared!r}",
            rule=f"replaced files are kept for at least {SHORTEST.days} day, so that no running load loses its files",
            remedy=f"ALTER TABLE … SET TBLPROPERTIES ('{_PROPERTY}' = '{_WEEK}')",
        )
    return kept


def _is_at_rest(delta: DeltaTable, kept: timedelta) -> bool:
    """True if there is nothing left to remove until the next commit of a load."""
    until = kept + _A_WEEK
    history = delta.history(2 * (until.days + 1))  # for a table at rest these are vacuums, two commits a night
    if not history or any("timestamp" not in commit for commit in history):  # a writer without commit details
        return False
    changed = next((commit for commit in history if commit.get("operation") not in _OWN), history[-1])
    return _at(changed) + until < _at(history[0])


def _at(commit: dict[str, int]) -> datetime:
    return datetime.fromtimestamp(commit["timestamp"] / 1000, UTC)


def _vacuum(load: LoadContext, uri: str, version: int, *, everything: bool) -> Vacuumed:
    """Runs the vacuum; its counts are in one of the commits after the given version."""
    statement = f"VACUUM {load.lake.sql_name(uri)}"
    with settings(load.spark, _SETTINGS):
        try:
            load.spark.sql(statement if everything else f"{statement} LITE").first()
        except PySparkException as error:
            if "DELTA_CANNOT_VACUUM_LITE" not in str(error):
                raise
            load.spark.sql(statement).first()  # commits since the last vacuum are gone, or there was no vacuum yet
    delta = load.lake.delta(uri)
    assert delta is not None
    commits = delta.history(delta.version() - version)
    metrics: dict[str, str] = next(
        (commit["operationMetrics"] for commit in commits if commit.get("operation") == _START), {}
    )
    return Vacuumed(int(metrics.get("numFilesToDelete", 0)), int(metrics.get("sizeOfDataToDelete", 0)))


_SUNDAY = 6
"""The day on which all files are listed."""


def _work(context: dg.OpExecutionContext, table: Table) -> dict[str, dg.MetadataValue]:
    everything = windows.now().weekday() == _SUNDAY
    with context.resources.spark.session(table.name) as spark:
        load = LoadContext(spark, table, context.resources.lake, info=context.log.info)
        done = vacuum(load, everything=everything)
    former = FormerLandings(load.log).prune(windows.now())
    return {
        "vacuum_files_removed": dg.MetadataValue.int(done.files),
        "vacuum_bytes_removed": dg.MetadataValue.int(done.size),
        "vacuum_former_removed": dg.MetadataValue.int(former),
    }


VACUUM_TABLES = MaintenanceJob(
    name="vacuum_tables",
    step_name="vacuum_each_table",
    cron="50 2 * * *",  # after the compaction of small files
    about="Removes files of tables and their logs that loads replaced longer ago than the table's retention.",
    undone="not vacuumed",
    removes="files that no version within the retention uses",
    work=_work,
)
