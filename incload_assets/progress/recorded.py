"""Dagster's records of tables: the last materialization, the status of partitions, the last result of ``rollback``.

What is found out about a table needs them several times, and each question to Dagster's storage is five of its own. So
they are asked for once, and of many tables with one question.
"""

from collections.abc import Callable, Iterable
from threading import Lock
from time import monotonic
from typing import Any

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.platform.dagster_private import LoadingContext, asset_records
from incload_assets.progress.verdicts import Verdict, last_verdicts

ROLLBACK = "rollback"
"""The name of the check that a table has not lost what was loaded."""


GROUP, OLD = 50, 10.0
"""Number of tables that are asked about together, and for how many seconds the answer counts as one of now."""


class Recorded(LoadingContext):
    """The records of tables, as they were when they were asked for."""

    def __init__(self, instance: dg.DagsterInstance, tables: Iterable[Table]) -> None:
        self._instance, self._loaders = instance, dict[Any, Any]()
        keys = [table.key for table in tables]
        self._records = asset_records(self, keys)
        self._verdicts = last_verdicts(instance, [dg.AssetCheckKey(key, ROLLBACK) for key in keys])

    @property
    def instance(self) -> dg.DagsterInstance:
        """The instance that was asked."""
        return self._instance

    @property
    def loaders(self) -> dict[Any, Any]:
        """The answers that Dagster remembers."""
        return self._loaders

    def last_materialization(self, table: Table) -> dg.EventLogRecord | None:
        """The newest materialization of a table; None if it has none."""
        record = self._records.get(table.key)
        return None if record is None else record.asset_entry.last_materialization_record

    def rollback(self, table: Table) -> Verdict | None:
        """The last result of the check ``rollback`` of a table."""
        return self._verdicts.get(dg.AssetCheckKey(table.key, ROLLBACK))


def in_groups(instance: dg.DagsterInstance, tables: Iterable[Table]) -> Callable[[Table], Recorded]:
    """The records of each of many tables, asked for when the first table of its group is looked at.

    A table that comes more than :data:`OLD` seconds after the first one, for example as its source answered late, is
    asked about by itself.
    """
    chosen, lock = list(tables), Lock()
    group_of = {table.key: number // GROUP for number, table in enumerate(chosen)}
    asked: dict[int, tuple[float, Recorded]] = {}

    def recorded(table: Table) -> Recorded:
        group = group_of[table.key]
        with lock:
            if group not in asked:
                asked[group] = monotonic(), Recorded(instance, chosen[group * GROUP : (group + 1) * GROUP])
            began, records = asked[group]
        return records if monotonic() - began < OLD else Recorded(instance, [table])

    return recorded
