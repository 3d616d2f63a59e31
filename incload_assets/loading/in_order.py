"""Whether a window brings nothing but news, as Delta's own statistics tell: then its MERGE needs no look at the table.

The MERGE judges each row once more in any case, so a wrong answer costs time and changes no result.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
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
        False where statistics are missing, or do not compare exactly as they do of strings and decimals.

    Example:
        >>> files = pa.table({"size_bytes": [10, 20], "max.seq": [3, 8]})
        >>> is_newer("9", "seq", T.LongType(), files), is_newer("8", "seq", T.LongType(), files)
        (True, False)
    """
    if not files.num_rows:
        return True
    name, reading = f"max.{column}", _READINGS.get(type(kind))
    if reading is None or name not in files.schema.names or files[name].null_count:
        return False
    try:
        return bool(reading(first) > _in_utc(pc.max(files[name]).as_py()))
    except (ValueError, OverflowError):  # years that Python does not know
        return False


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
