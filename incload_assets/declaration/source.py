"""What a kind of source has to offer: five facts and two verbs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.contract.contract import Contract
from incload_assets.declaration.declared import Declared
from incload_assets.declaration.former_source import adapt_former_source
from incload_assets.declaration.own_fields import OwnField
from incload_assets.declaration.window import Window
from incload_assets.delta.sql import union_of
from resources.lake import Lake

Absent = Literal["wait", "empty"]

EXTRACTED_COLUMNS = ("_raw", "_payload", "_rescued", "_malformed", "_source")
"""The columns every ``extract`` returns; see :class:`Source`."""

PRESENT, SKIPPED = "_present", "_skipped"
"""Columns that ``extract`` may return, too; see there."""


@dataclass(frozen=True)
class Position:
    """What a source held for one window when it was looked at.

    Args:
        fingerprint: Short hash of everything that decides the window's rows; equal fingerprints mean equal rows. It
            becomes the partition's data version.
        detail: JSON-ready facts from which ``extract`` can read exactly those rows again.
        summary: One line for people, without secrets.
        size: Bytes to read, as far as the source knows; chooses between settings for small and for large loads.
    """

    fingerprint: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""
    size: int = 0


@dataclass(frozen=True)
class Survey:
    """The result of one look at a source.

    Args:
        positions: By partition key, of each window that the source holds something for.
        left_out: Names, for people, of what is like the data of some window and yet not read.
    """

    positions: dict[str, Position]
    left_out: Sequence[str] = ()


@dataclass(frozen=True)
class RetentionMargin:
    """How much longer something keeps what is not loaded yet.

    Args:
        says: What keeps it, and until when, for people.
        left: The share that is left of what it keeps at most; 0 or less: some may be gone.
        read: Whether anything takes from it; None: that cannot be told, or does not matter.
        removed: When the oldest may be gone, aware; None: that does not go by time.
    """

    says: str
    left: float
    read: bool | None = None
    removed: datetime | None = None


@dataclass(frozen=True)
class Clock:
    """The clock that the times of a source's rows are of.

    Args:
        skew: How far it is ahead of ours.
        allowed: By how much it may differ.
        ahead: How many rows are dated after it.
        first: The first of their times, for people.
    """

    skew: timedelta
    allowed: timedelta
    ahead: int = 0
    first: str = ""


@dataclass(frozen=True)
class Shows:
    """Which kinds of change a source can show; asking for more is refused when the table is declared."""

    inserts: bool = True
    updates: bool = False
    deletes: bool = False
    order: bool = False


@dataclass(frozen=True)
class DetectRequest:
    """What a source is asked when a load, a sensor or a check looks for changes.

    Args:
        table_name: For messages.
        windows: Oldest first. One request serves many windows with one look at the source where possible.
        ingested: Positions of earlier loads by partition key (all of the table's, not only of ``windows``).
        lake: Where the tables are: for a source that reads some of them, or that writes down where windows end.
        first: Start of the table's first window, aware, UTC; a source that goes by time of arrival gives that window
            whatever is older. None: what is older belongs to no window.
    """

    table_name: str
    windows: Sequence[Window]
    ingested: Mapping[str, Position]
    lake: Lake
    first: datetime | None = None


class Source(ABC):
    """Where a table's changes come from.

    ``detect`` looks, ``extract`` reads. Both are given the positions that earlier loads ingested, keyed by partition
    key, so that a source can remember (a flat folder: which window first saw a file; a removed file: what it held).
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        adapt_former_source(cls)

    shows: ClassVar[Shows]
    retains_absent_keys: ClassVar[bool] = False
    """Whether a key that a later look no longer shows in a window keeps its rows there.

    True where a changed row leaves the window of its former change (a query by modified time), or old records expire.
    """
    changes_while_read: ClassVar[bool] = False
    """Whether the source goes on changing while it is read, without harm.

    What comes meanwhile makes another position, which the next look finds; what goes is newer elsewhere.
    """
    absent: Absent = "wait"
    expires_rows: ClassVar[bool] = False
    """Whether the source may remove rows, be they loaded or not; then it has :meth:`headroom`."""

    has_row_times: ClassVar[bool] = False
    """Whether windows are of times that rows bear; then it has :meth:`clocks`."""
    mixes_tables: ClassVar[bool] = False
    """Whether its records may be of other tables, too, which it skips; then it has :meth:`check_skipped`."""

    @property
    def whole_changes(self) -> str:
        """The declaration, as in a remedy, by which changes are whole rows and deletes alone; '' if there is none."""
        return ""

    def keeper(self, file: Column) -> Column:
        """For a ``_source.file``: whose rows stay while no row of the same key and keeper is shown; NULL: they do not.

        Only called where ``retains_absent_keys`` is true. Default: of all rows alike.
        """
        return F.lit("")

    @abstractmethod
    def validate(self, table_name: str) -> None:
        """Check the declaration; raise :class:`DeclarationError` with ``table``, the field, why, and what to write."""

    def validate_windows(  # noqa: B027 - any windows will do unless a source says so
        self, table_name: str, windows: Sequence[Window]
    ) -> None:
        """Check that the table's windows, of which some are given, fit; raise as :meth:`validate` does."""

    def check_landed(self, table_name: str, ingested: Iterable[tuple[Window, Position]]) -> None:  # noqa: B027 - as above
        """Check that windows hold what is theirs by the declaration as it is now; raise :class:`SchemaMismatch` if not.

        Args:
            table_name: For messages.
            ingested: Some windows that were ingested, with their positions; read only by a source that looks at them.
        """

    def for_changes(self, unavailable: str | None, *, moves: bool) -> Source:
        """This source as it reads for changes with that ``unavailable``, and with or without a ``moved_when``."""
        return self

    def part(self, file: Column) -> Column:
        """For a ``_source.file``: the name of the source, of several ones, that the row is of. Default: ``''``."""
        return F.lit("")

    def check_skipped(  # noqa: B027 - nothing, by default
        self, table_name: str, window: Window, skipped: Mapping[str, Collection[str]]
    ) -> None:
        """Look at why records were skipped, where no record of their source is a change of the table.

        Args:
            table_name: For messages.
            window: For messages.
            skipped: Each reason once, by :meth:`part`.

        Raises:
            SourceUnreadable: The records are not those that the declaration means.
        """

    @property
    def own_fields(self) -> Mapping[str, OwnField]:
        """The fields that the source fills by itself, beside the fields of its records, by name. Default: none."""
        return {}

    def validate_changes(self, declared: Declared) -> None:  # noqa: B027 - any changes will do unless a source says so
        """Check that what the table declares of its changes is what the source can tell; raise as :meth:`validate`."""

    def for_contract(self, contract: Contract) -> Source:
        """This source as it reads for a table of that contract, where the types decide how values are read."""
        return self

    def asked_for(self, fields: Sequence[str]) -> Source:
        """This source as it reads for conditions that ask for fields beside those of the contract.

        Where a source knows the fields of all its records beforehand, reading fails if it has none of such a name: the
        condition would be NULL for ever. Default: that is not known.
        """
        return self

    def requiring(self, required: Callable[[], Collection[str]]) -> Source:
        """This source as it reads for a load, which refuses what has none of the records that its table can have.

        Args:
            required: The fields without which no record can become a row; to be asked where some are lacking, because
                only Spark can tell. Default: nothing is refused.
        """
        return self

    @abstractmethod
    def detect(self, request: DetectRequest) -> dict[str, Position]:
        """The position of each window that the source holds something for; a window without anything is left out.

        Raises:
            SourceUnavailable: The source does not answer.
            SourceUnreadable: It answers with a refusal (credentials, permissions, no such bucket).
        """

    def survey(self, request: DetectRequest) -> Survey:
        """The positions that :meth:`detect` finds, and what it leaves out, from one look. Default: nothing."""
        return Survey(self.detect(request))

    def prepare(self, spark: SparkSession, request: DetectRequest) -> None:  # noqa: B027 - nothing, by default
        """Find out, before a load looks, what only Spark can tell; ``detect`` is right without it, too.

        Args:
            spark: The session.
            request: As for :meth:`detect`.
        """

    @abstractmethod
    def extract(self, spark: SparkSession, table_name: str, position: Position, fields: Sequence[str]) -> DataFrame:
        """Exactly the rows of a position, each row read once and none dropped.

        Returns a frame with these columns:
            ``_raw``: struct with one member per name in ``fields``: the value as read, a string for text formats (JSON
            objects and arrays as JSON text), the file's own type for typed formats; NULL where the source lacks it.
            ``_payload`` string: the whole record as text, for people and for replay.
            ``_rescued`` string: JSON object of the fields not in ``fields``; NULL where there are none.
            ``_malformed`` string: why the record cannot be parsed; NULL where it can.
            ``_source`` struct<file: string, block: bigint, row: bigint>: where it came from.
            ``_present`` array<string>, where records may lack fields that others have: those of ``fields`` that this
            one has, be they NULL. Without this column every record has every field.
            ``_skipped`` string, where not every record is a change of this table: why this one is none, NULL for
            changes. Such records are counted, and not kept.

        Raises:
            SourceUnreadable: A file cannot be read at all; the message names it.
            SourceChanged: A file is no longer what the position says.
        """

    def extract_windows(
        self, spark: SparkSession, table_name: str, positions: Mapping[str, Position], fields: Sequence[str]
    ) -> DataFrame:
        """The rows of several windows, with a column ``_window`` that holds each row's partition key.

        Args:
            spark: The session.
            table_name: For messages.
            positions: What to read, by partition key; not empty.
            fields: As for :meth:`extract`.

        Raises:
            IncrementalLoadError: As :meth:`extract` does.
        """
        frames = [
            self.extract(spark, table_name, position, fields).withColumn("_window", F.lit(key))
            for key, position in positions.items()
        ]
        return union_of(frames)

    def gained(self, before: Position, now: Position) -> Position | None:
        """What a position of a window holds beside everything of an earlier one, as a position that can be extracted.

        None where that is not all that is different, or where the source cannot tell. Default: it cannot.
        """
        return None

    def empty_position(self, window: Window) -> Position:
        """The position of a window that is declared empty."""
        return Position(fingerprint="empty", detail={}, summary="nothing at the source")

    def empty_positions(self, windows: Sequence[Window], lake: Lake) -> dict[str, Position]:
        """The positions of windows for which nothing was found, by partition key; of those that wait there is none.

        Args:
            windows: Which.
            lake: Where the tables are.
        """
        return {window.key: self.empty_position(window) for window in windows} if self.absent == "empty" else {}

    def settled(self, position: Position) -> bool:
        """Whether a window that was ingested with this position is complete, so that sensors need not look at it again.

        A load always looks. Default: never.
        """
        return False

    def headroom(self, table_name: str, positions: Mapping[Window, Position], now: datetime) -> list[RetentionMargin]:
        """How much longer the source keeps the rows of some windows; empty: for as long as anybody likes.

        Args:
            table_name: For messages.
            positions: What the source holds now of the windows that are not loaded.
            now: Aware.

        Raises:
            SourceUnavailable: The source does not answer.
            SourceUnreadable: It does not tell.
        """
        return []

    def clocks(self, table_name: str) -> list[Clock]:
        """The clocks that the times of its rows are of, and the rows that are ahead of them.

        Args:
            table_name: For messages.

        Raises:
            SourceUnavailable: The source does not answer.
            SourceUnreadable: It refuses.
        """
        return []

    def missing(
        self, table_name: str, windows: Sequence[Window], ingested: Mapping[str, Position]
    ) -> dict[str, list[str]]:
        """What was ingested and is gone from the source, per partition key, as names for people. Default: nothing."""
        return {}

    def names_what_it_holds(self) -> bool:
        """Whether :meth:`missing` can find anything, because what the source holds has names to look for."""
        return type(self).missing is not Source.missing

    def carried(self, position: Position) -> list[str]:
        """The ``_source.file`` values of a position whose rows stay although the source no longer has them.

        ``extract`` does not return those rows: whoever ingests the position keeps the ones ingested before. Default:
        none.
        """
        return []
