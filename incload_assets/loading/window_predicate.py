"""Which values of a date or a timestamp lie in a window."""

from datetime import datetime
from zoneinfo import ZoneInfo

import dagster as dg
import pyspark.sql.types as T

from incload_assets.delta.sql import quoted
from incload_assets.loading.errors import DeclarationError
from incload_assets.loading.window import first_window


def inside_sql(column: str, kind: T.DataType, start: datetime, end: datetime, timezone: str) -> str:
    """SQL with literals, by which Delta skips files: whether a column's value lies in a window.

    Args:
        column: Its name.
        kind: Its type, date or timestamp.
        start: Of the window, aware.
        end: First instant after it, aware.
        timezone: Of the partitions definition; a date is a day there.

    Example:
        >>> inside_sql("day", T.DateType(), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC), "UTC")
        "`day` >= DATE'2026-01-01' AND `day` < DATE'2026-01-02'"
    """
    if isinstance(kind, T.DateType):
        zone = ZoneInfo(timezone)
        first, after = (f"DATE'{bound.astimezone(zone).date()}'" for bound in (start, end))
    else:
        first, after = (f"TIMESTAMP'{bound.isoformat()}'" for bound in (start, end))
    return f"{quoted(column)} >= {first} AND {quoted(column)} < {after}"


def check_whole_days(table: str, place: str, column: str, partitions_def: dg.TimeWindowPartitionsDefinition) -> None:
    """Check that a date tells the windows of a definition.

    Args:
        table: For the message.
        place: Where the column is named.
        column: Its name.
        partitions_def: Of the table.

    Raises:
        DeclarationError: Windows begin or end within a day.
    """
    first = first_window(partitions_def, table)
    zone = ZoneInfo(partitions_def.timezone)
    bounds = [bound.astimezone(zone) for bound in (first.start, first.end)]
    if any((bound.hour, bound.minute) != (0, 0) for bound in bounds):
        raise DeclarationError(
            f"{table}: {place} names {column!r} of type date, and the first window is "
            f"[{bounds[0].isoformat()}, {bounds[1].isoformat()})",
            rule="a date tells the window of a row only if windows begin at midnight",
            remedy="partition by a timestamp, or by a string that is the partition key",
        )
