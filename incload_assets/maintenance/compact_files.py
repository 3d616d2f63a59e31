"""Compaction of small files in partitions where loads have left many of them; every file makes reading slower.

It runs Delta's ``OPTIMIZE`` for the small files of these partitions, which are found in Delta's log alone. Files that
are large enough are neither read nor rewritten, so the cost depends only on what loads have added since.

Compaction changes no row. A concurrent load that was about to rewrite one of the files loses the race and plans again;
a compaction that loses the race leaves the partitions to the next compaction. Tables derived from the table recognize
that its files were only rewritten.
"""

from dataclasses import dataclass
from time import monotonic

import dagster as dg
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.errors import PySparkException

from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.table import Table
from incload_assets.delta.counts import Counts
from incload_assets.delta.session import settings
from incload_assets.delta.tables import lost_the_race
from incload_assets.maintenance.jobs import MaintenanceJob
from incload_assets.platform.lake import data_files
from incload_assets.platform.sql import literal, quoted
from incload_assets.platform.wording import several
from incload_assets.protection.person_keys import compact_keys

SMALL_BYTES, TARGET_BYTES = 16 * 2**20, 128 * 2**20
"""Files smaller than the first are combined into files of about the second."""
MANY = 16
"""Number of small files from which a partition is compacted."""
AT_ONCE = 20
"""Partitions per commit: few enough that little work is lost to a concurrent load."""


@dataclass(frozen=True)
class FilesCompacted(Counts):
    """The counts of a compaction.

    Args:
        partitions: Partitions whose small files were combined; an unpartitioned table counts as one.
        busy: Partitions left alone, because a load committed to them meanwhile.
        before, after: Small files that were combined, and the files that they were combined into, of ``size`` bytes.
        read_before, read_after: Milliseconds that a query took that reads every column of these partitions.
    """

    partitions: int = 0
    busy: int = 0
    before: int = 0
    after: int = 0
    size: int = 0
    read_before: int = 0
    read_after: int = 0


def compact_files(load: LoadContext) -> FilesCompacted:
    """Combines small files of the table in partitions that have many of them."""
    delta, name = load.lake.delta(load.uri), load.table.name
    places, done = crowded(delta) if delta is not None else [], FilesCompacted()
    for first in range(0, len(places), AT_ONCE):
        some = places[first : first + AT_ONCE]
        done += _compact(load, some)
        busy = f"; {several(done.busy, 'partition')} left to the next run, because of loads" if done.busy else ""
        load.info(
            f"{name}: {first + len(some)} of {several(len(places), 'partition')}, "
            f"{several(done.before, 'file')} became {done.after}{busy}"
        )
    return done


def crowded(delta: DeltaTable) -> list[str]:
    """SQL conditions for the partitions that have many small files; ``true`` for an unpartitioned table with many."""
    files = data_files(delta)
    small = files.filter(pc.less(files["size_bytes"], SMALL_BYTES))
    columns = delta.metadata().partition_columns
    if not columns:
        return ["true"] if small.num_rows >= MANY else []
    counted = small.group_by([f"partition.{column}" for column in columns]).aggregate([([], "count_all")])
    kinds = {field.name: field.type.type for field in delta.schema().fields if field.name in columns}
    return [
        " AND ".join(_is(column, kinds[column], row[f"partition.{column}"]) for column in columns)
        for row in counted.to_pylist()
        if row["count_all"] >= MANY
    ]


def _is(column: str, kind: str, value: object) -> str:
    return f"{quoted(column)} " + ("IS NULL" if value is None else f"= CAST({literal(str(value))} AS {kind})")


def _compact(load: LoadContext, places: list[str]) -> FilesCompacted:
    where = "" if places == ["true"] else f" WHERE {' OR '.join(f'({place})' for place in places)}"
    sizes = {"minFileSize": SMALL_BYTES, "maxFileSize": TARGET_BYTES}
    name = load.lake.sql_name(load.uri)
    values = {f"spark.databricks.delta.optimize.{name}": str(size) for name, size in sizes.items()}
    try:
        before = _read_milliseconds(load, f"{name}{where}")
        with settings(load.spark, values):
            row = load.spark.sql(f"OPTIMIZE {name}{where}").first()
        after = _read_milliseconds(load, f"{name}{where}")
    except PySparkException as error:
        if lost_the_race(error):
            return FilesCompacted(busy=len(places))
        raise
    assert row is not None
    done = row["metrics"]
    size = done["filesAdded"]["totalSize"] or 0
    return FilesCompacted(len(places), 0, done["numFilesRemoved"], done["numFilesAdded"], size, before, after)


def _read_milliseconds(load: LoadContext, rows: str) -> int:
    """How long a query takes that reads every column of some rows."""
    began = monotonic()
    load.spark.sql(f"SELECT * FROM {rows}").write.format("noop").mode("overwrite").save()
    return round(1000 * (monotonic() - began))


def _work(context: dg.OpExecutionContext, table: Table) -> dict[str, dg.MetadataValue]:
    with context.resources.spark.session(table.name) as spark:
        done = compact_files(LoadContext(spark, table, context.resources.lake, info=context.log.info))
    return {
        "files_before": dg.MetadataValue.int(done.before),
        "files_after": dg.MetadataValue.int(done.after),
        "files_read_ms_before": dg.MetadataValue.int(done.read_before),
        "files_read_ms_after": dg.MetadataValue.int(done.read_after),
        "files_bytes": dg.MetadataValue.int(done.size),
        "files_partitions_compacted": dg.MetadataValue.int(done.partitions),
        "files_partitions_busy": dg.MetadataValue.int(done.busy),
    }


def _of_lake(context: dg.OpExecutionContext) -> dict[str, dg.MetadataValue]:
    return {"person_key_files_compacted": dg.MetadataValue.int(compact_keys(context.resources.lake))}


COMPACT_FILES = MaintenanceJob(
    name="compact_files",
    step_name="compact_files_of_each_table",
    cron="20 2 * * *",
    about="Combines small files in partitions where loads have left many of them.",
    undone="files not compacted",
    work=_work,
    of_lake=_of_lake,
)
