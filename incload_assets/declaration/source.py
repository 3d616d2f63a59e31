"""The interface of a source: capability flags, ``detect`` and ``extract``."""

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
from incload_assets.declaration.own_fields import OwnField
from incload_assets.declaration.window import Window
from incload_assets.platform.lake import Lake
from incload_assets.platform.sql import union_of

Absent = Literal["wait", "empty"]

WHOLE = "_whole"
"""The column with the fields of a typed record, if its source has them: ``_payload`` is their JSON."""
EXTRACTED_COLUMNS = ("_raw", "_payload", "_rescued", "_malformed", "_source")
"""The columns that every ``extract`` returns; see :meth:`Source.extract`."""

PRESENT, SKIPPED = "_present", "_skipped"
"""Optional columns of ``extract``; see :meth:`Source.extract`."""


@dataclass(frozen=True)
class Position:
    """The content of a source for one window at the time of a detection.

    Args:
        fingerprint: Short hash of everything that determines the window's rows; equal fingerprints mean equal rows. It
            becomes the partition's data version.
        detail: JSON-ready facts from which ``extract`` can read exactly those rows again.
        summary: One line for people, without secrets.
        size: Estimated bytes to read; chooses between the settings for small and for large loads.
    """

    fingerprint: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""
    size: int = 0


@dataclass(frozen=True)
class Survey:
    """Positions by partition key, and names, for people, of data that resembles a window's data but is not read."""

    positions: dict[str, Position]
    left_out: Sequence[str] = ()


@dataclass(frozen=True)
class RetentionMargin:
    """The time or space left before a store removes changes that are not loaded yet.

    Args:
        says: Description for people: the store, and until when it keeps the changes.
        left: The unused share of the store's retention limit; 0 or less: some changes may be gone.
        read: Whether anything reads from the store; None: unknown or irrelevant.
        removed: When the oldest change may be removed, aware; None: removal does not depend on time.
        kept: The bytes that the store keeps until its reader has read them; None: unknown.
    """

    says: str
    left: float
    read: bool | None = None
    removed: datetime | None = None
    kept: int | None = None


@dataclass(frozen=True)
class Clock:
    """The clock that stamps the times of a source's rows.

    Args:
        skew: How far it is ahead of the loader's clock.
        allowed: Largest allowed difference.
        ahead: Number of rows with times later than the clock.
        first: The earliest of these times, for people.
    """

    skew: timedelta
    allowed: timedelta
    ahead: int = 0
    first: str = ""


@dataclass(frozen=True)
class Shows:
    """The kinds of change that a source can show; a table that declares others is refused."""

    inserts: bool = True
    updates: bool = False
    deletes: bool = False


@dataclass(frozen=True)
class DetectRequest:
    """A request for the positions of windows, made by a load, a sensor or a check.

    Args:
        windows: Oldest first. Sources answer for many windows with one query or listing where possible.
        ingested: Positions of earlier loads by partition key (all of the table's, not only of ``windows``).
        lake: Location of the tables, for sources that read some of them or that store window bounds.
        first: Start of the table's first window, aware, UTC; a source with windows by arrival time assigns older data
            to that window. None: older data belongs to no window.
        older: Whether the first window may take all older data of the source. False: closed windows of a former
            partitions definition hold it, so that it must not be read again.
    """

    table_name: str
    windows: Sequence[Window]
    ingested: Mapping[str, Position]
    lake: Lake
    first: datetime | None = None
    older: bool = True


class Watch(ABC):
    """A cheap test of whether a source may have changed since the watch was made."""

    @abstractmethod
    def changed(self, *, closely: bool) -> bool:
        """True if the source may show something else by now.

        Without ``closely`` it may overlook that data of older windows was changed in its place.
        """


class Source(ABC):
    """A store that a table's changes are read from.

    ``detect`` finds the positions of windows, ``extract`` reads the rows of a position. ``detect`` also receives the
    positions that earlier loads ingested, by partition key. From these a source derives, for example, the window that a
    file of a flat folder was first assigned to, or the content of a removed file.
    """

    shows: ClassVar[Shows]
    retains_absent_keys: ClassVar[bool] = False
    """Whether a key that a window showed earlier and no longer shows keeps its rows there.

    True if a changed row leaves the window of its former change (a query by modified time), or if old records expire.
    """
    changes_while_read: ClassVar[bool] = False
    """Whether the source may change harmlessly while it is read.

    Rows that arrive meanwhile give another position, which the next detection finds; rows that disappear have a newer
    version elsewhere.
    """
    absent: Absent = "wait"
    """Meaning of a window without data: ``wait`` for it, or ``empty``."""
    expires_rows: ClassVar[bool] = False
    """Whether the source may remove rows, loaded or not; then it has :meth:`headroom`."""

    has_row_times: ClassVar[bool] = False
    """Whether windows are assigned by times in the rows; then it has :meth:`clocks`."""
    mixes_tables: ClassVar[bool] = False
    """Whether its records may belong to other tables, which it skips; then it has :meth:`check_skipped`."""

    @property
    def changes_of_fixed_keys(self) -> str:
        """Remedy text: the declaration by which no change truncates or gives a row a new key; '' if there is none."""
        return ""

    @property
    def whole_changes(self) -> str:
        """Remedy text: the declaration by which all changes are whole rows and deletes; '' if there is none."""
        return ""

    def shown(self, keys: Sequence[str]) -> Shows:
        """The kinds of change that it shows of rows with these keys. Default: of any keys the same."""
        return self.shows

    def keeper(self, file: Column) -> Column:
        """The group within which a key that a new read no longer shows keeps its old row; NULL: the old row goes.

        ``file`` is a ``_source.file``. Only called if ``retains_absent_keys`` is true. Default: one group for all rows.
        """
        return F.lit("")

    def explained(self) -> list[str]:
        """Sentences for people: what is read for a window, and what late, changed and removed data does."""
        return [f"Rows are read from {self}."]

    @abstractmethod
    def validate(self, table_name: str) -> None:
        """Checks the declaration; raises DeclarationError with the table, the field, why, and what to write instead."""

    def validate_windows(  # noqa: B027 - by default any windows fit
        self, table_name: str, windows: Sequence[Window]
    ) -> None:
        """Checks that the table's windows, given as a sample, fit the source; raises as :meth:`validate` does."""

    def check_landed(self, table_name: str, ingested: Iterable[tuple[Window, Position]]) -> None:  # noqa: B027 - as above
        """Checks that ingested windows hold the data that the present declaration assigns to them, else SchemaMismatch.

        ``ingested`` has some ingested windows; it is consumed only by sources that check them.
        """

    def for_changes(self, unavailable: str | None, *, moves: bool) -> Source:
        """This source, adapted to changes with that ``unavailable``, and with or without a ``moved_when``."""
        return self

    def part(self, file: Column) -> Column:
        """The name, among several sources, of the one that a row of this ``_source.file`` is from. Default: ``''``."""
        return F.lit("")

    def check_skipped(  # noqa: B027 - nothing, by default
        self, table_name: str, window: Window, skipped: Mapping[str, Collection[str]]
    ) -> None:
        """Checks why records were skipped, after a load found no change of the table among the records of a source.

        ``skipped`` has the distinct reasons by :meth:`part`. Raises SourceUnreadable if the source holds other records
        than the declaration describes.
        """

    def check_rejected(  # noqa: B027 - nothing, by default
        self, table_name: str, window: Window, reason: str, rows: int, first: tuple[str, int]
    ) -> None:
        """Checks why records were rejected, after a load found more of them than it tolerates, or nothing else.

        ``reason`` is the most frequent reason, ``rows`` counts its records, ``first`` is ``_source.file`` and
        ``_source.row`` of the first one. Raises SourceUnreadable if the source holds other records than the declaration
        describes.
        """

    @property
    def own_fields(self) -> Mapping[str, OwnField]:
        """The fields, by name, that the source fills itself, beside the fields of its records. Default: none."""
        return {}

    def validate_changes(self, declared: Declared) -> None:  # noqa: B027 - by default any changes fit
        """Checks that the source can provide the changes that the table declares; raises as :meth:`validate` does."""

    def for_contract(self, contract: Contract) -> Source:
        """This source, adapted to the contract of its table, whose types determine how values are read."""
        return self

    def asked_for(self, fields: Sequence[str]) -> Source:
        """This source, adapted to conditions that read fields outside the contract.

        A source that knows the fields of all its records beforehand fails to read if it lacks such a field, because
        the condition would always be NULL. Default: the fields are not known beforehand.
        """
        return self

    def requiring(self, required: Callable[[], Collection[str]]) -> Source:
        """This source, adapted to refuse files or records that can give no row of its table. Default: none is refused.

        ``required`` returns the fields without which no record can become a row. It is only called if a field is
        lacking, because it needs Spark.
        """
        return self

    @abstractmethod
    def detect(self, request: DetectRequest) -> dict[str, Position]:
        """The position of each window that has data; windows without data are left out.

        Raises:
            SourceUnavailable: The source does not answer.
            SourceUnreadable: It answers with a refusal (credentials, permissions, no such bucket).
        """

    def survey(self, request: DetectRequest) -> Survey:
        """The positions that :meth:`detect` finds, and the data that it leaves out. Default: none is left out."""
        return Survey(self.detect(request))

    def watch(self, table_name: str, windows: Sequence[Window]) -> Watch | None:
        """A watch over the data of windows, given oldest first; None if only a detection notices changes.

        It raises as :meth:`detect` does. Default: None.
        """
        return None

    def prepare(self, spark: SparkSession, request: DetectRequest) -> None:  # noqa: B027 - nothing, by default
        """Finds out before a load what needs Spark, for the same request; ``detect`` is correct without it."""

    @abstractmethod
    def extract(self, spark: SparkSession, table_name: str, position: Position, fields: Sequence[str]) -> DataFrame:
        """Exactly the rows of a position, each row read once and none dropped.

        Returns a frame with these columns:
            ``_raw``: struct with one member per name in ``fields``: the value as read, a string for text formats (JSON
            objects and arrays as JSON text), the file's own type for typed formats; NULL if the source lacks it.
            ``_payload`` string: the whole record as text, for people and for replay.
            ``_whole`` struct, if the source has types: the fields of ``_payload``, which is then only made of records
            that are kept as text.
            ``_rescued`` string: JSON object of the fields not in ``fields``; NULL if there are none.
            ``_malformed`` string: why the record cannot be parsed; NULL if it can.
            ``_source`` struct<file: string, block: bigint, row: bigint>: where the record came from.
            ``_present`` array<string>, if records may lack fields that others have: the names in ``fields`` that this
            record has, even as NULL. Without this column every record has every field.
            ``_skipped`` string, if some records are not changes of this table: why this record is not; NULL for
            changes. Skipped records are counted and not stored.

        Raises:
            SourceUnreadable: A file cannot be read at all; the message names it.
            SourceChanged: A file no longer matches the position.
        """

    def extract_windows(
        self, spark: SparkSession, table_name: str, positions: Mapping[str, Position], fields: Sequence[str]
    ) -> DataFrame:
        """The rows of one or more windows, as by :meth:`extract`, with their partition keys in a column ``_window``."""
        frames = [
            self.extract(spark, table_name, position, fields).withColumn("_window", F.lit(key))
            for key, position in positions.items()
        ]
        return union_of(frames)

    def unreadable_payloads(self, fields: Sequence[str]) -> str:
        """Why :meth:`read_payloads` cannot parse the payloads of rejected rows; '' if it can. Default: it cannot."""
        return f"{self} cannot parse the payloads that its rejected rows keep"

    @property
    def is_text(self) -> bool:
        """True if the source delivers every field of a record as a text, so that members of ``_raw`` are strings."""
        return False

    def read_payloads(self, kept: DataFrame, fields: Sequence[str]) -> DataFrame:
        """The records of kept payloads, as :meth:`extract_windows` returned them when the source was read.

        It is only called if :meth:`unreadable_payloads` says nothing, and does not read the source. ``kept`` has
        ``_payload`` (never NULL) of records that could be parsed, ``_source`` and ``_window``. Raises SourceUnreadable
        for payloads that cannot be parsed.
        """
        raise NotImplementedError

    def gained(self, before: Position, now: Position) -> Position | None:
        """The rows that a window gained since an earlier position, as a position that can be extracted.

        None if the window also changed otherwise, or if the source cannot find out. Default: None.
        """
        return None

    def renewed(self, before: Position, now: Position) -> Position | None:
        """The part of a window that differs from an earlier position, as a position that can be extracted.

        :meth:`staying` returns the window's other rows. None if all has to be read, which is the default.
        """
        return None

    def divided(
        self, table_name: str, position: Position, number: int, known: Sequence[Position] = ()
    ) -> list[Position]:
        """Chunks of a position: about ``number`` positions that together have each of its rows once.

        ``known`` are chunks of earlier divisions of the window. One that need not be read again, because the source
        still holds its rows, or newer versions of them elsewhere, is among the result with its fingerprint. Empty: the
        source cannot divide its windows, which is the default, or there is nothing to divide. Raises as :meth:`detect`
        does.
        """
        return []

    def divides(self) -> bool:
        """True if :meth:`divided` can divide a position that has rows."""
        return type(self).divided is not Source.divided

    def records_in(self, position: Position) -> Mapping[str, int] | None:
        """The number of records of a position by topic partition, under ``""`` where the source has none.

        None if the source does not know it before reading. Default: None.
        """
        return None

    def empty_position(self, window: Window) -> Position:
        """The position of a window that is declared empty."""
        return Position(fingerprint="empty", detail={}, summary="nothing at the source")

    def empty_positions(self, windows: Sequence[Window], lake: Lake) -> dict[str, Position]:
        """The positions, by partition key, of windows without data; a window that waits for data has none."""
        return {window.key: self.empty_position(window) for window in windows} if self.absent == "empty" else {}

    def settled(self, position: Position) -> bool:
        """True if a window ingested with this position is complete, so that sensors skip it.

        A load detects its windows in any case. If the source refuses that, for example because its data is gone, a
        complete window keeps what was ingested. Default: never.
        """
        return False

    def why_open(self, position: Position) -> str:
        """The reason why no window with such a position becomes complete, and the remedy; empty: it may. Default."""
        return ""

    def headroom(self, table_name: str, positions: Mapping[Window, Position], now: datetime) -> list[RetentionMargin]:
        """How much longer the source keeps the rows of some windows; empty: it removes nothing by itself.

        ``positions`` are the present ones of windows that are not loaded; ``now`` is aware. Raises SourceUnavailable
        if the source does not answer, SourceUnreadable if it refuses.
        """
        return []

    def clocks(self, table_name: str) -> list[Clock]:
        """The clocks that stamp the times of the source's rows, with rows ahead of them; raises as :meth:`headroom`."""
        return []

    def missing(
        self, table_name: str, windows: Sequence[Window], ingested: Mapping[str, Position]
    ) -> dict[str, list[str]]:
        """Names, for people, of ingested data that is gone from the source, by partition key. Default: none."""
        return {}

    def names_what_it_holds(self) -> bool:
        """True if the source's data has names, such as files, so that :meth:`missing` can find something."""
        return type(self).missing is not Source.missing

    def carried(self, position: Position) -> list[str]:
        """The ``_source.file`` values of a position whose rows stay although the source no longer has them.

        ``extract`` does not return those rows; the ingestion keeps the rows that were ingested before. Default: none.
        """
        return []

    def staying(self, spark: SparkSession, ingested: DataFrame, position: Position) -> DataFrame | None:
        """The rows of an earlier ingestion that stay, as ``extract`` does not return them; None if there are none.

        ``position`` may be a part that :meth:`renewed` returned. Default: the rows of :meth:`carried` places.
        """
        if not (carried := self.carried(position)):
            return None
        gone = spark.createDataFrame([(name,) for name in carried], "file string")
        return ingested.join(gone, ingested["_source.file"] == gone["file"], "left_semi")
