"""The two kinds of checks beside the reconciliation: light checks need no Spark, table checks read a whole table."""

from collections.abc import Callable
from dataclasses import dataclass

import dagster as dg
from pyspark.sql import SparkSession

from incload_assets.checks.observation import Observation
from incload_assets.declaration.table import Table, every_table
from incload_assets.platform.lake import Lake
from incload_assets.progress.verdicts import as_seen


def with_runbook(description: str, runbook: str) -> str:
    """A description that ends with a pointer to a section of the runbooks, if there is one.

    Example:
        >>> with_runbook("No row is dated in the future.", "clock-skew")
        'No row is dated in the future. Runbook: `incload docs runbooks clock-skew`.'
    """
    return f"{description} Runbook: `incload docs runbooks {runbook}`." if runbook else description


@dataclass(frozen=True, kw_only=True)
class _Check:
    """The declaration that both kinds share.

    Args:
        name: Of the check.
        description: For people.
        runbook: Anchor of the section of the runbooks for a bad result; empty: there is none.
        applies_to: Whether a table has the check; one that does not apply would always be green.
    """

    name: str
    description: str
    runbook: str = ""
    applies_to: Callable[[Table], bool] = every_table

    @property
    def shown(self) -> str:
        """The description with a pointer to the runbook."""
        return with_runbook(self.description, self.runbook)


@dataclass(frozen=True, kw_only=True)
class LightCheck(_Check):
    """A check that reads only source, log and Dagster, and is cheap enough to run with every load.

    Args:
        evaluate: Returns the result for an observation of the table.
    """

    evaluate: Callable[[Observation], dg.AssetCheckResult]

    def result(self, seen: Observation) -> dg.AssetCheckResult:
        """The result for an observation, marked with the time of the observation."""
        return as_seen(self.evaluate(seen), seen.now)


@dataclass(frozen=True, kw_only=True)
class TableCheck(_Check):
    """A check that reads all of a table, or of its log, and runs with a load at times only.

    Args:
        evaluate: Returns the result.
    """

    evaluate: Callable[[SparkSession, Table, Lake], dg.AssetCheckResult]
