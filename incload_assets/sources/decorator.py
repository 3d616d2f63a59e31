"""Base class of sources that parse the records of an inner source."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import Column, SparkSession

from incload_assets.declaration.own_fields import OwnField
from incload_assets.declaration.source import Clock, DetectRequest, Position, RetentionMargin, Source, Survey
from incload_assets.declaration.window import Window
from incload_assets.platform.lake import Lake


@dataclass(frozen=True)
class SourceDecorator(Source):
    """A source that delegates everything except parsing to an inner source.

    Args:
        source: The inner source.
    """

    source: Source

    def inherit_capabilities(self) -> None:
        """Copies the capability flags of the inner source; to be called when ``source`` is set."""
        for name in ("absent", "retains_absent_keys", "changes_while_read", "expires_rows", "has_row_times"):
            object.__setattr__(self, name, getattr(self.source, name))

    def validate_windows(self, table_name: str, windows: Sequence[Window]) -> None:
        """See :meth:`Source.validate_windows`."""
        self.source.validate_windows(table_name, windows)

    def check_landed(self, table_name: str, ingested: Iterable[tuple[Window, Position]]) -> None:
        """See :meth:`Source.check_landed`."""
        self.source.check_landed(table_name, ingested)

    def for_changes(self, unavailable: str | None, *, moves: bool) -> "SourceDecorator":
        """See :meth:`Source.for_changes`."""
        return replace(self, source=self.source.for_changes(unavailable, moves=moves))

    def part(self, file: Column) -> Column:
        """See :meth:`Source.part`."""
        return self.source.part(file)

    def check_skipped(self, table_name: str, window: Window, skipped: Mapping[str, Collection[str]]) -> None:
        """See :meth:`Source.check_skipped`."""
        self.source.check_skipped(table_name, window, skipped)

    def check_rejected(self, table_name: str, window: Window, reason: str, rows: int, first: tuple[str, int]) -> None:
        """See :meth:`Source.check_rejected`."""
        self.source.check_rejected(table_name, window, reason, rows, first)

    @property
    def own_fields(self) -> Mapping[str, OwnField]:
        """See :meth:`Source.own_fields`."""
        return self.source.own_fields

    def detect(self, request: DetectRequest) -> dict[str, Position]:
        """See :meth:`Source.detect`."""
        return self.source.detect(request)

    def survey(self, request: DetectRequest) -> Survey:
        """See :meth:`Source.survey`."""
        return self.source.survey(request)

    def prepare(self, spark: SparkSession, request: DetectRequest) -> None:
        """See :meth:`Source.prepare`."""
        self.source.prepare(spark, request)

    def gained(self, before: Position, now: Position) -> Position | None:
        """See :meth:`Source.gained`."""
        return self.source.gained(before, now)

    def records_in(self, position: Position) -> Mapping[str, int] | None:
        """Same as the decorated source's; see :meth:`Source.records_in`."""
        return self.source.records_in(position)

    def empty_position(self, window: Window) -> Position:
        """See :meth:`Source.empty_position`."""
        return self.source.empty_position(window)

    def empty_positions(self, windows: Sequence[Window], lake: Lake) -> dict[str, Position]:
        """See :meth:`Source.empty_positions`."""
        return self.source.empty_positions(windows, lake)

    def settled(self, position: Position) -> bool:
        """See :meth:`Source.settled`."""
        return self.source.settled(position)

    def headroom(self, table_name: str, positions: Mapping[Window, Position], now: datetime) -> list[RetentionMargin]:
        """See :meth:`Source.headroom`."""
        return self.source.headroom(table_name, positions, now)

    def clocks(self, table_name: str) -> list[Clock]:
        """See :meth:`Source.clocks`."""
        return self.source.clocks(table_name)

    def missing(
        self, table_name: str, windows: Sequence[Window], ingested: Mapping[str, Position]
    ) -> dict[str, list[str]]:
        """See :meth:`Source.missing`."""
        return self.source.missing(table_name, windows, ingested)

    def names_what_it_holds(self) -> bool:
        """See :meth:`Source.names_what_it_holds`."""
        return self.source.names_what_it_holds()

    def carried(self, position: Position) -> list[str]:
        """See :meth:`Source.carried`."""
        return self.source.carried(position)

    def keeper(self, file: Column) -> Column:
        """See :meth:`Source.keeper`."""
        return self.source.keeper(file)
