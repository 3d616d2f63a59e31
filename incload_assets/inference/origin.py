"""The origin of a table's rows: a sample of them, and the declaration of their source."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import dagster as dg
from pyspark.sql import DataFrame

from incload_assets.inference.measure import Field

WINDOW = "__window"
"""Name of the column with the partition key of a row of the sample."""
_CADENCES = {
    "hourly": (dg.HourlyPartitionsDefinition, "%Y-%m-%d-%H:%M"),
    "daily": (dg.DailyPartitionsDefinition, "%Y-%m-%d"),
    "monthly": (dg.MonthlyPartitionsDefinition, "%Y-%m-%d"),
}
"""Definitions of partitions by cadence, with the format of their keys."""


@dataclass(frozen=True)
class Partitions:
    """The windows of a table: hourly, daily or monthly from a start, with the open one, and why."""

    cadence: str
    start: datetime
    why: str

    @property
    def declaration(self) -> str:
        """The expression that declares them."""
        kind, _ = _CADENCES[self.cadence]
        return f'dg.{kind.__name__}("{self.key_of(self.start)}", end_offset=1)'

    @property
    def definition(self) -> dg.TimeWindowPartitionsDefinition:
        """The declared definition."""
        kind, _ = _CADENCES[self.cadence]
        made: dg.TimeWindowPartitionsDefinition = kind(self.key_of(self.start), end_offset=1)
        return made

    def key_of(self, start: datetime) -> str:
        """The key of the partition that begins at an instant."""
        return start.strftime(_CADENCES[self.cadence][1])


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A source with a sample of its rows.

    Args:
        place: Where the rows are, for people, without an account.
        frame: The sample: ``fields``, why a record is unreadable, and the partition key.
        fields: The columns in the source's order.
        source: The expression that declares the source.
        imports: The names of ``incload_assets.assets`` that the expression needs.
        partitions: The windows.
        newest: The partition key of the newest rows of the sample.
        keys: The columns of the key, if the source itself states them, and ``keys_why``.
        sequence: The column that orders changes, if the source itself has one, and ``sequence_why``.
        changes: An expression for ``changes``, where the source gives it.
        write: An expression for ``write``, where the source allows no other.
        offset: A field that orders messages, where no column of theirs does.
        full: True if a window may hold a full extract.
        notes: More evidence about the source.
        questions: What could not be found out about the source.
        environment: Lines for ``.env`` without which the source is not reached.
    """

    place: str
    frame: DataFrame
    fields: Sequence[Field]
    source: str
    imports: Sequence[str]
    partitions: Partitions
    newest: str
    keys: Sequence[str] = ()
    keys_why: str = ""
    sequence: str | None = None
    sequence_why: str = ""
    changes: str | None = None
    write: str | None = None
    offset: str | None = None
    full: bool = False
    notes: Sequence[str] = ()
    questions: Sequence[str] = ()
    environment: Sequence[str] = field(default=(), repr=False)
