"""The changes of one row as the log has them, in memory, and their order, which is the engine's."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from incload_assets.change_log.change import DELETE, EMPTIES
from incload_assets.declaration.table import Table
from incload_assets.platform.wording import place_of

What = Literal[
    "in effect",
    "superseded",
    "stale",
    "duplicate",
    "waiting",
    "no effect",
    "rejected",
    "withdrawn",
    "removed",
    "unknown",
]
Row = dict[str, Any]
UNKNOWN = object()
"""A value of a row that is unknown from the changes at hand."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Logged:
    """A row of the log that concerns the traced row, with its columns of the contract as ``values``.

    ``rank`` is the place of the window among all ingested ones, by time; ``landed_at`` (aware) is its last ingestion.
    ``unset`` are columns that it leaves unset; ``file``, ``block`` and ``row`` its place at the source.
    """

    kind: str
    window: str
    rank: int
    landed_at: datetime
    values: Mapping[str, Any]
    hash: int | None = None
    unset: frozenset[str] = frozenset()
    file: str | None = None
    block: int | None = None
    row: int | None = None
    reasons: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Its place at the source, for people."""
        return place_of(self.file, self.block, self.row)

    @property
    def arrived(self) -> tuple[Any, ...]:
        """The order of arrival, and within a window the order of the places at the source."""
        return (self.landed_at, self.rank, self.file or "", self.block or 0, self.row or 0)


@dataclass(frozen=True)
class Fate:
    """The fate of a change, with a reason without its full stop, and the other change that decided it, if any."""

    what: What
    why: str
    by: Logged | None = None


@dataclass
class Outcome:
    """The rows that some changes make, None if they do not show it; ``gone``: why there is no row despite changes."""

    fates: dict[Logged, Fate] = field(default_factory=dict)
    rows: list[Row] | None = field(default_factory=list)
    gone: str = ""


@dataclass(frozen=True)
class Extracts:
    """The ingested windows, oldest first, for strategies by which only the newest ones count: the newest is an extract.

    Windows are dirty with rejected rows, and blind if the key of one cannot be read. Windows that hold no extract,
    because their first load was undone, are both.
    """

    windows: Sequence[str]
    dirty: Collection[str] = ()
    blind: Collection[str] = ()


def order_of(table: Table, change: Logged) -> tuple[Any, ...]:
    """The order of a change among the changes of its key, see :func:`~incload_assets.change_log.change.order_sql`.

    NULL is older than any value; at the same sequence a delete is newer than an upsert, a truncate or the mark of a
    full extract older than both, and the stored content hash decides between two upserts.
    """
    hash = None if change.kind in EMPTIES else change.hash
    return (
        *(ranked(change.values.get(name)) for name in table.changes.sequence_by),
        change.kind == DELETE,
        ranked(hash),
    )


def ranked(value: Any) -> tuple[Any, ...]:
    """A value in the order of Spark: NULL first, NaN after all other numbers, nested values member by member."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, Mapping):
        return (1, tuple(ranked(member) for member in value.values()))
    return (1, tuple(map(ranked, value)) if isinstance(value, list | tuple) else value)


def same(values: Mapping[str, Any], columns: Iterable[str]) -> tuple[str, ...]:
    """Something that is equal for rows whose columns have equal values, NULL and NaN included; a zero has no sign."""
    found = (values.get(name) for name in columns)
    return tuple(repr(value + 0.0 if isinstance(value, float) else value) for value in found)
