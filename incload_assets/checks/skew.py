"""The check ``skew``: whether one key of a load, or a partition or bucket of the table, has far more rows than others.

A load works on keys and places in parallel, so that the largest one decides how long it takes; and most often it is a
default, such as 0 or ``unknown``, that stands for what the source does not know. Nothing is read for it but the window
records, which have the count of the largest key, and the statistics in the table's Delta log.
"""

from dataclasses import dataclass
from statistics import median

import dagster as dg
import pyarrow as pa

from incload_assets.change_log.log import ChangeLog, as_decided
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.checks.kinds import LightCheck, not_at_all
from incload_assets.checks.observation import Observation, records, result
from incload_assets.contract.contract import MASK
from incload_assets.declaration.layout import buckets_for
from incload_assets.declaration.table import Table
from incload_assets.declaration.write import BUCKET
from incload_assets.platform.lake import bytes_of, data_files
from incload_assets.platform.sql import literal, quoted
from incload_assets.platform.wording import several, size

NAME = "skew"
DESCRIPTION = "No key of a load, and no partition or bucket of the table, has far more rows than the others."


@dataclass(frozen=True)
class Limits:
    """The numbers from which something counts as far more; what has fewer rows than the first two never does.

    Args:
        key_rows, place_rows: Rows of a key in one load, and of a partition or bucket, from which they are compared.
        key_share: Largest share of a load's changes that one key may have.
        partition_times, bucket_times: How many times the rows of the median partition or bucket one may have.
        places: The number of partitions or buckets from which they are compared.
        bucket_bytes: Mean size of a bucket from which more of them are advised: a load rewrites whole buckets.
        windows: The number of latest loaded windows whose loads are looked at.
    """

    key_rows: int = 100_000
    place_rows: int = 1_000_000
    key_share: float = 0.2
    partition_times: float = 10.0
    bucket_times: float = 3.0
    places: int = 4
    bucket_bytes: int = 2**30
    windows: int = 3


LIMITS = Limits()


@dataclass(frozen=True)
class _Place:
    """A partition or bucket of the table."""

    value: str
    rows: int
    size: int


def skew(look: Observation, limits: Limits = LIMITS) -> dg.AssetCheckResult:
    """The check that keys, partitions and buckets are of about the same size; WARN if one is far larger."""
    table = as_decided(look.table, look.lake)
    delta = look.lake.delta(look.lake.table_uri(table.key.path))
    files = None if delta is None else data_files(delta)
    places = [] if files is None else _places(table, files)
    latest = _latest(look, limits)
    keys = [key for key, record in latest if _has_hot_key(record, limits)]
    told = [_of_key(table, look, key, look.records[key]) for key in keys]
    large = _largest(table, places, limits)
    if large is not None:
        told.append(_of_place(table, large, places))
    total, number = (0 if files is None else bytes_of(files)), table.write.divided_into
    mean = total // number if number else 0
    if mean > limits.bucket_bytes:
        told.append(
            f"A bucket has {size(mean)} on average, and a load rewrites whole buckets. "
            f"What to do: declare buckets={buckets_for(total)}, and run incload rebucket {table.name}."
        )
    metadata: dict[str, dg.MetadataValue] = {
        "windows_with_a_large_key": dg.MetadataValue.text(", ".join(keys)),
        "large_place": dg.MetadataValue.text("" if large is None else large.value),
        "buckets": dg.MetadataValue.int(number or 0),
        "buckets_too_large": dg.MetadataValue.bool(mean > limits.bucket_bytes),
        "largest_key_rows": dg.MetadataValue.int(max((r.largest_key or 0 for _, r in latest), default=0)),
        "largest_place_rows": dg.MetadataValue.int(max((place.rows for place in places), default=0)),
        "median_place_rows": dg.MetadataValue.int(round(median(place.rows for place in places)) if places else 0),
        "bytes": dg.MetadataValue.int(total),
    }
    if large is not None:
        by_size = sorted(places, key=lambda place: -place.rows)
        metadata["places"] = records(["place", "rows", "bytes"], ((p.value, p.rows, p.size) for p in by_size[:10]))
    return result(look, NAME, not told, " ".join(told) or _in_order(table, total, latest), metadata)


def _latest(look: Observation, limits: Limits) -> list[tuple[str, WindowRecord]]:
    """The latest loaded windows with their records, oldest first."""
    loaded = [(one.key, look.records[one.key]) for one in look.progress if one.key in look.records]
    return loaded[-limits.windows :]


def changes_of(record: WindowRecord) -> int:
    """The number of changes that a window's record counts."""
    return record.rows_read - record.rejected - record.skipped - record.erased


def _has_hot_key(record: WindowRecord, limits: Limits) -> bool:
    largest = record.largest_key or 0
    return largest >= limits.key_rows and largest > limits.key_share * changes_of(record)


def _of_key(table: Table, look: Observation, window: str, record: WindowRecord) -> str:
    keys, total = ", ".join(map(quoted, table.changes.keys)), changes_of(record)
    log = ChangeLog(table, look.lake).uri
    query = (
        f"SELECT {keys}, count(*) FROM delta.{quoted(log)} WHERE _window = {literal(window)} AND _kind IN ('upsert', "
        "'moved', 'delete') GROUP BY ALL ORDER BY count(*) DESC LIMIT 3"
    )
    return (
        f"One key has {several(record.largest_key or 0, 'change')} of {total:,} in {window}. What to do: see which it "
        f"is, by {query}. If it stands for a missing key, as 0 or 'unknown', have it corrected at the source, or "
        "reject it by a check in the contract."
    )


def _places(table: Table, files: pa.Table) -> list[_Place]:
    """The partitions or buckets by their values; none if the table has neither, or a file lacks statistics."""
    column = BUCKET if table.write.divided_into is not None else table.write.partition_by
    if column is None or f"partition.{column}" not in files.schema.names or "num_records" not in files.schema.names:
        return []
    if files["num_records"].null_count:
        return []
    sums = files.group_by(f"partition.{column}").aggregate([("num_records", "sum"), ("size_bytes", "sum")])
    hidden = column in table.contract.personal
    return [
        _Place(MASK if hidden else str(row[f"partition.{column}"]), row["num_records_sum"], row["size_bytes_sum"])
        for row in sums.to_pylist()
    ]


def _largest(table: Table, places: list[_Place], limits: Limits) -> _Place | None:
    """The largest place if it is far larger than the others."""
    if len(places) < limits.places:
        return None
    times = limits.partition_times if table.write.divided_into is None else limits.bucket_times
    largest = max(places, key=lambda place: place.rows)
    too_large = largest.rows >= limits.place_rows and largest.rows > times * median(place.rows for place in places)
    return largest if too_large else None


def _of_place(table: Table, large: _Place, places: list[_Place]) -> str:
    usual = f"the median of {len(places)} is {round(median(place.rows for place in places)):,}"
    if table.write.divided_into is not None:
        return (
            f"Bucket {large.value} has {several(large.rows, 'row')}; {usual}. What to do: one key has very many rows "
            "there, as buckets divide keys evenly; see which, and have it corrected at the source if it stands for a "
            "missing one."
        )
    return (
        f"The partition {table.write.partition_by}={large.value} has {several(large.rows, 'row')}; {usual}. What to "
        "do: if the value stands for a missing one, have it corrected at the source; otherwise partition by another "
        "column, in a table of another name, or divide by key: buckets instead of partition_by."
    )


def _in_order(table: Table, total: int, latest: list[tuple[str, WindowRecord]]) -> str:
    advised = buckets_for(total)
    if table.write.bucketed and not table.write.stored_by and advised is not None:
        return (
            f"No key has far more rows than others. The table has {size(total)} in no buckets: with buckets={advised} "
            f"(incload rebucket {table.name}) a load with few changes would rewrite less."
        )
    of_loads = f" in the latest {several(len(latest), 'load')}" if latest else ""
    return f"No key, partition or bucket has far more rows than others{of_loads}."


CHECK = LightCheck(
    name=NAME,
    description=DESCRIPTION,
    runbook="skew",
    evaluate=skew,
    applies_to=lambda table: bool(table.changes.keys or table.write.stored_by),
    rough={
        name: not_at_all for name in ("largest_key_rows", "largest_place_rows", "median_place_rows", "bytes", "places")
    },
)
