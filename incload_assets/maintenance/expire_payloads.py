"""Removal of payloads of rejected rows at the end of their lifetime, the table's ``quarantine_retention``.

The rows stay, with their typed columns, reasons and places; payload and unknown fields are emptied, also of rows that
people have accepted. Whether a data file has payloads is in its footer, so only files that are old enough and have some
are rewritten.

A removal may run beside loads. It is computed from one version of the log, and its commit replaces the files of that
version, together with the record of each window. Every ingestion replaces the record, too, so of a removal and an
ingestion that commit at once, Delta rejects the later one: an ingestion starts again, a removal is left to the next
night. So it needs no agreement with loads beforehand, unlike a compaction of the log, which removes changes that a
load may be about to fold.

A former landing that names a file of the log gets a copy before the file leaves the log, so that it can be undone. Its
payloads end with ``undo_retention``.
"""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import unquote
from uuid import uuid4

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import CONTROL, DELETE, REJECTED, TRUNCATE, UPSERTS
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.decisions import KEEPING, decisions_in_force, rejected_row_id
from incload_assets.change_log.file_statistics import statistics_of
from incload_assets.change_log.former import FormerLandings
from incload_assets.change_log.payloads import EXPIRED, expired_payload, instant, keeps_payload, milliseconds
from incload_assets.change_log.staged import FOLDER, Staged, StagedFile
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.delta.counts import Counts
from incload_assets.delta.data_files import MAX_FILES, MAX_PARTITIONS, parquet_files
from incload_assets.maintenance.jobs import MaintenanceJob, load_in
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import bytes_of, data_files
from incload_assets.platform.settings import current_settings
from incload_assets.platform.sql import union_of
from incload_assets.platform.wording import several
from incload_assets.progress.audit import expire_audit

ACCEPTED_KINDS = (*UPSERTS, DELETE, TRUNCATE)
"""Kinds of rows that keep a payload if people have accepted them."""
_FOOTERS_AT_ONCE = 8


@dataclass(frozen=True)
class PayloadsExpired(Counts):
    """The counts of a removal of payloads, and sizes of files in bytes; ``busy`` windows wait for the next night."""

    windows: int = 0
    rows: int = 0
    files: int = 0
    before: int = 0
    after: int = 0
    busy: int = 0


@dataclass(frozen=True)
class OldFile:
    """A data file with payloads whose lifetime is over; ``read_at`` is in milliseconds since 1970."""

    path: str
    window: str
    read_at: int
    rows: int
    payloads: int


def expire_payloads(load: LoadContext, older_than: datetime) -> PayloadsExpired:
    """Removes the payloads that were read from the source before an aware instant.

    Raises:
        IncrementalLoadError: The log has more than Parquet files, or a rewrite would lose rows; nothing was committed.
    """
    if (log := load.lake.delta(load.log.uri)) is None:
        return PayloadsExpired()
    decisions = decisions_in_force(load.lake, load.table, KEEPING)
    accepted = {decision.window for decision in decisions}
    done = PayloadsExpired()
    for kind in (REJECTED, *ACCEPTED_KINDS):
        old = _old_files(load, log, kind, older_than, None if kind == REJECTED else accepted)
        keys = sorted({file.window for file in old})
        for first in range(0, len(keys), MAX_PARTITIONS):
            some = keys[first : first + MAX_PARTITIONS]
            done += _expire(load, kind, [file for file in old if file.window in some], some)
    if done.windows or done.busy:
        load.info(
            f"{load.table.name}: removed the payloads of {several(done.rows, 'row')} of "
            f"{several(done.windows, 'window')}; "
            f"{several(done.files, 'file')} of {done.before} bytes became {done.after} bytes; "
            f"{several(done.busy, 'window')} left to the next night"
        )
    return done


def _old_files(
    load: LoadContext, log: DeltaTable, kind: str, older_than: datetime, only: Collection[str] | None
) -> list[OldFile]:
    """The files of a kind of rows that are old enough and have payloads."""
    wanted = (pc.field("partition._kind") == kind) & (pc.field("modification_time") < milliseconds(older_than))
    if only is not None:
        wanted &= pc.field("partition._window").isin(pa.array([*only], pa.string()))
    files = data_files(log).filter(wanted)
    footers = _footers(load, files)
    found = [
        OldFile(file["path"], file["partition._window"], file["modification_time"], footer.num_rows, _payloads(footer))
        for file, footer in zip(files.to_pylist(), footers, strict=True)
    ]
    return [file for file in found if file.payloads]


def _footers(load: LoadContext, files: pa.Table) -> list[pq.FileMetaData]:
    with load.lake.files(load.log.uri) as stored, ThreadPoolExecutor(_FOOTERS_AT_ONCE, "incload-footers") as pool:

        def footer(path: str) -> pq.FileMetaData:
            with stored.open_input_file(unquote(path)) as source:
                return pq.read_metadata(source)

        return list(pool.map(footer, files["path"].to_pylist()))


def _payloads(footer: pq.FileMetaData) -> int:
    """The number of rows with a payload; 0 if the statistics show that each one was removed."""
    names = [footer.schema.column(place).path for place in range(footer.num_columns)]
    count = 0
    for group in map(footer.row_group, range(footer.num_row_groups if "_payload" in names else 0)):
        found = group.column(names.index("_payload")).statistics
        if found is None or not found.has_null_count:
            count += group.num_rows
        elif not found.has_min_max or not all(str(bound).startswith(EXPIRED) for bound in (found.min, found.max)):
            count += group.num_rows - found.null_count
    return count


def _expire(load: LoadContext, kind: str, old: Sequence[OldFile], keys: Sequence[str]) -> PayloadsExpired:
    """Removes the payloads of files of one kind of rows, in one commit."""
    at = load.log.open()
    inside = pc.field("partition._window").isin(pa.array([*keys], pa.string()))
    here = data_files(at).filter(inside & pc.field("partition._kind").isin(pa.array([kind, CONTROL], pa.string())))
    is_old = pc.field("path").isin(pa.array([file.path for file in old], pa.string()))
    due, others = here.filter(is_old), here.filter(~is_old)
    if due.num_rows != len(old):
        return PayloadsExpired(busy=len(keys))
    with Staged(load.log, load.spark, keys) as staged:
        rows = _emptied(load, at, due, keys)
        staged.write(rows, rows.columns)
        _check_count(load.table, sum(file.rows for file in old), sum(file.rows for file in staged.files))
        FormerLandings(load.log).keep_named(keys, [unquote(path) for path in here["path"].to_pylist()])
        staged.given.update(keys)
        read_at = {file.window: file.read_at for file in sorted(old, key=lambda file: file.read_at)}
        added = [file.as_added(instant(read_at[file.window])) for file in staged.committing()]
        added += _linked(load, others)
        app_id = f"{load.table.name}/payloads"
        number = (at.transaction_version(app_id) or 0) + 1
        note = f"removed payloads of {keys[0]}..{keys[-1]}, run {load.run_id}"
        replaced = {"_window": keys, "_kind": [kind, CONTROL]}
        if not load.lake.commit(at, added, app_id, number, replaced=replaced, note=note):
            return PayloadsExpired(busy=len(keys))
        after = sum(file.size for file in staged.files)
        return PayloadsExpired(len(keys), sum(file.payloads for file in old), due.num_rows, bytes_of(due), after)


def _emptied(load: LoadContext, log: DeltaTable, due: pa.Table, keys: Sequence[str]) -> DataFrame:
    """The rows of files without payloads and, if rejected, without unknown fields."""
    folder = load.lake.spark_uri(load.log.uri)
    parts = [parquet_files(log, folder, due.slice(first, MAX_FILES)) for first in range(0, due.num_rows, MAX_FILES)]
    if any(part is None for part in parts):
        raise IncrementalLoadError(
            f"the log of {load.table.name} has more than Parquet files, for example deletion vectors",
            rule="payloads are removed from data files, and nothing else may decide about their rows",
            remedy="have Delta rewrite it: REORG TABLE … APPLY (PURGE), then drop the feature",
        )
    rows = union_of(part.read(load.spark) for part in parts if part is not None)
    decided = {decision.row for decision in decisions_in_force(load.lake, load.table, ["discard", *KEEPING], only=keys)}
    emptied = expired_payload()
    if decided:
        ids = load.spark.createDataFrame([(row,) for row in decided], "_decided string")
        rows = rows.join(F.broadcast(ids), rejected_row_id() == F.col("_decided"), "left")
        emptied = F.when(F.col("_decided").isNotNull(), expired_payload(F.col("_decided"))).otherwise(emptied)
    payload = F.when(keeps_payload(), emptied).otherwise(F.col("_payload"))
    rescued = F.when(F.col("_kind") != REJECTED, F.col("_rescued"))
    return rows.withColumns({"_payload": payload, "_rescued": rescued}).drop("_decided")


def _linked(load: LoadContext, files: pa.Table) -> list[AddAction]:
    """Files that stay as they are, under new names: a commit cannot remove a file and add the same one."""
    here = load.log.uri[len(load.lake.root) + 1 :]
    names = [f"{FOLDER}/{uuid4().hex}/linked.parquet" for _ in range(files.num_rows)]
    paths = [unquote(path) for path in files["path"].to_pylist()]
    load.lake.copy({f"{here}/{path}": f"{here}/{name}" for path, name in zip(paths, names, strict=True)})
    return [
        StagedFile(
            name,
            file["size_bytes"],
            file["partition._window"],
            file["partition._kind"],
            footer.num_rows,
            statistics_of(footer, load.log.ranged),
        ).as_added(instant(file["modification_time"]))
        for name, file, footer in zip(names, files.to_pylist(), _footers(load, files), strict=True)
    ]


def _check_count(table: Table, expected: int, written: int) -> None:
    if expected != written:
        raise IncrementalLoadError(
            f"{table.name}: a removal of payloads made {several(written, 'row')} of {expected}",
            rule="rows stay, without their payloads; nothing was committed",
            remedy="find out what else writes the log; the next night tries again",
        )


def _work(context: dg.OpExecutionContext, table: Table) -> dict[str, dg.MetadataValue]:
    assert table.quarantine_retention is not None
    older_than = windows.now() - table.quarantine_retention
    with load_in(context, table) as load:
        done = expire_payloads(load, older_than)
    return {
        "payloads_removed": dg.MetadataValue.int(done.rows),
        "payloads_windows": dg.MetadataValue.int(done.windows),
        "payloads_windows_busy": dg.MetadataValue.int(done.busy),
        "payloads_files": dg.MetadataValue.int(done.files),
        "payloads_bytes_before": dg.MetadataValue.int(done.before),
        "payloads_bytes_after": dg.MetadataValue.int(done.after),
        "payloads_older_than": dg.MetadataValue.timestamp(older_than),
    }


def _of_lake(context: dg.OpExecutionContext) -> dict[str, dg.MetadataValue]:
    older_than = windows.now() - timedelta(days=current_settings().audit_days)
    done = expire_audit(context.resources.lake, older_than, run_id=context.run.run_id)
    context.log.info(
        f"audit: {several(done.before, 'entry', 'entries')} before, {done.after} after, {done.removed} removed"
    )
    return {
        "audit_entries_before": dg.MetadataValue.int(done.before),
        "audit_entries_after": dg.MetadataValue.int(done.after),
        "audit_entries_removed": dg.MetadataValue.int(done.removed),
        "audit_files_removed": dg.MetadataValue.int(done.files),
        "audit_older_than": dg.MetadataValue.timestamp(older_than),
    }


EXPIRE_PAYLOADS = MaintenanceJob(
    name="expire_payloads",
    step_name="expire_payloads_of_each_table",
    cron="40 2 * * *",  # before the vacuum, which removes the files two days later
    about="Removes the records that rejected rows keep, after the table's quarantine_retention, and old entries of the "
    "audit. The rows stay.",
    of_lake=_of_lake,
    whose="tables with a quarantine_retention",
    undone="payloads not removed",
    removes="the records of rejected rows, and entries of the audit",
    applies_to=lambda table: table.quarantine_retention is not None,
    work=_work,
)
