"""The asset checks of a table, as Dagster definitions."""

from collections.abc import Callable, Iterator
from functools import partial

import dagster as dg

from incload_assets.checks import reconciliation
from incload_assets.checks.evaluations import Evaluations
from incload_assets.checks.kinds import with_runbook
from incload_assets.checks.observation import look
from incload_assets.checks.registry import LIGHT_CHECKS, TABLE_CHECKS, light_checks, step_name, table_checks
from incload_assets.checks.with_loads import verdict_by_itself, verdict_with_load
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.progress.verdicts import as_seen, have_the_last_word


def checks_for(table: Table) -> list[dg.AssetChecksDefinition]:
    """All checks that apply to a table. None blocks, because a load reconciles before its checkpoint.

    The light checks are one step without Spark, which observes source, log and Dagster once, with every load.
    Uniqueness reads the key columns of the table, conflicts (of a table with several sources) its log: with loads, once
    a day for tables of up to 5 million rows, and again with each load until their finding is fixed. Reconciliation
    reads the source again; with loads, it first compares positions only, and later windows with a finding that were
    loaded since. Otherwise a run that loads repeats the last result. A check that cannot be evaluated fails its run
    with the reason; all other checks are still evaluated.
    """
    return [_cheap(table), *(_whole(table, name) for name in table_checks(table)), _reconciliation(table)]


def _cheap(table: Table) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name=step_name(table, "checks"),
        specs=[
            dg.AssetCheckSpec(name, asset=table.key, description=LIGHT_CHECKS[name].shown)
            for name in light_checks(table)
        ],
        can_subset=True,
        required_resource_keys={"lake"},
    )
    def check(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        lake, chosen = context.resources.lake, {key.name for key in context.selected_asset_check_keys}
        names, evaluations = (
            [name for name in LIGHT_CHECKS if name in chosen],
            Evaluations(table, lake, context.log.error),
        )
        seen = evaluations.attempt(names, lambda: look(context.instance, table, lake, windows.now()))
        if seen is not None:
            for name in names:
                found = evaluations.attempt([name], partial(LIGHT_CHECKS[name].result, seen))
                yield from _reported(context, table, name, found)
        evaluations.raise_what_failed()

    return check


def _whole(table: Table, name: str) -> dg.AssetChecksDefinition:
    """A check that reads the whole table, or its whole log."""
    found = TABLE_CHECKS[name]

    @dg.multi_asset_check(
        name=step_name(table, name),
        specs=[dg.AssetCheckSpec(name, asset=table.key, description=found.shown)],
        can_subset=True,  # so that the result may be left out
        required_resource_keys={"spark", "lake"},
    )
    def check(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        def by_itself() -> dg.AssetCheckResult:
            began = windows.now()
            with context.resources.spark.session() as spark:
                return as_seen(found.evaluate(spark, table, context.resources.lake), began)

        with_load = partial(verdict_with_load, context, table, name)
        yield from _evaluated(context, table, name, with_load if _with_load(context, table) else by_itself)

    return check


def _reconciliation(table: Table) -> dg.AssetChecksDefinition:
    name, described = reconciliation.NAME, with_runbook(reconciliation.DESCRIPTION, reconciliation.RUNBOOK)

    @dg.multi_asset_check(
        name=step_name(table, name),
        specs=[dg.AssetCheckSpec(name, asset=table.key, description=described)],
        can_subset=True,  # so that the result may be left out
        required_resource_keys={"spark", "lake"},
    )
    def check(
        context: dg.AssetCheckExecutionContext, config: reconciliation.ReconciliationConfig
    ) -> Iterator[dg.AssetCheckResult]:
        with_load = partial(verdict_with_load, context, table, name)
        by_itself = partial(verdict_by_itself, context, table, config)
        yield from _evaluated(context, table, name, with_load if _with_load(context, table) else by_itself)

    return check


def _reported(
    context: dg.AssetCheckExecutionContext, table: Table, name: str, result: dg.AssetCheckResult | None
) -> Iterator[dg.AssetCheckResult]:
    """Yields a check result, if there is one, and makes sure that no result recorded meanwhile hides it."""
    if result is not None:
        yield result
        have_the_last_word(context.instance, dg.AssetCheckKey(table.key, name), result, context.run.run_id)


def _evaluated(
    context: dg.AssetCheckExecutionContext,
    table: Table,
    name: str,
    evaluate: Callable[[], dg.AssetCheckResult | None],
) -> Iterator[dg.AssetCheckResult]:
    """The result of a check that is its own step."""
    evaluations = Evaluations(table, context.resources.lake, context.log.error)
    yield from _reported(context, table, name, evaluations.attempt([name], evaluate))
    evaluations.raise_what_failed()


def _with_load(context: dg.AssetCheckExecutionContext, table: Table) -> bool:
    """True if the run also materializes the table: by default, a run includes every check of its assets."""
    return table.key in context.job_def.asset_layer.selected_asset_keys
