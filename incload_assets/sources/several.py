"""Several sources of one table: a full extract with changes on top, or systems that each hold a part."""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.contract.contract import Contract
from incload_assets.declaration.declared import Declared
from incload_assets.declaration.own_fields import OwnField
from incload_assets.declaration.source import (
    Absent,
    Clock,
    DetectRequest,
    Position,
    RetentionMargin,
    Shows,
    Source,
    Survey,
    Watch,
)
from incload_assets.declaration.window import Window
from incload_assets.platform.errors import DeclarationError
from incload_assets.sources.several_rows import NAME, PRIORITY, SEPARATOR, SourceRows, source_of, together

_NAME = r"[A-Za-z][A-Za-z0-9_-]*"


@dataclass(frozen=True)
class Several(Source):
    """Several named sources whose changes make one table.

    Beside the fields of the sources, the contract, the conditions and the function may use these fields:

    - ``source_name`` (string): the name of the source that the record is from.
    - ``source_priority`` (integer): 0 for the source that is declared first, -1 for the next one, and so on. As the
      last column of ``sequence_by`` it decides between changes of one key with the same sequence from two sources: the
      greater priority wins. Without it a hash of the content decides. Add new sources at the end, so that the others
      keep their numbers.

    A window is present when every source that waits (``absent="wait"``) has data for it. A field that sources have in
    different types is read as a string. The places of rows, for example in the quarantine, begin with the source's
    name. Therefore a source must keep its name, and a table cannot change from a single source to several. If one of
    the sources keeps rows that it no longer shows, rows of a name that is no longer declared stay, too.

    Args:
        sources: The sources by name (letters, digits, ``_`` and ``-``), in order of priority, highest first.

    Example:
        >>> from incload_assets.assets import Changes, Files
        >>> Several({
        ...     "full": Files("{landing}/stock/full/{window:%Y-%m-%d}/*.csv", absent="empty"),
        ...     "changes": Files("{landing}/stock/changes/{window:%Y-%m-%d}/*.json"),
        ... }).absent
        'wait'
        >>> Changes(keys="sku", sequence_by="as_of", snapshot_when="source_name = 'full'").keys
        ('sku',)
    """

    sources: Mapping[str, Source] = field(hash=False)
    absent: Absent = field(init=False, default="wait")
    contract: Contract | None = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        named = self.sources if isinstance(self.sources, Mapping) else {}  # refused when the table is declared
        parts = [part for part in named.values() if isinstance(part, Source)]
        empty = all(part.absent == "empty" for part in parts)
        for name, value in {
            "absent": "empty" if empty else "wait",
            "retains_absent_keys": any(part.retains_absent_keys for part in parts),
            "changes_while_read": any(part.changes_while_read for part in parts),
            "expires_rows": any(part.expires_rows for part in parts),
            "has_row_times": any(part.has_row_times for part in parts),
            "mixes_tables": any(part.mixes_tables for part in parts),
            "shows": _together([part.shows for part in parts]),
        }.items():
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return f"Several({', '.join(f'{name}: {part}' for name, part in self.sources.items())})"

    def explained(self) -> list[str]:
        """Sentences for people; see :meth:`Source.explained`."""
        return [
            f"Rows are read from {len(self.sources)} sources; the first has the greatest source_priority: "
            f"{', '.join(self.sources)}. A window waits for each of them that waits.",
            *(f"{name}: {sentence}" for name, part in self.sources.items() for sentence in part.explained()),
        ]

    @property
    def changes_of_fixed_keys(self) -> str:
        """See :attr:`Source.changes_of_fixed_keys`."""
        return next((part.changes_of_fixed_keys for part in self.sources.values() if part.changes_of_fixed_keys), "")

    @property
    def whole_changes(self) -> str:
        """See :attr:`Source.whole_changes`."""
        return next((part.whole_changes for part in self.sources.values() if part.whole_changes), "")

    def shown(self, keys: Sequence[str]) -> Shows:
        """The kinds of change that some source shows, and the order if all do; see :meth:`Source.shown`."""
        return _together([part.shown(keys) for part in self.sources.values()])

    def validate(self, table_name: str) -> None:
        """Checks the names, and each source; see :meth:`Source.validate`."""
        if not isinstance(self.sources, Mapping):
            raise DeclarationError(
                f"{table_name}: source: Several got {self.sources!r}",
                rule="it takes a mapping from names to sources",
                remedy='write Several({"full": Files(...), "changes": Files(...)})',
            )
        if len(self.sources) < 2:
            raise DeclarationError(
                f"{table_name}: source: Several has {len(self.sources)} sources",
                rule="it needs two or more",
                remedy="declare the single source without Several",
            )
        for name, part in self.sources.items():
            if not re.fullmatch(_NAME, name):
                raise DeclarationError(
                    f"{table_name}: source: {name!r} is the name of a source",
                    rule="a name consists of letters, digits, _ and -, and begins with a letter",
                    remedy="rename it, for example 'changes'",
                )
            if not isinstance(part, Source) or isinstance(part, Several):
                raise DeclarationError(
                    f"{table_name}: source: {name!r} is {part!r}",
                    rule="each part of Several is a single source",
                    remedy="write Files(...), Kafka(...), Debezium(...), QueryByTime(...) or QueryById(...)",
                )
            part.validate(_named(table_name, name))
            if other := next((one for one, before in self.sources.items() if one != name and before == part), None):
                raise DeclarationError(
                    f"{table_name}: source: {name!r} and {other!r} are both {part}",
                    rule="each record comes once, from one source",
                    remedy="drop one of them, or correct it",
                )

    def validate_windows(self, table_name: str, windows: Sequence[Window]) -> None:
        """Checks that the windows fit each source; see :meth:`Source.validate_windows`."""
        for name, part in self.sources.items():
            part.validate_windows(_named(table_name, name), windows)

    def check_landed(self, table_name: str, ingested: Iterable[tuple[Window, Position]]) -> None:
        """Checks the windows of each source; see :meth:`Source.check_landed`."""
        held = list(ingested)
        for name, part in self.sources.items():
            part.check_landed(
                _named(table_name, name), ((w, of) for w, position in held if (of := _of(position, name)))
            )

    @property
    def own_fields(self) -> Mapping[str, OwnField]:
        """Name and priority, and the own fields of each source; see :meth:`Source.own_fields`."""
        theirs = {name: field for part in self.sources.values() for name, field in part.own_fields.items()}
        return {**theirs, NAME: OwnField(T.StringType(), tuple(self.sources)), PRIORITY: OwnField(T.IntegerType())}

    def validate_changes(self, declared: Declared) -> None:
        """Checks that each source can provide the changes; see :meth:`Source.validate_changes`."""
        for name, part in self.sources.items():
            part.validate_changes(replace(declared, table_name=_named(declared.table_name, name)))

    def for_contract(self, contract: Contract) -> "Several":
        """See :meth:`Source.for_contract`."""
        return self._adapted(lambda part: part.for_contract(contract), contract)

    def for_changes(self, unavailable: str | None, *, moves: bool) -> "Several":
        """See :meth:`Source.for_changes`."""
        return self._adapted(lambda part: part.for_changes(unavailable, moves=moves), self.contract)

    def _adapted(self, adapt: Callable[[Source], Source], contract: Contract | None) -> "Several":
        made = replace(self, sources={name: adapt(part) for name, part in self.sources.items()})
        object.__setattr__(made, "contract", contract)
        return made

    def part(self, file: Column) -> Column:
        """See :meth:`Source.part`."""
        return source_of(file)

    def check_skipped(self, table_name: str, window: Window, skipped: Mapping[str, Collection[str]]) -> None:
        """See :meth:`Source.check_skipped`."""
        for name, reasons in skipped.items():
            self.sources[name].check_skipped(_named(table_name, name), window, {"": reasons})

    def check_rejected(self, table_name: str, window: Window, reason: str, rows: int, first: tuple[str, int]) -> None:
        """See :meth:`Source.check_rejected`."""
        name, _, file = first[0].partition(SEPARATOR)
        self.sources[name].check_rejected(_named(table_name, name), window, reason, rows, (file, first[1]))

    def requiring(self, required: Callable[[], Collection[str]]) -> "Several":
        """See :meth:`Source.requiring`."""
        return self._adapted(lambda part: part.requiring(required), self.contract)

    def detect(self, request: DetectRequest) -> dict[str, Position]:
        """The positions of all sources together, by window; see :meth:`Source.detect`."""
        return self.survey(request).positions

    def survey(self, request: DetectRequest) -> Survey:
        """The positions, and the data that each source leaves out; see :meth:`Source.survey`."""
        seen = {name: part.survey(_request_of(request, name)) for name, part in self.sources.items()}
        found = {name: of_one.positions for name, of_one in seen.items()}
        positions = {}
        for window in request.windows:
            waits = any(part.absent == "wait" and window.key not in found[name] for name, part in self.sources.items())
            if not waits and any(window.key in of_one for of_one in found.values()):
                positions[window.key] = _position(
                    {
                        name: found[name].get(window.key) or part.empty_position(window)
                        for name, part in self.sources.items()
                    }
                )
        return Survey(positions, [place for name, one in seen.items() for place in _placed(name, one.left_out)])

    def watch(self, table_name: str, windows: Sequence[Window]) -> Watch | None:
        """The watches of all sources together, if each has one; see :meth:`Source.watch`."""
        watches = [part.watch(_named(table_name, name), windows) for name, part in self.sources.items()]
        return _Watches([watch for watch in watches if watch is not None]) if None not in watches else None

    def prepare(self, spark: SparkSession, request: DetectRequest) -> None:
        """See :meth:`Source.prepare`."""
        for name, part in self.sources.items():
            part.prepare(spark, _request_of(request, name))

    def extract(self, spark: SparkSession, table_name: str, position: Position, fields: Sequence[str]) -> DataFrame:
        """The rows of all sources together; see :meth:`Source.extract`."""
        return self.extract_windows(spark, table_name, {"": position}, fields).drop("_window")

    def extract_windows(
        self, spark: SparkSession, table_name: str, positions: Mapping[str, Position], fields: Sequence[str]
    ) -> DataFrame:
        """The rows of all sources; each source reads all windows at once; see :meth:`Source.extract_windows`."""
        theirs, rows = _of_part(fields), []
        for number, (name, part) in enumerate(self.sources.items()):
            of_one = {key: of for key, position in positions.items() if (of := _of(position, name)) is not None}
            if of_one:
                read = part.extract_windows(spark, _named(table_name, name), of_one, theirs)
                rows.append(SourceRows(name, -number, read))
        return together(rows, fields, self.contract)

    def empty_position(self, window: Window) -> Position:
        """The position of a window for which all sources are declared empty."""
        return _position({name: part.empty_position(window) for name, part in self.sources.items()})

    def unreadable_payloads(self, fields: Sequence[str]) -> str:
        """Why some source cannot parse kept payloads; see :meth:`Source.unreadable_payloads`."""
        reasons = ((name, part.unreadable_payloads(_of_part(fields))) for name, part in self.sources.items())
        return "; ".join(f"{name}: {why}" for name, why in reasons if why)

    def read_payloads(self, kept: DataFrame, fields: Sequence[str]) -> DataFrame:
        """The records of kept payloads, each parsed by its source; see :meth:`Source.read_payloads`."""
        file = F.col("_source.file")
        parts = []
        for number, (name, part) in enumerate(self.sources.items()):
            own = kept.filter(source_of(file) == name)
            place = F.col("_source").withField("file", F.substr(file, F.lit(len(name + SEPARATOR) + 1)))
            rows = part.read_payloads(own.withColumn("_source", place), _of_part(fields))
            parts.append(SourceRows(name, -number, rows))
        return together(parts, fields, self.contract)

    def settled(self, position: Position) -> bool:
        """True if the window is complete in every source; see :meth:`Source.settled`."""
        parts = {name: _of(position, name) for name in self.sources}
        return all(of is not None and self.sources[name].settled(of) for name, of in parts.items())

    def why_open(self, position: Position) -> str:
        """The reasons of all sources; see :meth:`Source.why_open`."""
        parts = {name: _of(position, name) for name in self.sources}
        return "; ".join(why for name, of in parts.items() if of and (why := self.sources[name].why_open(of)))

    def records_in(self, position: Position) -> Mapping[str, int] | None:
        """The records of all sources, by source and topic partition; None if a source does not know them."""
        found: dict[str, int] = {}
        for name, source in self.sources.items():
            if (of := _of(position, name)) is not None:
                if (counts := source.records_in(of)) is None:
                    return None
                found |= {f"{name} {part}".strip(): count for part, count in counts.items()}
        return found

    def headroom(self, table_name: str, positions: Mapping[Window, Position], now: datetime) -> list[RetentionMargin]:
        """The margins of all sources; see :meth:`Source.headroom`."""
        found = []
        for name, part in self.sources.items():
            own = {window: of for window, position in positions.items() if (of := _of(position, name)) is not None}
            found += part.headroom(_named(table_name, name), own, now)
        return found

    def clocks(self, table_name: str) -> list[Clock]:
        """The clocks of all sources; see :meth:`Source.clocks`."""
        return [clock for name, part in self.sources.items() for clock in part.clocks(_named(table_name, name))]

    def missing(
        self, table_name: str, windows: Sequence[Window], ingested: Mapping[str, Position]
    ) -> dict[str, list[str]]:
        """The data that is gone from any source; see :meth:`Source.missing`."""
        gone: dict[str, list[str]] = {}
        for name, part in self.sources.items():
            for key, names in part.missing(_named(table_name, name), windows, _OfOne(ingested, name)).items():
                gone.setdefault(key, []).extend(_placed(name, names))
        return gone

    def names_what_it_holds(self) -> bool:
        """True if any source names its data; see :meth:`Source.names_what_it_holds`."""
        return any(part.names_what_it_holds() for part in self.sources.values())

    def carried(self, position: Position) -> list[str]:
        """The places of all rows that stay although they are gone from their source; see :meth:`Source.carried`."""
        parts = ((name, part, _of(position, name)) for name, part in self.sources.items())
        return [place for name, part, of in parts if of is not None for place in _placed(name, part.carried(of))]

    def keeper(self, file: Column) -> Column:
        """The name of the source; NULL for a source that keeps no absent rows. See :meth:`Source.keeper`."""
        name = source_of(file)
        return F.when(~name.isin([name for name, part in self.sources.items() if not part.retains_absent_keys]), name)


@dataclass(frozen=True)
class _Watches(Watch):
    """The watches of several sources."""

    watches: Sequence[Watch]

    def changed(self, *, closely: bool) -> bool:
        """True if one of the sources may have changed."""
        return any(watch.changed(closely=closely) for watch in self.watches)


def _of_part(fields: Sequence[str]) -> list[str]:
    """The fields that the sources themselves give."""
    return [name for name in fields if name not in (NAME, PRIORITY)]


def _request_of(request: DetectRequest, name: str) -> DetectRequest:
    """The request for one source."""
    return replace(request, table_name=_named(request.table_name, name), ingested=_OfOne(request.ingested, name))


class _OfOne(Mapping[str, Position]):
    """The ingested positions of one source, by partition key."""

    def __init__(self, ingested: Mapping[str, Position], name: str) -> None:
        self._ingested, self._name = ingested, name

    def __getitem__(self, key: str) -> Position:
        if (of_one := _of(self._ingested[key], self._name)) is None:
            raise KeyError(key)
        return of_one

    def __iter__(self) -> Iterator[str]:
        return (key for key, position in self._ingested.items() if _of(position, self._name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _named(table_name: str, name: str) -> str:
    """The table's name for one of its sources, for messages and for the state that the source stores."""
    return f"{table_name}@{name}"


def _together(kinds: Sequence[Shows]) -> Shows:
    return Shows(
        inserts=any(shows.inserts for shows in kinds),
        updates=any(shows.updates for shows in kinds),
        deletes=any(shows.deletes for shows in kinds),
    )


def _placed(name: str, places: Iterable[str]) -> list[str]:
    return [f"{name}{SEPARATOR}{place}" for place in places]


def _position(parts: Mapping[str, Position]) -> Position:
    """The position of all sources together."""
    fingerprints = json.dumps({name: part.fingerprint for name, part in parts.items()}, sort_keys=True)
    return Position(
        fingerprint=hashlib.blake2b(fingerprints.encode(), digest_size=8).hexdigest(),
        detail={
            "sources": {
                name: {"fingerprint": part.fingerprint, "detail": part.detail, "summary": part.summary}
                for name, part in parts.items()
            }
        },
        summary="; ".join(f"{name}: {part.summary}" for name, part in parts.items()),
        size=sum(part.size for part in parts.values()),
    )


def _of(position: Position, name: str) -> Position | None:
    """The position of one source; None if the source was not declared when the position was made."""
    part = position.detail.get("sources", {}).get(name)
    return None if part is None else Position(part["fingerprint"], part["detail"], part["summary"])
