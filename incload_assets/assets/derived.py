"""Tables derived from other incremental tables: aggregates, joins, folds of event logs."""

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
from incload_assets.platform.errors import DeclarationError
from incload_assets.sources.upstream.state import UpstreamTable
from incload_assets.sources.upstream.tables import DerivedFunction, Tables


@dataclass(frozen=True)
class Upstream:
    """A table upstream of a derived table.

    Args:
        table: An incremental asset, derived or not.
        partition: The column of type date or timestamp that partitions the table: a window gets the rows whose value is
            in the window, and depends on changes of these rows only. None: every window gets the whole table, and any
            change of it causes a load of all windows (windows whose rows stay the same write nothing).
        on: For a table without ``partition``: the only column by which the function looks up its rows, with the same
            name in the partitioned tables. A change of the table then causes a load only of windows whose rows refer to
            a changed key.
        groups: The columns that hold the derived table's ``groups``, in its order; None: columns of the same names.

    Example:
        >>> Upstream(orders, partition="order_date")  # doctest: +SKIP
        >>> Upstream(customers, on="customer_id")  # doctest: +SKIP
    """

    table: dg.AssetsDefinition
    partition: str | None = None
    on: str | None = None
    groups: Sequence[str] | None = None


def upstream_tables(
    key: dg.AssetKey,
    of: Mapping[str, Upstream],
    function: DerivedFunction,
    partitions_def: dg.TimeWindowPartitionsDefinition,
    groups: Sequence[str] = (),
) -> tuple[UpstreamTable, ...]:
    """The upstream tables of a derived table, checked against its function and partitions."""
    table_name = key.to_user_string()
    if not isinstance(of, Mapping) or not all(isinstance(given, Upstream) for given in of.values()):
        raise DeclarationError(
            f"{table_name}: of is {of!r}",
            rule="of names each upstream table, and declares how its rows are found",
            remedy='write of={"orders": Upstream(orders, partition="order_date")}',
        )
    for name, given in of.items():
        for field in ("partition", "on"):
            check_type(table_name, f"of[{name!r}].{field}", getattr(given, field), str | None)
        check_type(table_name, f"of[{name!r}].groups", given.groups, Sequence[str] | None)
    _check_arguments(table_name, of, function)
    found = tuple(_upstream(table_name, key, name, given, partitions_def, groups) for name, given in of.items())
    _check_together(table_name, found)
    _check_references(table_name, of)
    return found


def _check_arguments(table_name: str, of: Mapping[str, Upstream], function: DerivedFunction) -> None:
    arguments = list(inspect.signature(function).parameters)
    if sorted(arguments) != sorted(of):
        raise DeclarationError(
            f"{table_name}: its function takes ({', '.join(arguments)}), and of names {', '.join(of) or 'no tables'}",
            rule="each upstream table is an argument of the function, by name",
            remedy=f"write def {function.__name__}({', '.join(of)})" if of else "name a table in of",
        )


def _upstream(
    table_name: str,
    key: dg.AssetKey,
    name: str,
    given: Upstream,
    partitions_def: dg.TimeWindowPartitionsDefinition,
    groups: Sequence[str],
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
            rule="a table cannot be derived from itself",
            remedy="name another table",
        )
    if given.partition is None and given.groups is not None:
        raise DeclarationError(
            f"{where}.groups is {list(given.groups)!r}, and it has no partition",
            rule="groups are told by the rows of tables with a partition; other tables are only looked up",
            remedy="drop it",
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
            rule="a row's window is determined by a date or a timestamp",
            remedy="partition the upstream table by a column of one of these types",
        )
    if isinstance(kind, T.DateType):
        check_whole_days(table_name, f"of[{name!r}].partition", column, partitions_def)
    its = groups if given.groups is None else given.groups
    kinds = tuple((of, declared.type_of(of) if of in declared.columns else None) for of in its)
    return UpstreamTable(name=name, path=tuple(declared.key.path), partition=column, kind=kind, groups=kinds)


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
            rule="at least one upstream table is partitioned by time, so that windows have rows of their own",
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
                rule="rows of a table that is partitioned by time are found by window, and not looked up by a key",
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
                    remedy="name a column of a plain type, or drop on, so that every change loads all windows",
                )
            if kind is None or kind != kinds[name]:
                has = f"has it as {kind.simpleString()}" if kind else "does not have it"
                raise DeclarationError(
                    f"{table_name}: of[{name!r}].on is {given.on!r}, and {tables[other].name} {has}",
                    rule="rows refer to others by a column of the same name and type in all tables",
                    remedy="name such a column, or drop on, so that every change loads all windows",
                )


def derived_asset(
    *,
    partitions_def: dg.PartitionsDefinition,
    of: Mapping[str, Upstream],
    contract: type,
    write: Write,
    keys: Sequence[str] = (),
    sequence_by: Sequence[str] = (),
    groups: Sequence[str] = (),
    absent: Absent = "wait",
    name: str | None = None,
    key_prefix: str | Sequence[str] | None = None,
    deps: Iterable[Any] = (),
    **options: Any,
) -> Callable[[DerivedFunction], dg.AssetsDefinition]:
    """Declares a table derived from other tables; decorates the function that makes a window's rows.

    A derived table is an incremental asset: its source for a window are the rows of the upstream tables for that
    window. If they change for any reason (late rows, deletes, a rollback, an erasure), the sensor requests the
    affected windows, and these are computed again and replaced.

    Args:
        partitions_def: Time windows; a window may span several partitions upstream.
        of: The upstream tables, by the names of the function's arguments. At least one is partitioned by time.
        contract: As for ``incremental_asset``; validates the function's rows.
        write: ``Overwrite(partition_by=...)`` if each window has rows of its own (sales per day);
            :class:`~incload_assets.writes.fold.Fold` if all windows together make a row (stock per product);
            ``History(known=True)`` with ``sequence_by`` if it counts what was known of a window when (features).
        keys: Columns that identify a row.
        sequence_by: Columns that order changes, for write strategies that distinguish newer from older ones.
        groups: Columns whose values make a group, if the rows of a group are computed from upstream rows of this group
            alone, as by ``groupBy``. If few files of a large window have changed, only the groups with changed rows
            are computed again. Each partitioned table has these columns, or names its own by ``Upstream(groups=…)``.
        absent: Whether a window without upstream rows waits, or is an empty window.
        name: Name of the asset; default: the function's.
        key_prefix: As in ``dagster.asset``.
        deps: Further upstream assets.
        options: All other arguments of ``incremental_asset``.

    The function receives one frame for each table, with its rows for the window, and returns the contract's columns. It
    may filter, join and aggregate. It has to be deterministic (use decimals for sums, because the last digit of a sum
    of doubles depends on the order), and depends only on its arguments.

    Raises:
        DeclarationError: When the module is imported; with table, field, value, rule and remedy.

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
        check_type(table_name, "groups", groups, Sequence[str])
        upstream = upstream_tables(key, of, function, windows, groups)

        with as_in_dagster(table_name):
            above = [*(given.table for given in of.values()), *as_columns(deps)]

        @wraps(function)  # the code version is that of the author's function; rows of the source are passed through
        def as_they_are(changes: DataFrame) -> DataFrame:
            return changes

        return incremental_asset(
            partitions_def=windows,
            source=Tables(
                of=upstream, function=function, timezone=windows.timezone, groups=tuple(groups), absent=absent
            ),
            contract=contract,
            changes=Changes(keys=keys, sequence_by=sequence_by),
            write=write,
            name=name,
            key_prefix=key_prefix,
            deps=above,
            **options,
        )(as_they_are)

    return decorate
