"""What a table's author declares."""

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

import dagster as dg
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.loading.conditions import check_conditions
from incload_assets.loading.contract import Contract, compile_contract
from incload_assets.loading.declaration_rules import (
    check_columns,
    check_freshness,
    check_interval,
    check_quarantine,
    check_retention,
    expect,
)
from incload_assets.loading.declared_types import as_columns, check_types
from incload_assets.loading.sources.base import Source
from incload_assets.loading.sources.declared import Declared
from incload_assets.loading.sources.own_fields import check_own_fields
from incload_assets.loading.window_rules import sampled_windows, time_windows
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
            that marks a change as a delete, by what the change says and not by when it is asked. NULL counts as false.
            None: the source never deletes.
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
            object.__setattr__(self, name, as_columns(getattr(self, name)))

    @property
    def empties(self) -> bool:
        """Whether a row of the log can delete everything that is older than it."""
        return self.truncate_when is not None or self.snapshot_when is not None


INTERVAL = timedelta(seconds=15)
"""How often a source is looked at, unless its table says so."""


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
    expect(table, "source", source, Source, 'Files("{landing}/orders/{window:%Y-%m-%d}/*.json")')
    expect(table, "changes", changes, Changes, 'Changes(keys=["order_id"], sequence_by=["updated_at"])')
    expect(table, "write", write, Write, "Merge() or Merge(partition_by=...)")
    expect(table, "quarantine", quarantine, Quarantine, "Quarantine(max_share=0.05)")
    check_types(table, "changes.", changes)
    check_types(table, "write.", write)
    check_types(table, "quarantine.", quarantine)
    if freshness is not None:
        expect(table, "freshness", freshness, Freshness, "Freshness(within=timedelta(hours=6))")
        check_types(table, "freshness.", freshness)
        check_freshness(table, freshness)
    expect(table, "interval", interval, timedelta, "timedelta(minutes=5)")
    check_interval(table, interval)
    if log_retention is not None:
        expect(table, "log_retention", log_retention, timedelta, "timedelta(days=90)")
        check_retention(table, log_retention, write)
    compiled = compile_contract(contract, table)
    source.validate(table)
    source.validate_windows(table, sampled_windows(table, partitions_def))
    source = source.for_contract(compiled)
    source = source.for_changes(changes.unavailable, moves=changes.moved_when is not None)
    check_columns(table, compiled, changes, write)
    write.validate(table, compiled, changes, source)
    write.validate_windows(table, compiled, partitions_def)
    check_quarantine(table, quarantine)
    control_fields = check_conditions(table, compiled, changes, write, source)
    check_own_fields(table, compiled, source.own_fields, changes.sequence_by, control_fields)
    source.validate_changes(
        Declared(
            table=table,
            contract=compiled,
            keys=changes.keys,
            sequence_by=changes.sequence_by,
            delete_when=changes.delete_when,
            unavailable=changes.unavailable,
            asked=control_fields,
            way=type(write).__name__,
            row_by_row=write.keyed and write.deletes,
            supersedes=write.supersedes,
        )
    )
    source = source.asked_for(control_fields)
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


def _code_version(function: RowFunction, contract: Contract, changes: Changes, write: Write, source: Source) -> str:
    """A hash of what decides how a source row becomes a table row, so that changed code is judged anew."""
    try:
        code = inspect.getsource(function)
    except OSError:  # defined in an interpreter: no file to read
        code = function.__code__.co_code.hex()
    parts = (code, contract.fields, contract.unique, changes, write, source)
    return hashlib.blake2b("\n".join(map(repr, parts)).encode(), digest_size=6).hexdigest()
