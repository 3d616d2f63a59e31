"""Commits to the change log: one replaces windows, the other has only a fence.

Neither needs Spark, which has already written the rows: an ingestion takes one Spark job, and a load that dies before
has changed nothing. A commit fails if another one has moved its fence or replaced its windows since the version of the
log that it is based on.

Spark itself still commits to create a log, change its columns, mark windows for compaction, and vacuum. As it checks
whether a version exists and then writes it, such a commit could overwrite an ingestion between the two steps. Nothing
is lost: the window record then differs from the checkpoint, and the window is requested again.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from datetime import datetime
from functools import cache
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark.sql.types as T
from deltalake import DeltaTable
from pyspark.sql.pandas.types import to_arrow_schema

from incload_assets.change_log.change import CONTROL
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.former import FormerLandings
from incload_assets.change_log.known_at import next_instant
from incload_assets.change_log.scratch_log import ScratchLog
from incload_assets.change_log.staged import FOLDER, Staged, StagedFile, foreign_columns, wider_columns
from incload_assets.change_log.window_records import WINDOW_RECORD_TYPE, WindowRecord, window_records_of
from incload_assets.declaration import window as windows
from incload_assets.delta.fences import move_fence
from incload_assets.platform.errors import ConcurrentLoad
from incload_assets.protection.erasures import barrier_of

INSTANTS = 8
"""How often a commit is repeated if landings of other windows take its instant."""


def commit(
    load: LoadContext,
    staged: Staged,
    records: Mapping[str, WindowRecord],
    app_id: str,
    number: int,
    *,
    note: str,
    base: WindowRecord | None = None,
    keep: bool = True,
    replacing: Collection[str] = (),
    read_at: Mapping[str, datetime] | None = None,
    attempts: int = INSTANTS,
) -> bool:
    """Replaces windows of the log, or adds to one, in one commit with a fence; returns whether the log now has it.

    Args:
        staged: Staged rows; rows of other windows, and rows that are no changes, are left out.
        base: The record of the window to which rows are added; None: windows are replaced. If the log now has another
            record, because it was restored or ingested again, nothing is committed.
        keep: Whether what the windows held is kept for an undo.
        replacing: With ``base``, kinds of the window's rows that are replaced nevertheless.
        read_at: When the payloads of windows were read from their source, by partition key; by default now.
        attempts: How often the commit is repeated if landings of other windows take its instant.

    Raises:
        ConcurrentLoad: Other code has widened a type since the rows were staged; nothing was committed.
    """
    if isinstance(load.log, ScratchLog):
        load.log.take(staged, records, adds=base is not None)
        return True
    log, at = load.log, windows.now()
    log_now, replaced = log.open(), {"_window": list(records)}
    instant = next_instant(load.table, load.lake, log_now)
    held = window_records_of(log_now, only=list(records)) if instant else {}
    if load.table.subject is not None and barrier_of(log_now) != staged.barrier:
        return False  # the rows were read before an erasure
    if load.table.by_column and foreign_columns(log, log_now) != list(staged.foreign):
        return False  # the rows do not show that they leave a column unset that other code has added since
    if wider := wider_columns(log, log_now):
        # not every reader would convert the files, and each further attempt would have such files, too
        raise ConcurrentLoad(
            f"{load.table.name} {', '.join(records)}: another load has widened the type of "
            f"{', '.join(wider)} in {log.uri} since the rows were staged",
            rule="rows are committed with the types that the log has; nothing was landed",
            remedy="let the code with the wider types load; this one stops from now on",
        )
    if base is not None:
        if window_records_of(log_now, only=list(records)) != dict.fromkeys(records, base):
            return False
        replaced["_kind"] = [CONTROL, *replacing]
    if keep:
        FormerLandings(log).keep(log_now, list(records), leaving=None if base is None else replacing)
    staged.given.update(records)
    files = [*staged.committing(), *_record_files(load, records)]
    added = [file.as_added((read_at or {}).get(file.window, at)) for file in files]
    log.lake.commit(log_now, added, app_id, number, replaced=replaced, note=note, also=instant)
    # no matter how the commit ended: its answer may have been lost, or another commit may have followed at once
    now = log.records(only=list(records))
    if now != dict(records) and now == held and attempts and _was_only_overtaken(log.open(), instant, app_id, number):
        return commit(
            load, staged, records, app_id, number, note=note, base=base, keep=False, replacing=replacing,
            read_at=read_at, attempts=attempts - 1,
        )  # fmt: skip
    return now == dict(records)


def _was_only_overtaken(log: DeltaTable, instant: Mapping[str, int], app_id: str, number: int) -> bool:
    """True if landings of other windows have taken the instant of a commit, and nothing rejects it at a later one."""
    is_taken = any((log.transaction_version(name) or 0) >= taken for name, taken in instant.items())
    return is_taken and (log.transaction_version(app_id) or 0) < number


def bare_fence(load: LoadContext, app_id: str, *, odd: bool = False) -> int:
    """Commits only a fence to the log, to reject commits with a lower number; its number is above all earlier ones."""
    log = load.log
    if load.scratch is not None:
        return 0

    def send(number: int) -> None:
        log.lake.commit(log.open(), [], app_id, number)

    return move_fence(log.lake, log.uri, app_id, send, table_name=load.table.name, odd=odd)


def _record_files(load: LoadContext, records: Mapping[str, WindowRecord]) -> list[StagedFile]:
    """Writes window records, each to a file of its own."""
    written = []
    with load.lake.files(load.log.uri) as files:
        for key, record in records.items():
            folder = f"{FOLDER}/{uuid4().hex}/_kind={CONTROL}"
            path = f"{folder}/control.parquet"
            files.create_dir(folder, recursive=True)
            with files.open_output_stream(path) as out:
                pq.write_table(pa.Table.from_pylist([{"_control": asdict(record)}], _record_schema()), out)
                size = out.tell()
            written.append(StagedFile(path, size, key, CONTROL, rows=1, statistics='{"numRecords":1}'))
    return written


@cache
def _record_schema() -> pa.Schema:
    return to_arrow_schema(T.StructType([T.StructField("_control", WINDOW_RECORD_TYPE)]), timezone="UTC")
