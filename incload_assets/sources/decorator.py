"""Base class of sources that parse the records of an inner source."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from incload_assets.declaration.source import Position, Source

_CAPABILITIES = ("absent", "retains_absent_keys", "changes_while_read", "expires_rows", "has_row_times")


def _of_inner(name: str) -> Any:
    """The method of the inner source that has this name."""

    def method(self: "SourceDecorator", *arguments: Any, **options: Any) -> Any:
        return getattr(self.source, name)(*arguments, **options)

    return method


@dataclass(frozen=True)
class SourceDecorator(Source):
    """A source that delegates everything to an inner source, and parses what that has read."""

    source: Source

    def inherit_capabilities(self) -> None:
        """Copies the capability flags of the inner source; to be called when ``source`` is set."""
        for name in _CAPABILITIES:
            object.__setattr__(self, name, getattr(self.source, name))

    def for_changes(self, unavailable: str | None, *, moves: bool) -> "SourceDecorator":
        """This source with its inner source adapted; see :meth:`Source.for_changes`."""
        return replace(self, source=self.source.for_changes(unavailable, moves=moves))

    @abstractmethod
    def of_record(self, fields: Sequence[str]) -> list[str]:
        """The fields of the inner source's records that hold these fields of the table."""

    @abstractmethod
    def parsed(self, records: DataFrame, fields: Sequence[str]) -> DataFrame:
        """The rows of the inner source's records, as :meth:`Source.extract` returns them."""

    def extract(self, spark: SparkSession, table_name: str, position: Position, fields: Sequence[str]) -> DataFrame:
        """The rows of a position; see :meth:`Source.extract`."""
        return self.parsed(self.source.extract(spark, table_name, position, self.of_record(fields)), fields)

    def extract_windows(
        self, spark: SparkSession, table_name: str, positions: Mapping[str, Position], fields: Sequence[str]
    ) -> DataFrame:
        """The rows of several windows; see :meth:`Source.extract_windows`."""
        return self.parsed(self.source.extract_windows(spark, table_name, positions, self.of_record(fields)), fields)

    def unreadable_payloads(self, fields: Sequence[str]) -> str:
        """Why the inner source cannot parse kept payloads; see :meth:`Source.unreadable_payloads`."""
        return self.source.unreadable_payloads(self.of_record(fields))

    def read_payloads(self, kept: DataFrame, fields: Sequence[str]) -> DataFrame:
        """The rows of kept payloads; see :meth:`Source.read_payloads`."""
        return self.parsed(self.source.read_payloads(kept, self.of_record(fields)), fields)

    validate_windows = _of_inner("validate_windows")
    check_landed = _of_inner("check_landed")
    part = _of_inner("part")
    check_skipped = _of_inner("check_skipped")
    check_rejected = _of_inner("check_rejected")
    own_fields = property(lambda self: self.source.own_fields)
    detect = _of_inner("detect")
    survey = _of_inner("survey")
    watch = _of_inner("watch")
    prepare = _of_inner("prepare")
    gained = _of_inner("gained")
    records_in = _of_inner("records_in")
    empty_position = _of_inner("empty_position")
    empty_positions = _of_inner("empty_positions")
    settled = _of_inner("settled")
    why_open = _of_inner("why_open")
    headroom = _of_inner("headroom")
    clocks = _of_inner("clocks")
    missing = _of_inner("missing")
    names_what_it_holds = _of_inner("names_what_it_holds")
    carried = _of_inner("carried")
    keeper = _of_inner("keeper")
