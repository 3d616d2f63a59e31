"""Compares a window's oldest changes with Delta's file statistics.

If all rows of the table are older, the window's MERGE can skip reading the table first. Deletes that are older than the
window cannot affect it.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyspark.sql.types as T

_CUT = timedelta(milliseconds=1)
"""Delta truncates instants in statistics to milliseconds."""


def is_newer(first: str, column: str, kind: T.DataType, files: pa.Table) -> bool:
    """True if changes are newer than every row of some files.

    Args:
        first: The oldest change's sequence, as Spark prints it in UTC.
        column: The first sequence column.
        kind: The column's type.
        files: The files, as :func:`incload_assets.platform.lake.data_files` returns them.

    Returns:
        False if statistics are missing or compare inexactly, as those of strings and decimals do. True may be wrong for
        timestamps: in checkpoints written by other software or by older loads they may be INT96, which deltalake
        converts to 64-bit nanoseconds, so that a time after 2262 becomes an early one. So the result may decide how
        rows are merged, but not which rows.

    Example:
        >>> files = pa.table({"size_bytes": [10, 20], "max.seq": [3, 8]})
        >>> is_newer("9", "seq", T.LongType(), files), is_newer("8", "seq", T.LongType(), files)
        (True, False)
    """
    return not _perhaps_newer([first], column, kind, files).num_rows


def without_older(firsts: Sequence[str], column: str, kind: T.DataType, files: pa.Table) -> pa.Table:
    """Files without those whose rows are all older than some changes; for timestamps, all files.

    Args:
        firsts: The oldest changes' sequences, one or more, as Spark prints them in UTC.
        column: The first sequence column.
        kind: The column's type.
        files: The files, as :func:`incload_assets.platform.lake.data_files` returns them.

    Example:
        >>> files = pa.table({"size_bytes": [10, 20], "max.seq": [3, 8]})
        >>> without_older(["9", "7"], "seq", T.LongType(), files)["size_bytes"].to_pylist()
        [20]
    """
    return files if isinstance(kind, T.TimestampType) else _perhaps_newer(firsts, column, kind, files)


def _perhaps_newer(firsts: Sequence[str], column: str, kind: T.DataType, files: pa.Table) -> pa.Table:
    name, reading = f"max.{column}", _READINGS.get(type(kind))
    if reading is None or name not in files.schema.names:
        return files
    try:
        oldest = min(map(reading, firsts))
        newest = [None if value is None else _in_utc(value) for value in files[name].to_pylist()]
    except (ValueError, OverflowError):  # years outside Python's range
        return files
    return files.filter(pa.array([value is None or not oldest > value for value in newest], pa.bool_()))


def _in_utc(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def _instant(text: str) -> Any:
    return _in_utc(datetime.fromisoformat(text)) - _CUT


_READINGS: dict[type[T.DataType], Callable[[str], Any]] = {
    T.ByteType: int,
    T.ShortType: int,
    T.IntegerType: int,
    T.LongType: int,
    T.DateType: date.fromisoformat,
    T.TimestampType: _instant,
    T.TimestampNTZType: _instant,
}
