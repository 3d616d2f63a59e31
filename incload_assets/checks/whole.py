"""The checks that read the whole table or its whole log, and therefore do not run with every load."""

from collections.abc import Callable

import dagster as dg
from pyspark.sql import SparkSession

from incload_assets.checks import conflicts, reconciliation, uniqueness
from incload_assets.checks.registry import cheap_checks
from incload_assets.declaration.table import Table
from resources.lake import Lake

WHOLE: dict[str, tuple[str, Callable[[SparkSession, Table, Lake], dg.AssetCheckResult]]] = {
    uniqueness.NAME: (uniqueness.DESCRIPTION, uniqueness.uniqueness),
    conflicts.NAME: (conflicts.DESCRIPTION, conflicts.conflicts),
}
"""The checks of the whole table, by name."""


def whole_checks(table: Table) -> list[str]:
    """The names of the checks of the whole table that apply to a table."""
    there = {uniqueness.NAME: uniqueness.rules(table), conflicts.NAME: conflicts.can_conflict(table)}
    return [name for name in WHOLE if there[name]]


def check_names(table: Table) -> list[str]:
    """The names of all checks that apply to a table."""
    return [*cheap_checks(table), *whole_checks(table), reconciliation.NAME]
