"""What is older than a window, as Delta's own statistics tell.

Where the table is, the window's MERGE needs no look at it before; and deletes that are decide nothing of the window.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyspark.sql.types as T

_CUT = timedelta(milliseconds=1)
"""Delta writes instants down to the millisecond."""


def is_newer(first: str, column: str, kind: T.DataType, files: pa.Table) -> bool:
    """Whether changes are newer than every row of some files.

    Args:
        first: The oldest change's sequence, as Spark prints it in UTC.
        column: Of the sequence; where it has several columns, the first.
        kind: Its type.
        files: As :func:`resources.lake.data_files` tells of them.

    Returns:
        False where statistics are missing, or do not compare exactly as they do of strings and decimals. True may be
        wrong of timestamps: in checkpoints that others write, or older loads did, they may be INT96, of which deltalake
        makes nanoseconds in 64 bits, and one later than 2262 becomes an early one. So it may decide how rows are
        merged, not which.

    Example:
        >>> files = pa.table({"size_bytes": [10, 20], "max.seq": [3, 8]})
        >>> is_newer("9", "seq", T.LongType(), files), is_newer("8", "seq", T.LongType(), files)
        (True, False)
    """
    return not _perhaps_newer([first], column, kind, files).num_rows


def without_older(firsts: Sequence[str], column: str, kind: T.DataType, files: pa.Table) -> pa.Table:
    """Those files that may hold something that is not older than all of some changes; of timestamps, all files.

    Args:
        firsts: The oldest changes' sequences, one or more; otherwise as for :func:`is_newer`.
        column: Likewise.
        kind: Likewise.
        files: Likewise.

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
    except (ValueError, OverflowError):  # years that Python does not know
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
