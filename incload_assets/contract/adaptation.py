"""The differences between what a Delta table has and what is declared, each with what a load does about it.

Loads decide by these functions, and ``incload contract diff`` prints their results, so that both say the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal

import pyspark.sql.types as T

from incload_assets.contract.wider_types import holds, holds_text, widened

Outcome = Literal["applied", "ignored", "validated from now on", "stops"]
_FAILS = "The load fails before it writes anything"
_IN_PLACE = "cannot be changed in place"
_ANOTHER_NAME = "restore the declaration, or give the table another name and load it again"


@dataclass(frozen=True)
class Kind:
    """A kind of difference, and what a load does about it.

    Args:
        outcome: ``applied``: the load adapts the table. ``ignored``: it leaves it as it is. ``stops``: it fails before
            it writes anything. ``validated from now on``: it matters for rows that are loaded from now on.
        then: What happens, for people.
        rule: The rule that stops a load; empty for the other outcomes.
        remedy: What to do; ``{was}`` stands for what the table has, ``{table}`` for its name. Empty: nothing.
    """

    name: str
    outcome: Outcome
    then: str
    rule: str = ""
    remedy: str = ""


ADDED = Kind(
    "column added",
    "applied",
    "A commit of its own adds it to table and log. Rows that are there have NULL until their window loads again",
)
ADDED_UNSET = Kind(
    "column added to partial changes",
    "applied",
    "As above. Before that the log is rewritten once, so that changes from before leave the column as it is",
)
DROPPED = Kind(
    "column dropped",
    "ignored",
    "The column stays. Rows that a load inserts or replaces have NULL there, rows that it updates keep their value",
    remedy="keep it in the contract if readers need it",
)
_TYPE = "a load does not change the type of an existing column"
_TYPE_REMEDY = "restore the type in the contract, or add the new type under another column name"
DROPPED_CONTENT = Kind(
    "column dropped from rows without a key",
    "stops",
    _FAILS,
    rule="an event without a key is identified by its whole content; without the column two could become one",
    remedy="keep the column in the contract, or give the table another name and load it again",
)
WIDENED = Kind(
    "type widened",
    "stops",
    _FAILS,
    rule=_TYPE,
    remedy='declare evolution=Evolution(widen="apply"), restore the type in the contract, or add the new type under '
    "another column name",
)
WIDENED_BY_LOAD = Kind(
    'type widened, with Evolution(widen="apply")',
    "applied",
    "Table and log are rewritten, each once and in a commit of its own. Loads of the former code stop from then on",
)
WIDENED_TEXT = Kind(
    'type widened, with Evolution(widen="apply"), and values get another text',
    "stops",
    f"{_FAILS}. Integers become wider integers, or decimals without a scale; decimals get more digits before the point",
    rule="rows are compared by their content as text, and a value of the wider type would have another one",
    remedy=_TYPE_REMEDY,
)
WIDENED_PLACE = Kind(
    'type widened, with Evolution(widen="apply"), of a column that places rows',
    "stops",
    _FAILS,
    rule="a partition column, and keys that buckets are made of, decide where a row is stored",
    remedy=_TYPE_REMEDY,
)
ADDED_NOT = Kind(
    'column or member added, with Evolution(add="stop")',
    "stops",
    _FAILS,
    rule='evolution=Evolution(add="stop"), or INCLOAD_EVOLUTION=stop: no load adds a column',
    remedy='declare add="apply" for the load that is to add it, or take it out of the contract',
)
NARROWED = Kind("type narrowed", "stops", _FAILS, rule=_TYPE, remedy=_TYPE_REMEDY)
RETYPED = Kind("type changed", "stops", _FAILS, rule=_TYPE, remedy=_TYPE_REMEDY)
MEMBER_ADDED = Kind(
    "member of a struct added",
    "applied",
    "The member is added after those that are there. It is NULL in rows that are there, as with a column",
)
MEMBER_DROPPED = Kind(
    "member of a struct dropped",
    "stops",
    _FAILS,
    rule=_TYPE,
    remedy="keep the member in the contract, or add the new type under another column name",
)
MEMBER_ORDER = Kind(
    "members of a struct reordered",
    "ignored",
    "The table keeps its order. Members are found by their names",
)
NESTED = Kind(
    "members changed within an array or a map",
    "stops",
    f"{_FAILS}, also if a member is only added or moved",
    rule=_TYPE,
    remedy=_TYPE_REMEDY,
)
SPELLING = Kind(
    "spelling changed by case",
    "stops",
    _FAILS,
    rule="Delta does not distinguish names that differ only by case, so no column can be renamed this way",
    remedy="declare it as {was}",
)
PARTITIONING = Kind(
    "partitioning changed",
    "stops",
    _FAILS,
    rule=f"the partitioning of an existing table {_IN_PLACE}",
    remedy=_ANOTHER_NAME,
)
_IDENTITY = f"what identifies the rows of an existing table, and how they are written, {_IN_PLACE}"
KEYS = Kind("keys changed", "stops", _FAILS, rule=_IDENTITY, remedy=_ANOTHER_NAME)
WRITE = Kind("write strategy changed", "stops", _FAILS, rule=_IDENTITY, remedy=_ANOTHER_NAME)
BUCKETS = Kind(
    "buckets changed",
    "stops",
    f"{_FAILS}. `incload rebucket` makes the table as it is declared. Loads of the former code stop from then on",
    rule="a table has the number of buckets that is declared; a load reads and rewrites whole buckets",
    remedy="make the table as it is declared: incload rebucket {table}; or restore the declaration",
)
BUCKET_KEYS = Kind(
    "order of bucket keys changed",
    "stops",
    f"{_FAILS}. The number of a key's bucket depends on the order of its columns",
    rule=_IDENTITY,
    remedy="declare the keys in the former order, or give the table another name and load it again",
)
VERSIONS = Kind("columns of a history renamed", "stops", _FAILS, rule=_IDENTITY, remedy=_ANOTHER_NAME)
WINDOWS = Kind(
    "windows changed",
    "stops",
    f"{_FAILS}. Another start is no change, and nothing is if each window holds the whole table",
    rule=_IDENTITY,
    remedy="declare the former partitions beside the new ones, former_partitions=[Era(…, until=…)], restore the "
    "declaration, or give the table another name and load it again",
)
ANOTHER_ERA = Kind(
    "windows changed, with former_partitions",
    "applied",
    "The property is extended in a commit of its own, if nothing of the former windows is left to be loaded. They stay "
    "as they are. Loads of the former code stop from then on",
)
SETTING = Kind(
    "setting of a Delta table changed",
    "applied",
    "The property is set in a commit of its own",
)
FEED_STAYS = Kind(
    "change feed no longer declared",
    "ignored",
    "The feed stays on, for readers that follow the table by it",
    remedy="declare change_feed=True again; or, if no reader is left, ALTER TABLE … UNSET TBLPROPERTIES "
    "('delta.enableChangeDataFeed')",
)
STORED_KINDS = (
    ADDED, ADDED_UNSET, ADDED_NOT, DROPPED, DROPPED_CONTENT,
    WIDENED, WIDENED_BY_LOAD, WIDENED_TEXT, WIDENED_PLACE, NARROWED, RETYPED, SPELLING,
    MEMBER_ADDED, MEMBER_DROPPED, MEMBER_ORDER, NESTED,
    KEYS, PARTITIONING, BUCKETS, BUCKET_KEYS, WRITE, VERSIONS, WINDOWS, ANOTHER_ERA, SETTING, FEED_STAYS,
)  # fmt: skip
"""The kinds of differences that can be seen in a Delta table."""
IDENTITY_KINDS = (KEYS, BUCKETS, BUCKET_KEYS, WRITE, VERSIONS, WINDOWS)
"""The kinds of differences in what identifies rows, and how they are written."""
OWN = "incload."
"""The prefix of table properties that describe the rows of a table."""
CHANGE_FEED = "delta.enableChangeDataFeed"
"""The property of a table whose commits tell which rows they changed."""
UNTIL = " until "
"""Separator of a former definition of windows and the instant until which it counted, in its property."""
BUCKETS_PROPERTY = f"{OWN}buckets"
"""The property with the number of buckets; in a log, all numbers that its table has had."""
THEN, NO_BUCKETS = " then ", "none"
"""Separator of numbers of buckets in a log's property, and its word for a table that is not divided."""
RECORDS = "_control"
"""Column of a log that has the window records."""
BUCKET = "_bucket"
"""Partition column of a table that is divided into hash buckets."""
_BY_PROPERTY = {
    f"{OWN}keys": KEYS,
    BUCKETS_PROPERTY: BUCKETS,
    f"{OWN}bucket_keys": BUCKET_KEYS,
    f"{OWN}versions": VERSIONS,
    f"{OWN}windows": WINDOWS,
}


@dataclass(frozen=True)
class Stored:
    """A table's columns in Delta, the loader's own included, and the properties that existing rows depend on."""

    columns: T.StructType
    partitioned_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """One difference between a table and its declaration; ``was`` or ``now`` is None if there is nothing.

    Args:
        column: The column, with its path if it is a member of a struct; or the property; empty for the whole table.
        added: The declared field, for a column or a member that a load adds.
        within: The structs around a member that is added or has another type, from the outermost.
        keeps_text: Whether every value of a type that changed is the same text in the declared one.
    """

    kind: Kind
    column: str = ""
    was: str | None = None
    now: str | None = None
    added: T.StructField | None = field(default=None, repr=False, compare=False)
    within: tuple[str, ...] = field(default=(), repr=False, compare=False)
    keeps_text: bool = field(default=False, repr=False, compare=False)

    @property
    def stops(self) -> bool:
        """True if a load fails because of it."""
        return self.kind.outcome == "stops"

    def remedy(self, table_name: str) -> str:
        """The remedy for the table of this name; empty: nothing is to be done."""
        return self.kind.remedy.format(was=repr(self.was), table=table_name)


@dataclass(frozen=True)
class Adaptation:
    """A change that a load may make: add columns, or widen types, except of ``places``, by which rows are stored."""

    add: bool = True
    widen: bool = False
    places: frozenset[str] = frozenset()


def widened_columns(has: T.StructType, declared: T.StructType, adaptation: Adaptation) -> dict[str, T.DataType]:
    """The columns that a load rewrites to wider types, with these."""
    found = {}
    for one in declared.fields if adaptation.widen else ():
        if one.name not in has.names or one.name in adaptation.places:
            continue
        old = has[one.name].dataType
        if (wider := widened(old, one.dataType)) != old:
            found[one.name] = wider
    return found


def _adapted(found: Iterator[Difference], adaptation: Adaptation) -> Iterator[Difference]:
    """The differences, each with what is done about it where the declaration decides that."""
    for one in found:
        kind = one.kind
        of_records = one.within[:1] == (RECORDS,)  # a newer version of this package records more
        if not adaptation.add and kind in (ADDED, ADDED_UNSET, MEMBER_ADDED) and not of_records:
            kind = ADDED_NOT
        if adaptation.widen and kind == WIDENED:
            is_place = (one.within[0] if one.within else one.column) in adaptation.places
            kind = WIDENED_PLACE if is_place else WIDENED_BY_LOAD if one.keeps_text else WIDENED_TEXT
        yield replace(one, kind=kind)


def stored_differences(
    has: Stored,
    declared: Stored,
    *,
    whole: bool = False,
    unset: bool = False,
    adaptation: Adaptation = Adaptation(),
) -> Iterator[Difference]:
    """The differences between a Delta table and its declaration; those that stop a load are first.

    Only declared properties are compared; one that the table lacks is set by a load. ``whole``: rows are identified by
    their whole content. ``unset``: changes may leave columns as they are.
    """
    found = chain(
        _of_layout(has, declared),
        _of_properties(has.properties, declared.properties),
        _of_columns(has.columns, declared.columns, whole=whole, unset=unset),
    )
    return iter(sorted(_adapted(found, adaptation), key=lambda one: not one.stops))


def _of_layout(has: Stored, declared: Stored) -> Iterator[Difference]:
    if has.partitioned_by != declared.partitioned_by:
        was, now = ([name for name in by.partitioned_by if name != BUCKET] for by in (has, declared))
        kind = BUCKETS if was == now else PARTITIONING
        yield Difference(kind, "", str([*has.partitioned_by]), str([*declared.partitioned_by]))


def agrees(name: str, was: str | None, now: str) -> bool:
    """True if a property of a table has the declared value; of the numbers of buckets of a log the last one counts."""
    return (was if was is None or name != BUCKETS_PROPERTY else was.rpartition(THEN)[2]) == now


def _of_properties(has: Mapping[str, str], declared: Mapping[str, str]) -> Iterator[Difference]:
    undivided = {BUCKETS_PROPERTY: NO_BUCKETS} if BUCKETS_PROPERTY in has else {}  # if nothing else is declared
    for name, now in {**undivided, **declared}.items():
        if agrees(name, was := has.get(name), now):
            continue
        kind = _BY_PROPERTY.get(name, WRITE) if name.startswith(OWN) and was is not None else SETTING
        if kind == WINDOWS and now.startswith(f"{was}{UNTIL}"):
            kind = ANOTHER_ERA
        yield Difference(kind, name, was, now)
    if (was := has.get(CHANGE_FEED)) == "true" and CHANGE_FEED not in declared:
        yield Difference(FEED_STAYS, CHANGE_FEED, was, None)


def _of_columns(
    has: T.StructType, declared: T.StructType, within: tuple[str, ...] = (), *, whole: bool, unset: bool
) -> Iterator[Difference]:
    """The differences of columns, or of the members of a struct."""
    left = {name.lower(): name for name in has.names}
    for one in declared.fields:
        path, found = ".".join((*within, one.name)), left.pop(one.name.lower(), None)
        if found is None:
            kind = MEMBER_ADDED if within else ADDED_UNSET if unset else ADDED
            yield Difference(kind, path, None, one.dataType.simpleString(), one, within)
        elif found != one.name:
            yield Difference(SPELLING, ".".join((*within, found)), found, one.name)
        else:
            old, new = has[found].dataType, one.dataType
            if isinstance(old, T.StructType) and isinstance(new, T.StructType):
                yield from _of_columns(old, new, (*within, found), whole=whole, unset=unset)
            elif old.simpleString() != new.simpleString():
                kept = holds_text(new, old)
                was, now = old.simpleString(), new.simpleString()
                yield Difference(_retyped(old, new), path, was, now, within=within, keeps_text=kept)
    for name in left.values():
        kind = MEMBER_DROPPED if within else DROPPED_CONTENT if whole else DROPPED
        yield Difference(kind, ".".join((*within, name)), has[name].dataType.simpleString(), None)
    if within:
        was, now = _shared(has, declared), _shared(declared, has)
        if was != now:
            yield Difference(MEMBER_ORDER, ".".join(within), was, now)


def _shared(struct: T.StructType, other: T.StructType) -> str:
    """The members that another struct has, too, in order."""
    return ", ".join(name for name in struct.names if name in other.names)


def _retyped(was: T.DataType, now: T.DataType) -> Kind:
    if holds(now, was):
        return WIDENED
    if holds(was, now):
        return NARROWED
    return NESTED if type(was) is type(now) and isinstance(was, T.ArrayType | T.MapType) else RETYPED
