"""Commits to the log of changes: one that replaces windows, and one that carries a fence alone.

Neither needs Spark, which has written the rows already: so an ingestion costs one Spark job, and whoever dies before
the commit has changed nothing. A commit is made of the log as it is read here, and fails if anybody has moved its
fence, or replaced one of its windows, since: see :meth:`resources.lake.Lake.commit`.

Spark still commits to a log when it makes it, changes its columns, marks windows for compaction and vacuums it. Its
commits look whether a version is there and then write it, so that one of these could, in the moment between, write over
an ingestion. Nothing is lost by that: the window's record is not the checkpoint's then, and the window is asked for
again.
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark.sql.types as T
from pyspark.sql.pandas.types import to_arrow_schema

from incload_assets.change_log.change import CONTROL
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.staged import FOLDER, Staged, StagedFile
from incload_assets.change_log.window_records import WINDOW_RECORD_TYPE, WindowRecord, window_records_of
from incload_assets.declaration import window as windows
from incload_assets.delta.fences import move_fence


def commit(
    load: LoadContext,
    staged: Staged,
    controls: Mapping[str, WindowRecord],
    app_id: str,
    number: int,
    *,
    note: str,
    base: WindowRecord | None = None,
) -> bool:
    """Replace windows of the log, or add to one, in one commit fenced by ``(app_id, number)``.

    Args:
        load: Of the load.
        staged: Rows of the windows, and of others, which are left out; and so are those that are no changes.
        controls: The windows, with their new control rows.
        app_id: Identifier of the fence.
        number: Its number.
        note: What the commit says of itself to people.
        base: The control row of the one window whose rows stay, and are added to; None: the windows are replaced. A log
            that holds another one now is left as it is: it has been restored, or ingested again.

    Returns:
        Whether it was this commit that the log holds now.
    """
    log, at = load.log, windows.now()
    log_now, replaced = log.open(), {"_window": list(controls)}
    if base is not None:
        if window_records_of(log_now, only=list(controls)) != dict.fromkeys(controls, base):
            return False
        replaced["_kind"] = [CONTROL]
    staged.given.update(controls)
    files = [*staged.committing(), *_record_files(load, controls)]
    added = [file.as_added(at) for file in files]
    log.lake.commit(log_now, added, app_id, number, replaced=replaced, note=note)
    # whatever the answer was: it may have been lost, and another commit may have come right after
    return log.controls(only=list(controls)) == dict(controls)


def bare_fence(load: LoadContext, app_id: str, *, odd: bool = False) -> int:
    """Commit nothing but a fence to the log, with a number above all before it: what has a lower one is refused.

    Args:
        load: Of the load.
        app_id: Identifier of the fence.
        odd: Whether the number has to be odd.

    Returns:
        The number.

    Raises:
        ConcurrentLoad: Others kept moving the fence.
    """
    log = load.log

    def send(number: int) -> None:
        log.lake.commit(log.open(), [], app_id, number)

    return move_fence(log.lake, log.uri, app_id, send, table_name=load.table.name, odd=odd)


def _record_files(load: LoadContext, controls: Mapping[str, WindowRecord]) -> list[StagedFile]:
    """WindowRecord rows, each in a file of its own."""
    written = []
    with load.lake.files(load.log.uri) as files:
        for key, control in controls.items():
            folder = f"{FOLDER}/{uuid4().hex}/_kind={CONTROL}"
            path = f"{folder}/control.parquet"
            files.create_dir(folder, recursive=True)
            with files.open_output_stream(path) as out:
                pq.write_table(pa.Table.from_pylist([{"_control": asdict(control)}], _record_schema()), out)
                size = out.tell()
            written.append(StagedFile(path, size, key, CONTROL, rows=1, statistics='{"numRecords":1}'))
    return written


@cache
def _record_schema() -> pa.Schema:
    return to_arrow_schema(T.StructType([T.StructField("_control", WINDOW_RECORD_TYPE)]), timezone="UTC")
