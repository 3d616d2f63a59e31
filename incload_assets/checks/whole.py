"""The checks that read all of a table, or of its log, and so go with a load at times only."""

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
    """The names of those that a table has: where nothing has to be unique, nothing is looked for twice."""
    there = {uniqueness.NAME: uniqueness.rules(table), conflicts.NAME: conflicts.can_conflict(table)}
    return [name for name in WHOLE if there[name]]


def check_names(table: Table) -> list[str]:
    """The names of all checks that a table has."""
    return [*cheap_checks(table), *whole_checks(table), reconciliation.NAME]
