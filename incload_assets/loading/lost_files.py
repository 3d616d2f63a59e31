"""A data file of a table or its log that is gone though it is part of it: no source is at fault, and no retry helps."""

import re
from urllib.parse import unquote

from incload_assets.loading.declaration import Table
from incload_assets.loading.errors import IncrementalLoadError, StoredFileLost
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
            "where the source still holds everything: its partitions are then asked for, and landed again",
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
