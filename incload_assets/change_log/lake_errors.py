"""A data file of a table or its log that is gone though it is part of it: no source is at fault, and no retry helps."""

import re
from urllib.parse import unquote

from pyspark.errors import PySparkException

from incload_assets.contract.contract import MASK
from incload_assets.declaration.table import Table
from incload_assets.delta.sql import quoted
from resources.errors import IncrementalLoadError, SchemaMismatch, StoredFileLost
from resources.lake import Lake

_GONE = re.compile(
    r"\[PATH_NOT_FOUND\] Path does not exist: (?P<path>.+?)\. SQLSTATE"
    r"|\[FAILED_READ_FILE\.FILE_NOT_EXIST\] .*?reading file (?P<file>\S.*?)\.\s"
)


def lost_file(error: BaseException, table: Table, lake: Lake) -> IncrementalLoadError | None:
    """What Spark's error says about a file of a table or its log; None where it is about something else.

    Args:
        error: What an action raised.
        table: Whose load it was part of.
        lake: Where tables are.

    Example:
        >>> lost_file(ValueError("x"), table, lake) is None  # doctest: +SKIP
        True
    """
    found = _GONE.search(str(error))
    name = unquote(found["path"] or found["file"]) if found else ""
    path = table.key.path
    places = {
        lake.table_uri(path): ("the table", "its partitions are then asked for, and merged from the log again"),
        lake.log_uri(path): (
            "the log of changes",
            "where the source still holds everything: its partitions are then asked for, and ingested again",
        ),
    }
    for uri, (what, then) in places.items():
        if f"{lake.spark_uri(uri)}/" in name:
            return StoredFileLost(
                f"{table.name}: {name}, a data file of {what}, is gone",
                rule="files of the lake are removed by Delta's VACUUM alone",
                remedy=f"restore it, or remove all of {uri}; {then}",
            )
    return None


def refusal(error: PySparkException, table: Table, uri: str) -> SchemaMismatch | None:
    """What Delta's error says about a rule of the table; None where it is about something else.

    Args:
        error: What a commit raised.
        table: Whose load it was part of.
        uri: Of the table, as in SQL.
    """
    condition, told = error.getCondition() or "", error.getMessageParameters() or {}
    if condition.startswith("DELTA_VIOLATE_CONSTRAINT"):
        name = told.get("constraintName", "")
        lines = [line[3:].partition(" : ") for line in told.get("values", "").splitlines() if line.startswith(" - ")]
        personal = tuple(f"{column}." for column in table.contract.personal)  # a member of one is as much so
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
