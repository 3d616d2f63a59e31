"""Tables derived from our own tables: aggregates, joins, folds of event logs."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import dagster as dg
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.assets.incremental import incremental_asset, table_of
from incload_assets.contract.conversion import NESTED
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.field_types import as_columns, as_in_dagster, check_type
from incload_assets.declaration.rules import key_of
from incload_assets.declaration.source import Absent
from incload_assets.declaration.window_rules import check_whole_days, time_windows
from incload_assets.declaration.write import Write
from incload_assets.sources.upstream.state import UpstreamTable
from incload_assets.sources.upstream.tables import DerivedFunction, Tables
from resources.errors import DeclarationError


@dataclass(frozen=True)
class Upstream:
    """A table to derive from.

    Args:
        table: An incremental asset, derived ones included.
        partition: The column of type date or timestamp by which it is partitioned: a window gets the rows whose value
            lies in it, and follows their changes alone. None: every window gets the whole table, and any change of it
            asks for all windows again (those whose rows come out the same write nothing).
        on: For a table without ``partition``: the column, of the same name there and in the partitioned tables, by
            which alone the function looks its rows up. A change of it then asks only for the windows whose rows refer
            to a key that has changed.

    Example:
        >>> Upstream(orders, partition="order_date")  # doctest: +SKIP
        >>> Upstream(customers, on="customer_id")  # doctest: +SKIP
    """

    table: dg.AssetsDefinition
    partition: str | None = None
    on: str | None = None


def upstream_tables(
    key: dg.AssetKey,
    of: Mapping[str, Upstream],
    function: DerivedFunction,
    partitions_def: dg.TimeWindowPartitionsDefinition,
) -> tuple[UpstreamTable, ...]:
    """Check what a table is made of.

    Args:
        key: Of the table.
        of: As declared.
        function: Takes their rows.
        partitions_def: Of the table.

    Raises:
        DeclarationError: Naming the table, the field, the value, the rule and what to write instead.
    """
    table_name = key.to_user_string()
    if not isinstance(of, Mapping) or not all(isinstance(given, Upstream) for given in of.values()):
        raise DeclarationError(
            f"{table_name}: of is {of!r}",
            rule="it names each table upstream, and says how its rows are found",
            remedy='write of={"orders": Upstream(orders, partition="order_date")}',
        )
    for name, given in of.items():
        for field in ("partition", "on"):
            check_type(table_name, f"of[{name!r}].{field}", getattr(given, field), str | None)
    _check_arguments(table_name, of, function)
    found = tuple(_upstream(table_name, key, name, given, partitions_def) for name, given in of.items())
    _check_together(table_name, found)
    _check_references(table_name, of)
    return found


def _check_arguments(table_name: str, of: Mapping[str, Upstream], function: DerivedFunction) -> None:
    arguments = list(inspect.signature(function).parameters)
    if sorted(arguments) != sorted(of):
        raise DeclarationError(
            f"{table_name}: its function takes ({', '.join(arguments)}), and of names {', '.join(of) or 'no tables'}",
            rule="each table upstream is an argument of the function, by name",
            remedy=f"write def {function.__name__}({', '.join(of)})" if of else "name a table in of",
        )


def _upstream(
    table_name: str, key: dg.AssetKey, name: str, given: Upstream, partitions_def: dg.TimeWindowPartitionsDefinition
) -> UpstreamTable:
    where = f"{table_name}: of[{name!r}]"
    declared = table_of(given.table) if isinstance(given.table, dg.AssetsDefinition) else None
    if declared is None:
        raise DeclarationError(
            f"{where} is {given.table!r}",
            rule="a table is derived from incremental assets, whose Delta tables are in the lake",
            remedy="name a function decorated with incremental_asset or derived_asset",
        )
    if declared.key == key:
        raise DeclarationError(
            f"{where} is the table {table_name} itself",
            rule="no table is derived from itself",
            remedy="name another table",
        )
    if (column := given.partition) is None:
        return UpstreamTable(name=name, path=tuple(declared.key.path), on=given.on)
    if column != declared.write.partition_by:
        by = declared.write.partition_by
        raise DeclarationError(
            f"{where}: partition is {column!r}, and {declared.name} is "
            + (f"partitioned by {by!r}" if by else "not partitioned by a column of its contract"),
            rule="the rows of a window are found by the column that partitions the table",
            remedy=f"write partition={by!r}" if by else "drop partition: every window gets the whole table",
        )
    kind = declared.type_of(column)
    if not isinstance(kind, T.DateType | T.TimestampType):
        raise DeclarationError(
            f"{where}: partition is {column!r} of type {kind.simpleString()}",
            rule="the window of a row is told by a date or a timestamp",
            remedy="partition the table upstream by a column of one of these types",
        )
    if isinstance(kind, T.DateType):
        check_whole_days(table_name, f"of[{name!r}].partition", column, partitions_def)
    return UpstreamTable(name=name, path=tuple(declared.key.path), partition=column, kind=kind)


def _check_together(table_name: str, of: Sequence[UpstreamTable]) -> None:
    names: dict[tuple[str, ...], str] = {}
    for upstream in of:
        if (other := names.setdefault(upstream.path, upstream.name)) != upstream.name:
            raise DeclarationError(
                f"{table_name}: of names {'/'.join(upstream.path)} twice, as {other!r} and as {upstream.name!r}",
                rule="a table is read once, at one version",
                remedy=f"use {other!r} twice in the function",
            )
    if all(upstream.partition is None for upstream in of):
        raise DeclarationError(
            f"{table_name}: none of {', '.join(upstream.name for upstream in of)} has a partition",
            rule="the rows of a window are those of some table upstream that is partitioned by time",
            remedy='write Upstream(orders, partition="order_date") for one of them',
        )


def _check_references(table_name: str, of: Mapping[str, Upstream]) -> None:
    tables = {name: declared for name, given in of.items() if (declared := table_of(given.table)) is not None}
    for name, given in of.items():
        if given.on is None:
            continue
        if given.partition is not None:
            raise DeclarationError(
                f"{table_name}: of[{name!r}] has partition {given.partition!r} and on {given.on!r}",
                rule="rows of a table that is partitioned by time belong to windows, and are not looked up",
                remedy="drop one of them",
            )
        partitioned = [other for other, that in of.items() if that.partition is not None]
        kinds = {
            other: tables[other].type_of(given.on) if given.on in tables[other].columns else None
            for other in (name, *partitioned)
        }
        for other, kind in kinds.items():
            if kind is not None and isinstance(kind, NESTED):
                raise DeclarationError(
                    f"{table_name}: of[{name!r}].on is {given.on!r} of type {kind.simpleString()}",
                    rule="rows refer to others by a single value",
                    remedy="name a column of a plain type, or drop on: every change asks for all windows then",
                )
            if kind is None or kind != kinds[name]:
                has = f"has it as {kind.simpleString()}" if kind else "does not have it"
                raise DeclarationError(
                    f"{table_name}: of[{name!r}].on is {given.on!r}, and {tables[other].name} {has}",
                    rule="rows refer to others by a column of one name and type in all the tables",
                    remedy="name such a column, or drop on: every change asks for all windows then",
                )


def derived_asset(
    *,
    partitions_def: dg.PartitionsDefinition,
    of: Mapping[str, Upstream],
    contract: type,
    write: Write,
    keys: Sequence[str] = (),
    sequence_by: Sequence[str] = (),
    absent: Absent = "wait",
    name: str | None = None,
    key_prefix: str | Sequence[str] | None = None,
    deps: Iterable[Any] = (),
    **options: Any,
) -> Callable[[DerivedFunction], dg.AssetsDefinition]:
    """Declare a table that is made of others; decorates the function that makes a window's rows.

    It is an incremental asset: what its source holds for a window are the rows that the tables upstream hold for it.
    When they change, by whatever (late rows, deletes, a rollback, an erasure), its sensor asks for the windows
    concerned, and those are made anew and replaced.

    Args:
        partitions_def: Time windows; one may span several partitions upstream.
        of: The tables upstream, by the names of the function's arguments. At least one is partitioned by time.
        contract: As for ``incremental_asset``; judges the function's rows.
        write: ``Overwrite(partition_by=...)`` where each window makes rows of its own (sales per day);
            ``Fold(...)`` where all windows together make a row (stock per product), see there.
        keys: Columns that identify a row.
        sequence_by: For ways of writing that tell newer from older.
        absent: Whether a window for which upstream holds nothing waits, or is an empty window.
        name: Of the asset; default the function's.
        key_prefix: As in ``dagster.asset``.
        deps: Assets upstream, beside the tables.
        options: The others as for ``incremental_asset``.

    The function receives one frame for each table, its rows for the window, and returns the contract's columns. It may
    filter, join and aggregate; it is deterministic (so sums of doubles, whose last digit depends on the order, are
    better made of decimals), and depends on nothing but its arguments.

    Raises:
        DeclarationError: When the module is imported, naming table, field, value, rule and remedy.

    Example:
        >>> @derived_asset(
        ...     partitions_def=dg.DailyPartitionsDefinition("2026-01-01"),
        ...     of={
        ...         "orders": Upstream(orders, partition="order_date"),
        ...         "customers": Upstream(customers, on="customer_id"),
        ...     },
        ...     contract=DailySales,
        ...     write=Overwrite(partition_by="order_date"),
        ...     keys=["order_date", "country"],
        ... )
        ... def daily_sales(orders, customers):
        ...     sold = orders.join(customers, "customer_id")
        ...     return sold.groupBy("order_date", "country").agg(F.sum("amount").alias("amount"))
    """

    def decorate(function: DerivedFunction) -> dg.AssetsDefinition:
        key = key_of(name, key_prefix, function)
        table_name = key.to_user_string()
        windows = time_windows(table_name, partitions_def)
        upstream = upstream_tables(key, of, function, windows)

        with as_in_dagster(table_name):
            above = [*(given.table for given in of.values()), *as_columns(deps)]

        @wraps(function)  # its code is the table's: the rows come out of the source as they are
        def as_they_are(changes: DataFrame) -> DataFrame:
            return changes

        return incremental_asset(
            partitions_def=windows,
            source=Tables(of=upstream, function=function, timezone=windows.timezone, absent=absent),
            contract=contract,
            changes=Changes(keys=keys, sequence_by=sequence_by),
            write=write,
            name=name,
            key_prefix=key_prefix,
            deps=above,
            **options,
        )(as_they_are)

    return decorate
