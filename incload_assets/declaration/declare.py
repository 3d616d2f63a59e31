"""From what an author declares to a checked table."""

import hashlib
import inspect
from datetime import timedelta

import dagster as dg

from incload_assets.contract.contract import Contract, compile_contract
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.conditions import check_conditions
from incload_assets.declaration.declared import Declared
from incload_assets.declaration.field_types import check_arguments, check_types
from incload_assets.declaration.own_fields import check_own_fields
from incload_assets.declaration.rules import (
    check_columns,
    check_retention,
    expect,
)
from incload_assets.declaration.source import Source
from incload_assets.declaration.table import INTERVAL, Freshness, Quarantine, RowFunction, Table
from incload_assets.declaration.window_rules import sampled_windows, time_windows
from incload_assets.declaration.write import Write


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
    table_name = key.to_user_string()
    partitions_def = time_windows(table_name, partitions_def)
    expect(table_name, "source", source, Source, 'Files("{landing}/orders/{window:%Y-%m-%d}/*.json")')
    expect(table_name, "changes", changes, Changes, 'Changes(keys=["order_id"], sequence_by=["updated_at"])')
    expect(table_name, "write", write, Write, "Merge() or Merge(partition_by=...)")
    expect(table_name, "quarantine", quarantine, Quarantine, "Quarantine(max_share=0.05)")
    check_types(table_name, "changes.", changes)
    check_types(table_name, "write.", write)
    check_types(table_name, "quarantine.", quarantine)
    if freshness is not None:
        expect(table_name, "freshness", freshness, Freshness, "Freshness(within=timedelta(hours=6))")
        check_types(table_name, "freshness.", freshness)
    check_arguments(table_name, interval=interval, log_retention=log_retention)
    if log_retention is not None:
        check_retention(table_name, log_retention, write)
    compiled = compile_contract(contract, table_name)
    source.validate(table_name)
    source.validate_windows(table_name, sampled_windows(table_name, partitions_def))
    source = source.for_contract(compiled)
    source = source.for_changes(changes.unavailable, moves=changes.moved_when is not None)
    check_columns(table_name, compiled, changes, write)
    write.validate(table_name, compiled, changes, source)
    write.validate_windows(table_name, compiled, partitions_def)
    control_fields = check_conditions(table_name, compiled, changes, write, source)
    check_own_fields(table_name, compiled, source.own_fields, changes.sequence_by, control_fields)
    source.validate_changes(
        Declared(
            table_name=table_name,
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
    """A hash of what decides how a source row becomes a table row, so that changed code is validated anew."""
    try:
        code = inspect.getsource(function)
    except OSError:  # defined in an interpreter: no file to read
        code = function.__code__.co_code.hex()
    parts = (code, contract.fields, contract.unique, changes, write, source)
    return hashlib.blake2b("\n".join(map(repr, parts)).encode(), digest_size=6).hexdigest()
