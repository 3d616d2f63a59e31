"""Statistics of a Parquet file for Delta's log, from its footer; see Delta's protocol, *Per-file Statistics*."""

import json
import math
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq

LONGEST_TEXT = 256
"""Maximum length of a bound in characters; a column with a longer bound gets no range."""


def statistics_of(footer: pq.FileMetaData, columns: Collection[str]) -> str:
    """The statistics of a file in Delta's JSON format, with ranges of some columns that are no structs.

    A bound that is missing in Parquet, or has no exact JSON form, is omitted; queries then cannot skip the file.
    """
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    places = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
    low: dict[str, str] = {}
    high: dict[str, str] = {}
    nulls: dict[str, str] = {}
    for name in columns:
        found = [group.column(places[name]).statistics for group in groups] if name in places else []
        if not found or any(one is None or not one.has_null_count for one in found):
            continue
        nulls[name] = str(sum(one.null_count for one in found))
        filled = [one for one, group in zip(found, groups, strict=True) if one.null_count < group.num_rows]
        bounds = _bounds(filled)
        if bounds is not None:
            low[name], high[name] = bounds
    parts = {"minValues": low, "maxValues": high, "nullCount": nulls}
    members = [f'"numRecords":{footer.num_rows}', *(f'"{part}":{_object(values)}' for part, values in parts.items())]
    return f"{{{','.join(members)}}}"


def _object(values: dict[str, str]) -> str:
    return f"{{{','.join(f'{_text(name)}:{value}' for name, value in values.items())}}}"


def _text(value: str) -> str:
    """A text as JSON without escapes beyond ASCII, as deltalake misreads escapes of characters beyond U+FFFF."""
    return json.dumps(value, ensure_ascii=False)


def _bounds(filled: Sequence[Any]) -> tuple[str, str] | None:
    """The least and the greatest value as JSON; None if one is missing or has no exact form."""
    if not filled or not all(one.has_min_max for one in filled):
        return None
    try:
        low, high = _exact(min(one.min for one in filled)), _exact(max(one.max for one in filled))
    except (ValueError, OverflowError):  # years outside Python's range
        return None
    return None if low is None or high is None else (low, high)


def _exact(bound: Any) -> str | None:
    """A value as JSON; None if that would not be exact."""
    match bound:
        case bool() | bytes():
            return None
        case int():
            return str(bound)
        case float():
            return repr(bound) if math.isfinite(bound) else None
        case Decimal():
            return f"{bound:f}" if bound.is_finite() else None
        case str():
            return _text(bound) if len(bound) <= LONGEST_TEXT else None
        case datetime():
            utc = "Z" if bound.tzinfo else ""
            return f'"{bound.astimezone(UTC).replace(tzinfo=None).isoformat() if utc else bound.isoformat()}{utc}"'
        case date():
            return f'"{bound.isoformat()}"'
    return None
