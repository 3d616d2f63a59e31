"""The two kinds of checks beside the reconciliation: light checks need no Spark, table checks read a whole table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from pyspark.sql import SparkSession

from incload_assets.checks.observation import Observation
from incload_assets.declaration.table import Table, every_table
from incload_assets.platform.lake import Lake
from incload_assets.progress.verdicts import as_seen

Rough = Mapping[str, Callable[[Any], object]]
"""How finely the values of metadata count as a finding, by name."""


def not_at_all(_: object) -> None:
    """The roughness of a value that is no finding."""


def with_runbook(description: str, runbook: str) -> str:
    """A description that ends with a pointer to a section of the runbooks, if there is one."""
    return f"{description} Runbook: `incload docs runbooks {runbook}`." if runbook else description


@dataclass(frozen=True, kw_only=True)
class _Check:
    """The declaration that both kinds share; a check that does not apply to a table would always be green.

    Args:
        rough: How finely a value in the metadata counts as a finding, by name; by default exactly. A number that
            changes with the clock while nothing has happened must not make a result a new one. The description does
            not count: whatever it says is in the metadata, too.
    """

    name: str
    description: str
    runbook: str = ""
    applies_to: Callable[[Table], bool] = every_table
    rough: Rough = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The description with a pointer to the runbook."""
        return with_runbook(self.description, self.runbook)


@dataclass(frozen=True, kw_only=True)
class LightCheck(_Check):
    """A check that reads only source, log and Dagster, and is cheap enough to run with every load."""

    evaluate: Callable[[Observation], dg.AssetCheckResult]

    def result(self, seen: Observation) -> dg.AssetCheckResult:
        """The result for an observation, marked with the time of the observation."""
        return as_seen(self.evaluate(seen), seen.now)


@dataclass(frozen=True, kw_only=True)
class TableCheck(_Check):
    """A check that reads all of a table, or of its log, and runs with a load at times only."""

    evaluate: Callable[[SparkSession, Table, Lake], dg.AssetCheckResult]
