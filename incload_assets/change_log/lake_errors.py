"""Errors of the lake itself: a lost data file of a table or its log, and rules of Delta that refuse a commit."""

import re
from urllib.parse import unquote

from pyspark.errors import PySparkException

from incload_assets.contract.contract import MASK
from incload_assets.declaration.table import Table
from incload_assets.platform.errors import ConcurrentLoad, IncrementalLoadError, SchemaMismatch, StoredFileLost
from incload_assets.platform.lake import Lake, data_files, sizes_of
from incload_assets.platform.sql import quoted
from incload_assets.platform.unreadable import afresh
from incload_assets.protection.person_keys import person_keys_uri

_GONE = re.compile(
    r"\[PATH_NOT_FOUND\] Path does not exist: (?P<path>.+?)\. SQLSTATE"
    r"|\[FAILED_READ_FILE\.FILE_NOT_EXIST\] .*?reading file (?P<file>\S.*?)\.\s"
)


def lost_file(error: BaseException, table: Table, lake: Lake) -> IncrementalLoadError | None:
    """The error for a lost data file of a table or its log; None if Spark's error is about something else."""
    found = _GONE.search(str(error))
    name = unquote(found["path"] or found["file"]) if found else ""
    if f"{lake.spark_uri(person_keys_uri(lake))}/" in name:
        return ConcurrentLoad(
            f"{table.name}: {name}, a file of keys of persons, was replaced while the load read it",
            rule="an erasure removes the files that had a person's key at once",
            remedy="the load is tried again later",
        )
    path = table.key.path
    places = {lake.table_uri(path): "the table", lake.log_uri(path): "the log of changes"}
    for uri, what in places.items():
        if f"{lake.spark_uri(uri)}/" in name:
            if not _is_of_newest_version(lake, uri, name.partition(f"{lake.spark_uri(uri)}/")[2]):
                return ConcurrentLoad(
                    f"{table.name}: {name}, a data file of {what}, was replaced and removed while the load read it",
                    rule="an erasure, and a VACUUM that keeps nothing, remove files at once",
                    remedy="the load is tried again later",
                )
            return StoredFileLost(
                f"{table.name}: {name}, a data file of {what}, is gone",
                rule="files of the lake are removed by Delta's VACUUM alone",
                remedy=f"restore it{afresh(uri)}",
            )
    return None


def _is_of_newest_version(lake: Lake, uri: str, file: str) -> bool:
    """True if the newest version of a table has the file, or no version can be read."""
    try:
        delta = lake.delta(uri)
    except IncrementalLoadError:
        return True
    return delta is None or file in sizes_of(data_files(delta))


def refusal(error: PySparkException, table: Table, uri: str) -> SchemaMismatch | None:
    """The error for a rule of the Delta table that refuses a commit; None if Delta's error is about something else."""
    condition, told = error.getCondition() or "", error.getMessageParameters() or {}
    if condition.startswith("DELTA_VIOLATE_CONSTRAINT"):
        name = told.get("constraintName", "")
        lines = [line[3:].partition(" : ") for line in told.get("values", "").splitlines() if line.startswith(" - ")]
        personal = tuple(
            f"{column}." for column in table.contract.personal
        )  # a member of a personal column is personal, too
        values = [f"{column} {MASK if f'{column}.'.startswith(personal) else value}" for column, _, value in lines]
        return SchemaMismatch(
            f"{table.name}: the CHECK constraint {name} {told.get('expression', '')} of the table refuses a row with "
            f"{', '.join(values)}",
            rule="a load writes every row that the contract accepts",
            remedy="put the rule into the contract, which quarantines such rows, and ALTER TABLE "
            f"{uri} DROP CONSTRAINT {quoted(name)}",
        )
    if condition == "DELTA_CANNOT_MODIFY_APPEND_ONLY":
        return SchemaMismatch(
            f"{table.name}: the table has delta.appendOnly = true",
            rule="a load updates and deletes rows, and puts files in the place of others",
            remedy=f"ALTER TABLE {uri} UNSET TBLPROPERTIES ('delta.appendOnly')",
        )
    return None
