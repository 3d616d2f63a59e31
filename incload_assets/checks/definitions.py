"""The asset checks of a table, as Dagster definitions."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import dagster as dg
from pyspark.sql import SparkSession

from incload_assets.checks import conflicts, reconciliation, uniqueness
from incload_assets.checks.cheap import CHEAP, cheap_checks
from incload_assets.checks.look import look
from incload_assets.checks.within_runs import kept_or_new, loaded_since_found_wrong
from incload_assets.loading import window as windows
from incload_assets.loading.declaration import Table
from incload_assets.loading.sources.several import Several
from incload_assets.operations.status import rows_of
from incload_assets.operations.verdicts import have_the_last_word
from resources.lake import Lake

LARGE = 5_000_000
"""Rows above which the keys of the whole table are not read with loads."""
A_DAY = timedelta(days=1)


def checks_for(table: Table) -> list[dg.AssetChecksDefinition]:
    """All checks of a table; none blocks, because a load reconciles before its checkpoint.

    Freshness, gaps, volume, quarantine, source files and so on are one step without Spark, which looks once at
    source, log and Dagster: cheap enough to run with every load. Uniqueness reads the key columns of the table,
    conflicts (of a table with several sources) its log; with loads they run once a day, for tables of up to 5
    million rows. Reconciliation reads the source again; with loads it runs once, and when what it found wrong has
    been loaded again. Otherwise a run that loads repeats their last verdict.

    Args:
        table: The declaration.

    Example:
        >>> [check.check_specs_by_output_name for check in checks_for(table)]  # doctest: +SKIP
    """
    whole = [_whole(table, uniqueness.NAME, uniqueness.DESCRIPTION, uniqueness.uniqueness)]
    if isinstance(table.source, Several) and table.changes.keys and table.changes.sequence_by:
        whole.append(_whole(table, conflicts.NAME, conflicts.DESCRIPTION, conflicts.conflicts))
    return [_cheap(table), *whole, _reconciliation(table)]


def _step(table: Table, name: str) -> str:
    return f"{'__'.join(table.key.path)}__{name}"


def _cheap(table: Table) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name=_step(table, "checks"),
        specs=[dg.AssetCheckSpec(name, asset=table.key, description=CHEAP[name][0]) for name in cheap_checks(table)],
        can_subset=True,
        required_resource_keys={"lake"},
    )
    def check(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        seen = look(context.instance, table, context.resources.lake, windows.now())
        for key in sorted(context.selected_asset_check_keys, key=lambda key: list(CHEAP).index(key.name)):
            yield CHEAP[key.name][1](seen)

    return check


def _whole(
    table: Table, name: str, about: str, verdict: Callable[[SparkSession, Table, Lake], dg.AssetCheckResult]
) -> dg.AssetChecksDefinition:
    """A check that reads all of a table, or of its log."""

    @dg.multi_asset_check(
        name=_step(table, name),
        specs=[dg.AssetCheckSpec(name, asset=table.key, description=about)],
        can_subset=True,  # so that the result may be left out
        required_resource_keys={"spark", "lake"},
    )
    def check(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        def evaluate() -> dg.AssetCheckResult:
            with context.resources.spark.session() as spark:
                return verdict(spark, table, context.resources.lake)

        if not _with_load(context, table):
            yield from _by_itself(context, table, name, evaluate())
            return
        good_for = None if _is_large(table, context.resources.lake) else A_DAY
        yield kept_or_new(context.instance, dg.AssetCheckKey(table.key, name), good_for, evaluate)

    return check


def _reconciliation(table: Table) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name=_step(table, reconciliation.NAME),
        specs=[dg.AssetCheckSpec(reconciliation.NAME, asset=table.key, description=reconciliation.DESCRIPTION)],
        can_subset=True,  # so that the result may be left out
        required_resource_keys={"spark", "lake"},
    )
    def check(
        context: dg.AssetCheckExecutionContext, config: reconciliation.ReconciliationConfig
    ) -> Iterator[dg.AssetCheckResult]:
        def evaluate(config: reconciliation.ReconciliationConfig = config) -> dg.AssetCheckResult:
            seen = look(context.instance, table, context.resources.lake, windows.now())
            with context.resources.spark.session() as spark:
                return reconciliation.reconciliation(spark, seen, config, context.log.info)

        if not _with_load(context, table):
            yield from _by_itself(context, table, reconciliation.NAME, evaluate())
        elif found_wrong := loaded_since_found_wrong(context.instance, table):
            yield evaluate(reconciliation.ReconciliationConfig(partitions=found_wrong))
        else:  # the load itself has just reconciled its partitions
            yield kept_or_new(context.instance, dg.AssetCheckKey(table.key, reconciliation.NAME), None, evaluate)

    return check


def _by_itself(
    context: dg.AssetCheckExecutionContext, table: Table, name: str, result: dg.AssetCheckResult
) -> Iterator[dg.AssetCheckResult]:
    """The verdict of a run that does not load; loads may have repeated an older one meanwhile."""
    yield result
    have_the_last_word(context.instance, dg.AssetCheckKey(table.key, name), result, context.run.run_id)


def _with_load(context: dg.AssetCheckExecutionContext, table: Table) -> bool:
    """Whether the run also materializes the table: unless told otherwise, a run includes every check of its assets."""
    return table.key in context.job_def.asset_layer.selected_asset_keys


def _is_large(table: Table, lake: Lake) -> bool:
    delta = lake.delta(lake.table_uri(table.key.path))
    rows = None if delta is None else rows_of(delta)
    return rows is None or rows > LARGE
