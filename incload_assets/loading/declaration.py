"""What a table's author declares, and the rules a declaration has to keep."""

import hashlib
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

import dagster as dg
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.loading.conditions import check_conditions
from incload_assets.loading.contract import Contract, compile_contract
from incload_assets.loading.errors import DeclarationError
from incload_assets.loading.sources.base import Source
from incload_assets.loading.writes.base import Write

RowFunction = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What a change is.

    Args:
        keys: Columns that identify a row of the table; ways of writing that go by whole scopes need none.
        sequence_by: Columns that order the changes of one key, most significant first; NULL is older than any value.
            Needed where changes of one key are told older from newer.
        delete_when: SQL condition on the columns read from the source (fields outside the contract are strings there)
            that marks a change as a delete. NULL counts as false. None: the source never deletes.
        truncate_when: Likewise, for a change without a key that deletes all rows of a smaller sequence than its own.
        snapshot_when: Likewise, for a row of a complete extract, whose rows all have the same value in the first column
            of ``sequence_by``: the source's position when it was taken. It is an upsert; and keys that the extract
            lacks are deleted, if all that is known of them is older.
        unavailable: Text that a source puts where it does not know a value (Debezium writes
            ``__debezium_unavailable_value`` for large values that an update left alone): the column keeps what it had.
        moved_when: SQL condition that marks an upsert which gives a row a new key, if it leaves values unavailable:
            they are those of the row whose delete has the same sequence. That asks for a sequence that no two changes
            of the source share but such two. None: such values are not known.

    Example:
        >>> Changes(keys=["order_id"], sequence_by=["updated_at"], delete_when="op = 'd'").keys
        ('order_id',)
    """

    keys: Sequence[str] = ()
    sequence_by: Sequence[str] = ()
    delete_when: str | None = None
    truncate_when: str | None = None
    snapshot_when: str | None = None
    unavailable: str | None = None
    moved_when: str | None = None

    def __post_init__(self) -> None:
        for name in ("keys", "sequence_by"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))

    @property
    def empties(self) -> bool:
        """Whether a row of the log can delete everything that is older than it."""
        return self.truncate_when is not None or self.snapshot_when is not None


INTERVAL = timedelta(seconds=15)
"""How often a source is looked at, unless its table says so."""
SHORTEST_INTERVAL = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class Freshness:
    """How late the latest due partition may be.

    Args:
        within: Longest time from the end of a window to its materialization.
    """

    within: timedelta


@dataclass(frozen=True, kw_only=True)
class Quarantine:
    """How many rejected rows a load tolerates before it stops, applying nothing.

    Args:
        max_share: Largest tolerated share of the rows read, 0 to 1.
        max_rows: Largest tolerated number of rows; None for no such limit.
    """

    max_share: float = 0.2
    max_rows: int | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A checked declaration: all the engine knows of a table."""

    key: dg.AssetKey
    partitions_def: dg.TimeWindowPartitionsDefinition
    source: Source
    contract: Contract
    changes: Changes
    write: Write
    freshness: Freshness | None
    quarantine: Quarantine
    function: RowFunction
    code_version: str
    control_fields: tuple[str, ...]
    log_retention: timedelta | None = None
    interval: timedelta = INTERVAL

    @property
    def name(self) -> str:
        """The table's name for people: its asset key with slashes."""
        return self.key.to_user_string()

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
        """Whether several windows can be loaded at once; a snapshot is held against the table as it was before."""
        return self.write.ranges and self.changes.snapshot_when is None

    @cached_property
    def by_column(self) -> bool:
        """Whether a change may leave columns as they are."""
        return self.write.by_column(self.changes)

    @cached_property
    def schema(self) -> T.StructType:
        """The table's columns: the contract's, and those that its way of writing adds."""
        return self.write.schema(self.contract, self.changes)

    def type_of(self, column: str) -> T.DataType:
        """The type of a column of the contract."""
        return self.contract.type_of(column)


def declare(
    *,
    key: dg.AssetKey,
    partitions_def: dg.PartitionsDefinition,
    source: Source,
    contract: type,
    changes: Changes,
    write: Write,
    freshness: Freshness | None,
    quarantine: Quarantine,
    function: RowFunction,
    code_version: str | None,
    log_retention: timedelta | None = None,
    interval: timedelta = INTERVAL,
) -> Table:
    """Check a declaration and compile it.

    Raises:
        DeclarationError: Naming the table, the field, the value, the rule and what to write instead.
    """
    table = key.to_user_string()
    partitions_def = time_windows(table, partitions_def)
    _expect(table, "source", source, Source, 'Files("{landing}/orders/{window:%Y-%m-%d}/*.json")')
    _expect(table, "changes", changes, Changes, 'Changes(keys=["order_id"], sequence_by=["updated_at"])')
    _expect(table, "write", write, Write, "Merge() or Merge(partition_by=...)")
    _expect(table, "quarantine", quarantine, Quarantine, "Quarantine(max_share=0.05)")
    if freshness is not None:
        _expect(table, "freshness", freshness, Freshness, "Freshness(within=timedelta(hours=6))")
        if freshness.within <= timedelta(0):
            raise DeclarationError(
                f"{table}: freshness.within is {freshness.within}",
                rule="it is a positive length of time",
                remedy="write Freshness(within=timedelta(hours=6))",
            )
    _expect(table, "interval", interval, timedelta, "timedelta(minutes=5)")
    if interval < SHORTEST_INTERVAL:
        raise DeclarationError(
            f"{table}: interval is {interval}",
            rule="the sensor looks once a second at most",
            remedy="write interval=timedelta(minutes=5)",
        )
    if log_retention is not None:
        _check_retention(table, log_retention, changes, write)
    compiled = compile_contract(contract, table)
    source.validate(table)
    source = source.for_contract(compiled)
    _check_columns(table, compiled, changes, write)
    write.validate(table, compiled, changes, source)
    write.validate_windows(table, compiled, partitions_def)
    _check_quarantine(table, quarantine)
    control_fields = check_conditions(table, compiled, changes, write, source)
    return Table(
        key=key,
        partitions_def=partitions_def,
        source=source,
        contract=compiled,
        changes=changes,
        write=write,
        freshness=freshness,
        quarantine=quarantine,
        function=function,
        code_version=code_version or _code_version(function, compiled, changes, write, source),
        control_fields=control_fields,
        log_retention=log_retention,
        interval=interval,
    )


def time_windows(table: str, partitions_def: dg.PartitionsDefinition) -> dg.TimeWindowPartitionsDefinition:
    """The partitions definition, if it is one of time windows.

    Raises:
        DeclarationError: It is not.
    """
    if not isinstance(partitions_def, dg.TimeWindowPartitionsDefinition):
        raise DeclarationError(
            f"{table}: partitions_def is {type(partitions_def).__name__}",
            rule="an incremental table is partitioned by time",
            remedy='write partitions_def=dg.DailyPartitionsDefinition("2026-01-01") or another time window definition',
        )
    return partitions_def


def _expect(table: str, name: str, value: object, kind: type, example: str) -> None:
    if not isinstance(value, kind):
        raise DeclarationError(
            f"{table}: {name} is {value!r}", rule=f"it is a {kind.__name__}", remedy=f"write {name}={example}"
        )


def _check_retention(table: str, retention: object, changes: Changes, write: Write) -> None:
    _expect(table, "log_retention", retention, timedelta, "timedelta(days=90)")
    if isinstance(retention, timedelta) and retention < timedelta(0):
        raise DeclarationError(
            f"{table}: log_retention is {retention}",
            rule="it is a length of time: for so long after its end a window can still be replaced",
            remedy="write log_retention=timedelta(days=90)",
        )
    if not write.compacts:
        raise DeclarationError(
            f"{table}: log_retention is {retention}, and write is {write!r}",
            rule="this way of writing makes the table from all changes of a key, so that its log keeps them all",
            remedy="drop log_retention; Merge, Snapshot(delete_missing=True) and FullReload can do with the newest",
        )


_NOT_AS_TEXT: dict[str, tuple[type[T.DataType], ...]] = {
    "changes.sequence_by": (T.BinaryType,),
    "write.partition_by": (T.BinaryType, T.FloatType, T.DoubleType),
}
_UNORDERED = (T.MapType, T.ArrayType, T.StructType, T.VariantType)


def _check_columns(table: str, contract: Contract, changes: Changes, write: Write) -> None:
    types = {field.name: field.data_type for field in contract.fields}
    for column in (name for field in contract.schema.fields for name in (field.name, *_members(field.dataType))):
        if bad := sorted(set(column) & set(" ,;{}()\n\t=")):
            raise DeclarationError(
                f"{table}: {contract.model_name} has a column {column!r}, with {', '.join(map(repr, bad))} in its name",
                rule="Delta accepts none of ' ,;{}()=', tabs or line ends in column names",
                remedy="rename it in the contract, and fill it in the function from a field of the source",
            )
    partition = (write.partition_by,) if write.partition_by is not None else ()
    named = {"changes.keys": changes.keys, "changes.sequence_by": changes.sequence_by, "write.partition_by": partition}
    for place, columns in named.items():
        needed = {"changes.keys": write.keyed, "changes.sequence_by": write.ordered}.get(place, False)
        if not columns and needed:
            raise DeclarationError(
                f"{table}: {place} is empty",
                rule="a change needs a key and a sequence, or the newest of two cannot be told",
                remedy=f"name columns of the contract, for example {place.split('.')[1]}=[{next(iter(types))!r}]",
            )
        if len(set(columns)) < len(columns):
            raise DeclarationError(f"{table}: {place} names a column twice: {list(columns)}", remedy="name it once")
        for column in columns:
            if column not in types:
                raise DeclarationError(
                    f"{table}: {place} names {column!r}, which {contract.model_name} does not have",
                    rule=f"keys, sequence and partition are columns of the contract ({', '.join(types)})",
                    remedy=f"add {column!r} to {contract.model_name}, or name one of its columns",
                )
            if place != "changes.keys" and isinstance(types[column], _NOT_AS_TEXT[place]):
                raise DeclarationError(
                    f"{table}: {place} names {column!r} of type {types[column].simpleString()}",
                    rule="partition and sequence values are kept as text, too, which this type does not survive",
                    remedy="name a column of another type",
                )
            if isinstance(types[column], _UNORDERED):
                raise DeclarationError(
                    f"{table}: {place} names {column!r} of type {types[column].simpleString()}",
                    rule="keys, sequence and partition columns hold single values that can be compared",
                    remedy="name a column of a plain type",
                )
    if write.buckets is not None:
        _check_buckets(table, types, changes, write)
    if write.partition_by in changes.sequence_by:
        raise DeclarationError(
            f"{table}: {write.partition_by!r} is both write.partition_by and in changes.sequence_by",
            rule="the partition of a row never changes, its sequence does",
            remedy="partition by a column that is fixed when the row is created",
        )


def _check_buckets(table: str, types: Mapping[str, T.DataType], changes: Changes, write: Write) -> None:
    problem, remedy = f"{table}: write.buckets is {write.buckets!r}", "drop buckets"
    if not write.bucketed:
        way = type(write).__name__
        raise DeclarationError(f"{problem}, but {way} has none", rule="Merge and History have buckets", remedy=remedy)
    if write.partition_by is not None:
        raise DeclarationError(
            f"{problem} and write.partition_by is {write.partition_by!r}",
            rule="a table is divided by a column, or, if none tells where a key is, by a hash of its keys",
            remedy="drop one of them",
        )
    if isinstance(write.buckets, bool) or not isinstance(write.buckets, int) or not 2 <= write.buckets <= 1000:
        raise DeclarationError(
            problem,
            rule="it is a whole number from 2 to 1000, such that a bucket has some tens of megabytes",
            remedy="write buckets=64, or drop buckets",
        )
    if inexact := [name for name in changes.keys if isinstance(types[name], T.FloatType | T.DoubleType)]:
        raise DeclarationError(
            f"{problem}, and the key {inexact[0]!r} is of type {types[inexact[0]].simpleString()}",
            rule="equal keys have to have equal hashes, and 0.0 and -0.0 do not",
            remedy=f"{remedy}, or make the key a decimal",
        )


def _members(kind: T.DataType) -> Iterator[str]:
    """The names of all members of a type, at any depth."""
    if isinstance(kind, T.StructType):
        for field in kind.fields:
            yield field.name
            yield from _members(field.dataType)
    elif isinstance(kind, T.ArrayType):
        yield from _members(kind.elementType)
    elif isinstance(kind, T.MapType):
        yield from _members(kind.keyType)
        yield from _members(kind.valueType)


def _check_quarantine(table: str, quarantine: Quarantine) -> None:
    share, rows = quarantine.max_share, quarantine.max_rows
    if not (isinstance(share, int | float) and math.isfinite(share) and 0 <= share <= 1):
        raise DeclarationError(
            f"{table}: quarantine.max_share is {share!r}",
            rule="it is a share of the rows read, from 0 to 1",
            remedy="write Quarantine(max_share=0.05) for 5 %",
        )
    if rows is not None and (not isinstance(rows, int) or rows < 0):
        raise DeclarationError(
            f"{table}: quarantine.max_rows is {rows!r}", rule="it is a number of rows, 0 or more, or None"
        )


def _code_version(function: RowFunction, contract: Contract, changes: Changes, write: Write, source: Source) -> str:
    """A hash of what decides how a source row becomes a table row, so that changed code is judged anew."""
    try:
        code = inspect.getsource(function)
    except OSError:  # defined in an interpreter: no file to read
        code = function.__code__.co_code.hex()
    parts = (code, contract.fields, contract.unique, changes, write, source)
    return hashlib.blake2b("\n".join(map(repr, parts)).encode(), digest_size=6).hexdigest()
