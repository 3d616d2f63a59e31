"""Tables derived from our own tables: aggregates, joins, folds of event logs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame

from incload_assets.loading.asset import incremental_asset
from incload_assets.loading.changes import Changes
from incload_assets.loading.declaration_rules import key_of
from incload_assets.loading.declared_types import as_columns, as_in_dagster
from incload_assets.loading.sources.base import Absent
from incload_assets.loading.sources.tables import DerivedFunction, Tables
from incload_assets.loading.upstream import Upstream, upstream_tables
from incload_assets.loading.window_rules import time_windows
from incload_assets.loading.writes.base import Write


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
        table = key.to_user_string()
        windows = time_windows(table, partitions_def)
        upstream = upstream_tables(key, of, function, windows)

        with as_in_dagster(table):
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
