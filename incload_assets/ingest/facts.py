"""Facts of an ingestion's rows, needed for its commit and counted in one aggregate."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import (
    DELETE,
    ERASED,
    NOT_KEPT,
    REJECTED,
    REPLACED,
    SKIPPED,
    SNAPSHOT,
    TRUNCATE,
    UPSERTS,
)
from incload_assets.change_log.read_view import MAX_PARTITIONS
from incload_assets.declaration.layout import place_sql
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.ingest.compared import tearing_column
from incload_assets.ingest.full_extracts import Extract
from incload_assets.platform.sql import col

CONTENTS = 2**62
"""Number of contents that are distinguished."""
COUNTED = 1_000
"""Keys that are counted exactly; of more, counts of frequent ones may be too high by a fifth of a percent of all."""


@dataclass(frozen=True)
class Facts:
    """The facts of the rows of one window; see :class:`~incload_assets.change_log.window_records.WindowRecord`.

    ``replaced`` counts keys that had a row removed. ``extracts`` are oldest first. ``only_skipped`` has each reason why
    records were skipped, by source, for sources without an accepted change; ``unseen`` the fields in conditions that
    had no value in any record of the windows read together.
    """

    rows: int = 0
    rejected: int = 0
    skipped: int = 0
    erased: int = 0
    replaced: int = 0
    partitions: list[str] | None = None
    first_sequence: str | None = None
    content: int | None = 0
    extracts: tuple[Extract, ...] = ()
    only_skipped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()
    buckets: int | None = None
    largest_key: int | None = None
    largest_place: int | None = None

    @classmethod
    def of_record(cls, recorded: Mapping[str, Any], unseen: tuple[str, ...]) -> "Facts":
        """The facts that :attr:`recorded` gave."""
        return cls(**{_NAMED.get(name, name): value for name, value in recorded.items()}, unseen=unseen)

    @property
    def recorded(self) -> dict[str, Any]:
        """The facts that the window's record has, by the names of its fields."""
        return {
            "rows_read": self.rows,
            "rejected": self.rejected,
            "skipped": self.skipped,
            "erased": self.erased,
            "replaced": self.replaced,
            "partitions": self.partitions,
            "first_sequence": self.first_sequence,
            "content": self.content,
            "buckets": self.buckets,
            "largest_key": self.largest_key,
            "largest_place": self.largest_place,
        }

    @property
    def of_one_partition(self) -> bool:
        """True if all rows are known to be in the same partition."""
        return (
            not (self.rejected or self.skipped or self.erased)
            and self.partitions is not None
            and len(self.partitions) < 2
        )


_NAMED = {"rows_read": "rows"}


def facts_of(frame: DataFrame, table: Table, of: Collection[Window]) -> dict[str, Facts]:
    """The facts of each window, by partition key, from validated rows and markers."""
    rows = frame.groupBy("_window").agg(*asked(table)).head(len(of))
    nothing = Facts(partitions=[] if place_sql(table) else None, buckets=table.write.divided_into or 0)
    return {window.key: nothing for window in of} | {row["_window"]: told(row.asDict(), table) for row in rows}


def asked(table: Table) -> list[Column]:
    """The aggregates over validated rows and markers of a window, whose values :func:`told` turns into facts."""
    kept = F.col("_kind").isin(*UPSERTS, DELETE)
    first = col(table.changes.sequence_by[0]) if table.changes.sequence_by else F.lit(None).cast("string")
    place, changes = place_sql(table), ~F.col("_kind").isin(REJECTED, *NOT_KEPT)
    touched = F.expr(place or "NULL").cast("string")
    values = F.collect_set(F.when(changes, touched))
    anywhere = F.count(F.when(changes & touched.isNull(), 1))  # a truncate has no key
    everywhere = F.lit(place is None) | (anywhere > 0) | (F.size(values) > MAX_PARTITIONS)
    return [
        F.count(F.when(~F.col("_kind").isin(REPLACED, SNAPSHOT), 1)).alias("rows"),
        F.count(F.when(F.col("_kind") == REJECTED, 1)).alias("rejected"),
        F.count(F.when(F.col("_kind") == SKIPPED, 1)).alias("skipped"),
        F.count(F.when(F.col("_kind") == ERASED, 1)).alias("erased"),
        F.count(F.when(F.col("_kind") == REPLACED, 1)).alias("replaced"),
        F.min(F.when(kept, first)).cast("string").alias("first"),
        F.count(F.when(kept & first.isNull(), 1)).alias("unordered"),
        everywhere.alias("everywhere"),
        F.slice(values, 1, MAX_PARTITIONS).alias("partitions"),
        content_sum(table).alias("content"),
        *_largest(table, kept, touched),
        *(_skips(table) if table.source.mixes_tables else ()),
    ]


def told(values: Mapping[str, Any], table: Table) -> Facts:
    """The facts of a window, from the values of the aggregates of :func:`asked`."""
    return Facts(
        rows=values["rows"],
        rejected=values["rejected"],
        skipped=values["skipped"],
        erased=values["erased"],
        replaced=values["replaced"],
        partitions=None if values["everywhere"] else sorted(values["partitions"]),
        first_sequence=None if values["unordered"] else values["first"],
        content=int(values["content"]) % CONTENTS,
        buckets=table.write.divided_into or 0,
        largest_key=_most(values["keys"]),
        largest_place=_most(values["places"]),
        only_skipped=_only_skipped(values["skips"], values["changed"]) if table.source.mixes_tables else {},
    )


def _largest(table: Table, kept: Column, touched: Column) -> tuple[Column, Column]:
    """The most frequent key, as a hash, and place, with their numbers of changes; NULL stands for all other rows.

    A sketch of bounded size counts them, as a range load has one for each of its windows: up to ``COUNTED`` exactly.
    """
    keys = table.changes.keys

    def counted(value: Column, *, known: bool) -> Column:
        if not known:
            return F.max(F.lit(None).cast("int"))
        return F.call_function("approx_top_k", F.when(kept, value), F.lit(2), F.lit(COUNTED))

    return (
        counted(F.xxhash64(*map(col, keys)), known=bool(keys)).alias("keys"),
        counted(touched, known=place_sql(table) is not None).alias("places"),
    )


def _most(counted: Iterable[Any] | None) -> int | None:
    return max((one["count"] for one in counted or () if one["item"] is not None), default=None)


def content_sum(table: Table) -> Column:
    """The hash of a window's content, to be taken modulo :data:`CONTENTS`: the sum of the hashes of its rows.

    A change is hashed by its kind and values, and by the payload that it keeps if a person has accepted it; a rejected
    row by its payload, so not by its reasons and what a code could read of it. Sums can be added and subtracted, and
    unlike an exclusive or, a sum detects repeated rows.
    """
    kind, payload = F.col("_kind"), F.col("_payload")
    more = [F.array_sort("_unset")] if table.by_column else []
    more += [F.col("_is_snapshot")] if table.changes.snapshot_when else []
    change = F.xxhash64(kind, "_hash", payload, *more)
    row = F.when((kind == REJECTED) & payload.isNotNull(), F.xxhash64(kind, payload)).otherwise(change)
    held = kind.isin(*UPSERTS, DELETE, TRUNCATE, REJECTED)
    return F.coalesce(_exact_sum(F.when(held, row)), F.lit(0))


def _exact_sum(number: Column) -> Column:
    """The sum of 64-bit integers, which may be longer; in two halves, as decimals are slow to add."""
    low, high = (F.sum(half).cast("decimal(20,0)") for half in (number.bitwiseAND(2**32 - 1), F.shiftright(number, 32)))
    return high * F.lit(2**32).cast("decimal(10,0)") + low


def _skips(table: Table) -> tuple[Column, Column]:
    part, kind = table.source.part(F.col("_source.file")), F.col("_kind")
    skip = F.struct(part.alias("part"), F.element_at("_reasons", 1).alias("reason"))
    return (
        F.collect_set(F.when(kind == SKIPPED, skip)).alias("skips"),
        F.collect_set(F.when(kind.isin(*UPSERTS, DELETE, TRUNCATE), part)).alias("changed"),
    )


def _only_skipped(skips: Iterable[Any], changed: Collection[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for skip in sorted(skips):
        if skip.part not in changed:
            found[skip.part] = (*found.get(skip.part, ()), skip.reason)
    return found


def has_torn_keys(validated: DataFrame, table: Table, facts: Iterable[Facts]) -> bool:
    """True if a key has two partitions within a window. No query is needed if all rows are in one partition.

    Rejected rows count, too: they may be rejected only because of another collision.
    """
    place = tearing_column(table)
    if place is None or all(fact.of_one_partition for fact in facts):
        return False
    by_key = validated.groupBy("_window", *map(col, table.changes.keys))
    torn = by_key.agg((F.min(col(place)) != F.max(col(place))).alias("torn")).filter("torn")
    return not torn.isEmpty()
