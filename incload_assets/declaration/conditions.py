"""Checks of the conditions that classify changes, and the source fields that the conditions need."""

from sqlglot import exp

from incload_assets.contract.contract import Contract
from incload_assets.declaration.changes import CODED, Changes
from incload_assets.declaration.operations import KINDS
from incload_assets.declaration.own_fields import check_own_values
from incload_assets.declaration.source import Source
from incload_assets.declaration.sql_conditions import columns_in, condition_of_a_row
from incload_assets.declaration.write import Write
from incload_assets.platform.errors import DeclarationError

CONDITIONS = ("delete_when", "truncate_when", "snapshot_when", "moved_when", "skip_when")
"""The conditions of ``Changes``."""


def check_conditions(
    table_name: str, contract: Contract, changes: Changes, write: Write, source: Source
) -> tuple[str, ...]:
    """Checks deletes, truncates, extracts and unavailable values; returns the fields read outside the contract."""
    _check_operations(table_name, changes)
    strategy = type(write).__name__
    by_column = write.by_column(changes)
    supports = {"unavailable": by_column, "moved_when": by_column and write.moves, "delete_when": write.deletes}
    supports |= {"truncate_when": write.truncates, "snapshot_when": write.truncates}
    unsupported = [name for name, supported in supports.items() if not supported and getattr(changes, name) is not None]
    drop, whole = f"drop {', '.join(unsupported)}", source.whole_changes if write.deletes else ""
    fitting = whole if write.moves or not by_column else source.changes_of_fixed_keys
    if changes.moved_when is not None and by_column and not write.moves:
        raise DeclarationError(
            f"{table_name}: changes.moved_when is {changes.moved_when!r}, but {strategy} does not support rows that "
            "get a new key",
            rule="values that such a change leaves unset are in the old key's row, and a version is made of one key "
            "alone",
            remedy=" or ".join(filter(None, (fitting or drop, whole, "write Merge()"))),
        )
    if changes.unavailable is not None and not (changes.unavailable and by_column):
        raise DeclarationError(
            f"{table_name}: changes.unavailable is {changes.unavailable!r}"
            + (f", but {strategy} writes whole rows" if changes.unavailable else ""),
            rule="it is the text that stands for an unavailable value; the write strategy must be able to keep the "
            "old value",
            remedy=f"write Merge() or History(); or {whole or f'{drop}, if the source writes whole rows'}"
            if changes.unavailable
            else "drop unavailable, or name the text",
        )
    for field, what in (("truncate_when", "truncate"), ("snapshot_when", "full extract")):
        if (condition := getattr(changes, field)) is None:
            continue
        without, field = (fitting if field == "truncate_when" else ""), changes.declared_by(field)
        if not write.truncates:
            raise DeclarationError(
                f"{table_name}: changes.{field} is {condition!r}, but {strategy} does not support {what}s",
                rule=f"a {what} deletes older rows, which requires a table that is kept by key",
                remedy=f"{without or drop}, or write Merge()",
            )
        if write.partition_by is not None:
            raise DeclarationError(
                f"{table_name}: changes.{field} is {condition!r} and write.partition_by is {write.partition_by!r}",
                rule=f"a {what} concerns all partitions, but a load of a partitioned table writes only the partitions "
                "of its changes",
                remedy=f"{without or f'drop {field}'}; or drop partition_by, which makes it a state table",
            )
        if changes.sequence_by[0] in changes.keys:
            raise DeclarationError(
                f"{table_name}: changes.{field} is {condition!r}, but {changes.sequence_by[0]!r}, the first column of "
                "changes.sequence_by, is also in changes.keys",
                rule=f"a {what} deletes all rows that are older than its sequence, whatever their key",
                remedy=f"drop {field}, or order by a column that is not part of the key",
            )
    by = changes.declared_by("delete_when")
    if changes.delete_when is not None and not write.deletes:
        raise DeclarationError(
            f"{table_name}: changes.{by} is {changes.delete_when!r}, but {strategy} does not support deletes",
            rule="a change can delete a row only in a table that is kept by key",
            remedy=f"drop {by}, or write Merge() or History()",
        )
    if changes.moved_when is not None and (changes.unavailable is None or changes.delete_when is None):
        raise DeclarationError(
            f"{table_name}: changes.moved_when is {changes.moved_when!r}, without unavailable or without delete_when",
            rule="it marks upserts whose unavailable values come from the key that is deleted at the same sequence",
            remedy="declare both, or drop moved_when",
        )
    names: dict[str, str] = {}
    declared: dict[str, str] = {}
    shown, carrying = source.shown(changes.keys), "or use a source that carries deletes"
    if write.keyed and write.deletes and not shown.updates and changes.delete_when is None:
        raise DeclarationError(
            f"{table_name}: write is {strategy}(), but {type(source).__name__} shows no updates"
            + (f" of rows with the key {', '.join(changes.keys)}" if source.shows.updates else ""),
            rule="a table can only declare kinds of change that its source shows; this one replaces rows with updates",
            remedy="write Append() for rows that never change, or use a source that shows updates: a query by the time "
            "of the last change or by a number that each update raises, or change events",
        )
    coded = changes.operations.condition(*KINDS) if changes.operations else None
    for field, condition in (*((name, getattr(changes, name)) for name in CONDITIONS), ("operations", coded)):
        if condition is None:
            continue
        by = changes.declared_by(field)
        if (other := declared.setdefault(condition.strip(), field)) != field:
            raise DeclarationError(
                f"{table_name}: changes.{by} and changes.{other} are both {condition!r}",
                rule="each condition must mark a different kind of change",
                remedy=f"drop one of them, or write conditions that differ, for example {field}=\"op = 't'\"",
            )
        if field in ("delete_when", "truncate_when") and not shown.deletes:
            raise DeclarationError(
                f"{table_name}: changes.{by} is {condition!r}, but {type(source).__name__} shows no deletes"
                + (f" of rows with the key {', '.join(changes.keys)}" if source.shows.deletes else ""),
                rule="a table can only declare kinds of change that its source shows",
                remedy=f"drop {by}{'' if shown.updates else ' and write Append()'}, {carrying}",
            )
        for name in _names_in(table_name, contract, source, f"changes.{by}", condition):
            if (other := names.setdefault(name.lower(), name)) != name:
                raise DeclarationError(
                    f"{table_name}: conditions of changes name {other!r} and {name!r}",
                    rule="Spark does not distinguish names that differ only in case",
                    remedy="spell both the same way",
                )
    return tuple(name for name in names.values() if name not in contract.names)


def _check_operations(table_name: str, changes: Changes) -> None:
    if changes.operations is None:
        return
    changes.operations.validate(table_name)
    for name, kind in CODED.items():
        if getattr(changes, name) != (coded := changes.operations.condition(kind)):
            raise DeclarationError(
                f"{table_name}: changes.{name} is {getattr(changes, name)!r}, and changes.operations is declared, too",
                rule="operation codes say of every record what it does",
                remedy=f"drop {name}, {'which is in operations' if coded else f'or name the codes as {kind}='}",
            )


def _names_in(table_name: str, contract: Contract, source: Source, place: str, condition: str) -> list[str]:
    example = f"write for example {place.split('.')[1]}=\"op = 'd'\""
    parsed = condition_of_a_row(table_name, place, condition, "it is a SQL condition on the source's columns", example)
    check_own_values(table_name, place, parsed, source.own_fields)
    columns = columns_in(table_name, contract, place, condition, parsed, example)
    _check_dashes(table_name, contract, place, condition, parsed)
    names = list(dict.fromkeys(column.parts[0].name for column in columns))
    if not names:
        raise DeclarationError(
            f"{table_name}: {place} is {condition!r}, which names no column",
            rule="it decides for each change what kind it is",
            remedy=example,
        )
    spelled = {name.lower(): name for name in contract.names}
    for name in names:
        if spelled.get(name.lower(), name) != name:
            raise DeclarationError(
                f"{table_name}: {place} names {name!r}, {contract.model_name} has {spelled[name.lower()]!r}",
                rule="Spark does not distinguish names that differ only in case",
                remedy="spell both the same way, or rename the column of the contract",
            )
    return names


def _check_dashes(table_name: str, contract: Contract, place: str, condition: str, parsed: exp.Expr) -> None:
    """Refuses a difference of two columns outside the contract: they are strings, so it is a name with a dash."""
    for dash in parsed.find_all(exp.Sub):
        if all(isinstance(side, exp.Column) and side.name not in contract.names for side in (dash.left, dash.right)):
            name = f"{dash.left.name}-{dash.right.name}"
            raise DeclarationError(
                f"{table_name}: {place} is {condition!r}, with {name!r} as the difference of two columns that "
                f"{contract.model_name} does not have",
                rule="a column that the contract does not have is a string",
                remedy=f"write `{name}` for the column of that name, or declare both columns as numbers",
            )
