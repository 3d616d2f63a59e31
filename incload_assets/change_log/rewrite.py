"""Rewrites of the whole log: every row stays in its window, with other types or other values of a column.

What depends on files has to follow the rows: payloads keep their age, which is that of their data file, and files that
former landings name are copied before they leave the log, so that undos find them.
"""

from collections.abc import Callable, Sequence
from urllib.parse import unquote
from uuid import uuid4

import pyspark.sql.types as T
from deltalake import DeltaTable, Schema
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.former import FormerLandings
from incload_assets.change_log.payloads import instant
from incload_assets.change_log.staged import FOLDER, StagedFile, remove_files, write_parquet, written_files
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import data_files, rows_of
from incload_assets.platform.wording import several

REWRITES = "rewrites the log: "
"""Beginning of the messages of such commits in the log's history."""


def rewrite_log(
    load: LoadContext,
    at: DeltaTable,
    changed: Callable[[DataFrame], DataFrame],
    *,
    columns: T.StructType,
    alone: bool = False,
    note: str,
) -> bool:
    """Rewrites all rows of the log in one commit; returns whether it was committed, and refuses to lose rows.

    It fails if another commit meanwhile has replaced or removed rows (if ``alone``: any commit); added rows stay.
    """
    log, folder, files = load.log, f"{FOLDER}/{uuid4().hex}", data_files(at)
    read_at: dict[tuple[str, str], int] = {}
    for file in files.select(["partition._window", "partition._kind", "modification_time"]).to_pylist():
        place = file["partition._window"], file["partition._kind"]
        read_at[place] = min(read_at.get(place, file["modification_time"]), file["modification_time"])
    rows = load.spark.read.format("delta").option("versionAsOf", at.version()).load(load.lake.spark_uri(log.uri))
    number = (at.transaction_version(_app_id(load)) or 0) + 1
    schema, is_given = Schema.from_json(columns.json()), False
    try:
        # the keys as hexadecimal digits, as Hadoop would escape characters of a partition key
        write_parquet(log, changed(rows).withColumn("_window", F.hex("_window")), folder)
        written = [*written_files(log, folder, lambda digits: bytes.fromhex(digits).decode())]
        _check_count(load, rows_of(files), sum(file.rows for file in written))
        FormerLandings(log).keep_named(None, [*map(unquote, files["path"].to_pylist())])
        added = [file.as_added(instant(read_at[file.window, file.kind])) for file in written]
        is_given = True
        load.lake.commit(
            at, added, _app_id(load), number, replaced={}, note=REWRITES + note, schema=schema, alone=alone
        )
        is_given = _is_there(log.open(), at, written)  # no matter how the commit ended: its answer may have been lost
        return is_given
    finally:
        if not is_given:
            remove_files(log, [folder])


def _app_id(load: LoadContext) -> str:
    return f"{load.table.name}/rewrite"


def _is_there(now: DeltaTable, before: DeltaTable, written: Sequence[StagedFile]) -> bool:
    """True if a rewrite was committed: its files are in the log, or if it has none, there is a newer version."""
    paths = {unquote(path) for path in data_files(now)["path"].to_pylist()}
    return any(file.path in paths for file in written) if written else now.version() > before.version()


def _check_count(load: LoadContext, expected: int, written: int) -> None:
    if expected and expected != written:
        raise IncrementalLoadError(
            f"{load.table.name}: a rewrite of its log made {several(written, 'row')} of {expected}",
            rule="every row stays in its window; nothing was committed",
            remedy="find out what else writes the log, and try again",
        )
