"""The two kinds of checks beside the reconciliation: light checks need no Spark, table checks read a whole table."""

from collections.abc import Callable
from dataclasses import dataclass

import dagster as dg
from pyspark.sql import SparkSession

from incload_assets.checks.observation import Observation
from incload_assets.declaration.table import Table
from incload_assets.progress.verdicts import as_seen
from resources.lake import Lake


def _always(_: Table) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class LightCheck:
    """A check that reads only source, log and Dagster, and is cheap enough to run with every load.

    Args:
        name: Of the check.
        description: For people.
        evaluate: Returns the result for an observation of the table.
        applies_to: Whether a table has the check; one that does not apply would always be green.
    """

    name: str
    description: str
    evaluate: Callable[[Observation], dg.AssetCheckResult]
    applies_to: Callable[[Table], bool] = _always

    def result(self, seen: Observation) -> dg.AssetCheckResult:
        """The result for an observation, marked with the time of the observation."""
        return as_seen(self.evaluate(seen), seen.now)


@dataclass(frozen=True, kw_only=True)
class TableCheck:
    """A check that reads all of a table, or of its log, and runs with a load at times only.

    Args:
        name: Of the check.
        description: For people.
        evaluate: Returns the result.
        applies_to: Whether a table has the check.
    """

    name: str
    description: str
    evaluate: Callable[[SparkSession, Table, Lake], dg.AssetCheckResult]
    applies_to: Callable[[Table], bool] = _always
