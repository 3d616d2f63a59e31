"""Checks a declaration and compiles it to a table."""

import hashlib
import inspect
import logging
from collections.abc import Collection
from dataclasses import replace

from incload_assets.contract.contract import Contract, compile_contract
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.conditions import check_conditions
from incload_assets.declaration.declared import Declared
from incload_assets.declaration.eras import check_eras
from incload_assets.declaration.field_types import check_type, check_types
from incload_assets.declaration.own_fields import check_own_fields
from incload_assets.declaration.rules import check_columns, check_retention
from incload_assets.declaration.source import Source
from incload_assets.declaration.subject import check_subject, refuse_encrypted
from incload_assets.declaration.table import Declaration, RowFunction, Table
from incload_assets.declaration.window_rules import sampled_windows, time_windows, too_many_windows
from incload_assets.declaration.write import Write
from incload_assets.platform.settings import current_settings


def declare(declaration: Declaration) -> Table:
    """The table of a declaration; a DeclarationError names table, field, value, rule and what to write instead."""
    table_name, source = declaration.name, declaration.source
    changes, write = declaration.changes, declaration.write
    check_type(table_name, "write", write, Write)
    partitions_def = time_windows(table_name, declaration.partitions_def)
    if (advice := too_many_windows(partitions_def)) is not None:
        logging.getLogger("incload").warning("%s: %s", table_name, advice)
    check_eras(table_name, declaration.former_partitions, partitions_def, source, whole=write.supersedes)
    check_types(table_name, "", declaration)
    for name in ("changes", "write", "quarantine", "freshness", "slo", "evolution", "subject"):
        if (part := getattr(declaration, name)) is not None:
            check_types(table_name, f"{name}.", part)
    if declaration.log_retention is not None:
        check_retention(table_name, declaration.log_retention, write)
    compiled = compile_contract(declaration.contract, table_name)
    declaration.evolution.validate(table_name, compiled)
    source.validate(table_name)
    source.validate_windows(table_name, sampled_windows(table_name, partitions_def))
    source = source.for_contract(compiled)
    source = source.for_changes(changes.unavailable, moves=changes.moved_when is not None)
    check_columns(table_name, compiled, changes, write)
    if declaration.subject is not None:
        check_subject(table_name, compiled, declaration.subject, declaration.write.partition_by)
    else:
        refuse_encrypted(table_name, compiled)
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
    source = source.asked_for([name for name in control_fields if not _may_lack(changes, name)])
    code_version = declaration.code_version or _code_version(declaration.function, compiled, changes, write, source)
    compiled_parts = {
        "partitions_def": partitions_def,
        "source": source,
        "contract": compiled,
        "evolution": declaration.evolution.settled(current_settings().evolution),
    }
    return Table(
        **vars(declaration) | compiled_parts | {"code_version": code_version, "control_fields": control_fields}
    )


def _may_lack(changes: Changes, name: str) -> bool:
    """True if records without a field are declared: its operation codes have None among them."""
    operations = changes.operations
    return operations is not None and name == operations.column and None in operations.codes


def version_without(table: Table, columns: Collection[str]) -> str:
    """The version that a table's code had before some columns were declared, if nothing else has changed."""
    contract = replace(
        table.contract, fields=tuple(field for field in table.contract.fields if field.name not in columns)
    )
    return _code_version(table.function, contract, table.changes, table.write, table.source)


def _code_version(function: RowFunction, contract: Contract, changes: Changes, write: Write, source: Source) -> str:
    """A hash of what decides how a source row becomes a table row, so that changed code is validated again."""
    try:
        code = inspect.getsource(function)
    except OSError:  # defined in an interpreter: no file to read
        code = function.__code__.co_code.hex()
    parts: tuple[object, ...] = (code, contract.fields, contract.unique, changes, write, source)
    # only if declared: a part that all tables had would give each another version
    later = (contract.protections, changes.skip_when, changes.operations, *write.later_arguments)
    parts += tuple(part for part in later if part)
    return hashlib.blake2b("\n".join(map(repr, parts)).encode(), digest_size=6).hexdigest()
