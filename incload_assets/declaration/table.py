"""A table's declaration, as its author writes it and as it is checked."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Annotated, Any, Literal

import dagster as dg
import pyspark.sql.types as T
from pydantic import Field
from pyspark.sql import DataFrame

from incload_assets.contract.contract import Contract
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.eras import Era
from incload_assets.declaration.evolution import Evolution
from incload_assets.declaration.field_types import Share, Text
from incload_assets.declaration.slo import Criticality, Slo
from incload_assets.declaration.source import Source
from incload_assets.declaration.subject import Subject
from incload_assets.declaration.window import Window, first_window, known_windows, window_of, windows_at
from incload_assets.declaration.write import Write
from incload_assets.platform.errors import IncrementalLoadError

RowFunction = Callable[[DataFrame], DataFrame]
FailedReconciliation = Literal["hold", "undo"]
INTERVAL = timedelta(seconds=15)
"""How often a source is read, by default."""
FRESHNESS = timedelta(minutes=5)
"""The objective of freshness of a table that declares none."""
URGENT = timedelta(minutes=15)
"""A table that may be no later than this is loaded before others that wait for a slot; its backlog is not."""

_OPEN = "a positive length of time, for which rejected rows may stay open"
_PAUSE = "a length of time, one second or more, as the sensor looks once a second at most"
_RETENTION = "a length of time, for which a window can be replaced after its end"
_PAYLOADS = "a positive length of time, for which rejected rows keep their records"
_UNDO = "a length of time, for which the former content of a window is kept; zero: not at all"
UNDO_RETENTION = timedelta(days=7)
"""How long what a load replaced can be returned to, by default."""
QUARANTINE_RETENTION = timedelta(days=90)
"""How long rejected rows keep their records, by default: a quarter, so that errors found at its end can be replayed."""


@dataclass(frozen=True, kw_only=True)
class Freshness:
    """How late the latest due partition may be.

    Args:
        within: Longest time from the end of a window to its materialization.
    """

    within: Annotated[timedelta, Field(gt=timedelta(0), description="a positive length of time")]


@dataclass(frozen=True, kw_only=True)
class Quarantine:
    """How many rejected rows a load tolerates before it stops, applying nothing.

    Args:
        max_share: Largest tolerated share of the rows read, 0 to 1.
        max_rows: Largest tolerated number of rows; None for no such limit.
        max_age: How long rejected rows may stay open, from the landing of their window, before the check ``quarantine``
            warns; None: for ever.
    """

    max_share: Share = 0.2
    max_rows: Annotated[int, Field(ge=0, description="a number of rows, 0 or more")] | None = None
    max_age: Annotated[timedelta, Field(gt=timedelta(0), description=_OPEN)] | None = timedelta(days=14)


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """A table's declaration by its author; ``contract`` is a pandera model, in a :class:`Table` a compiled one."""

    key: dg.AssetKey
    partitions_def: dg.PartitionsDefinition
    source: Source
    contract: Any
    changes: Changes
    write: Write
    function: RowFunction
    freshness: Freshness | None = None
    quarantine: Quarantine = Quarantine()
    code_version: Text | None = None
    log_retention: Annotated[timedelta, Field(ge=timedelta(0), description=_RETENTION)] | None = None
    interval: Annotated[timedelta, Field(ge=timedelta(seconds=1), description=_PAUSE)] = INTERVAL
    slo: Slo = Slo()  # noqa: RUF009 - immutable
    criticality: Criticality = "normal"
    owners: tuple[str, ...] = ()
    undo_retention: Annotated[timedelta, Field(ge=timedelta(0), description=_UNDO)] = UNDO_RETENTION
    on_failed_reconciliation: FailedReconciliation | None = None
    evolution: Evolution = Evolution()  # noqa: RUF009 - immutable
    subject: Subject | None = None
    former_partitions: tuple[Era, ...] = ()
    quarantine_retention: Annotated[timedelta, Field(gt=timedelta(0), description=_PAYLOADS)] | None = (
        QUARANTINE_RETENTION
    )

    @property
    def name(self) -> str:
        """The table's name for people: its asset key with slashes."""
        return self.key.to_user_string()

    @property
    def identifier(self) -> str:
        """The name in the name of the sensor: the asset key with its parts joined by ``__``."""
        return "__".join(self.key.path)


@dataclass(frozen=True, kw_only=True)
class Table(Declaration):
    """A checked declaration: everything that the engine uses of a table."""

    partitions_def: dg.TimeWindowPartitionsDefinition
    contract: Contract
    code_version: str
    control_fields: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The contract's columns, in order."""
        return self.contract.names

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that no change may lack."""
        return self.write.identity(self.changes)

    @property
    def in_ranges(self) -> bool:
        """True if several windows can be loaded at once; a full extract is compared with the table before it."""
        return self.write.ranges and self.changes.snapshot_when is None

    @cached_property
    def by_column(self) -> bool:
        """True if a change may leave columns as they are."""
        return self.write.by_column(self.changes)

    @property
    def passes_rows_on(self) -> bool:
        """True if the table's function returns what it gets: its code is ``return changes`` and nothing else."""
        code, same = getattr(self.function, "__code__", None), _same.__code__
        return code is not None and (code.co_code, code.co_argcount) == (same.co_code, same.co_argcount)

    @cached_property
    def schema(self) -> T.StructType:
        """The table's columns: the columns of the contract, then the columns that the write strategy adds."""
        return self.write.schema(self.contract, self.changes)

    @property
    def due_after(self) -> timedelta:
        """The time from the end of a window until the window is due: the declared freshness, else the objective's."""
        return self.freshness.within if self.freshness else self.promised

    @property
    def urgent(self) -> bool:
        """True if loads of the table go before others that wait for a slot."""
        return self.freshness is not None and self.freshness.within <= URGENT

    @property
    def promised(self) -> timedelta:
        """The time within which 95 % of windows and changes are loaded."""
        return self.slo.freshness or (self.freshness.within if self.freshness else FRESHNESS)

    @cached_property
    def closed(self) -> Mapping[str, Window]:
        """The windows of former partitions definitions, by partition key, oldest first."""
        return {window.key: window for era in self.former_partitions for window in era.windows}

    @property
    def reads_older(self) -> bool:
        """True if the first window takes all older rows of a database, which no closed window holds."""
        return not self.former_partitions or self.former_partitions[-1].read_older

    def window_of(self, key: str) -> Window:
        """The window of a partition key; raises IncrementalLoadError for an unknown or a closed one."""
        if key in self.closed:
            raise self.is_closed([key])
        return window_of(self.partitions_def, key, self.name)

    def divided_into(self, number: int | None) -> "Table":
        """The table with a number of buckets; None: not divided."""
        return replace(self, write=replace(self.write, buckets=number))

    def keys_at(self, at: datetime) -> list[str]:
        """The partition keys that the table has at an instant, oldest first."""
        return [window.key for window in windows_at(self.partitions_def, at)]

    def is_closed(self, keys: Iterable[str]) -> IncrementalLoadError:
        """The error for an attempt to change closed windows."""
        return IncrementalLoadError(
            f"{self.name}: {', '.join(map(repr, keys))}: closed, a window of the former partitions",
            rule="windows of former partitions stay as they are: they are neither loaded nor undone any more",
            remedy="correct their rows at the source with a newer change, which a present window then loads",
        )

    def known_windows(self, keys: Iterable[str]) -> list[Window]:
        """The windows of the given keys, closed ones included, oldest first; other keys are ignored."""
        left = [*keys]
        closed = [self.closed[key] for key in left if key in self.closed]
        return sorted([*closed, *known_windows(self.partitions_def, (key for key in left if key not in self.closed))])

    @cached_property
    def _first(self) -> Window:
        return first_window(self.partitions_def)

    def era_of(self, window: Window) -> tuple[int, Window]:
        """The number of the era that a window is of, 0 for the oldest, and the first window of this era."""
        for number, era in enumerate(self.former_partitions):
            if window.start < era.end:
                return number, era.windows[0]
        return len(self.former_partitions), self._first

    def type_of(self, column: str) -> T.DataType:
        """The type of a column of the contract."""
        return self.contract.type_of(column)


def _same(changes: DataFrame) -> DataFrame:
    return changes


def every_table(_: Table) -> bool:
    """True, for what applies to all tables."""
    return True
