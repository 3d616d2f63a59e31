"""Jobs that evaluate checks of all tables, or of those that a person chooses, and record what is new."""

from collections.abc import Callable, Mapping
from functools import partial

import dagster as dg
from pydantic import Field

from incload_assets.checks import reconciliation
from incload_assets.checks.evaluations import Evaluations, raise_not_evaluated
from incload_assets.checks.observation import look
from incload_assets.checks.recording import last_results, record_if_new, record_what_changed
from incload_assets.checks.registry import LIGHT_CHECKS, TABLE_CHECKS, table_checks
from incload_assets.checks.with_loads import verdict_by_itself
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.maintenance.jobs import MaintenanceJob
from incload_assets.progress.forms import Chosen
from incload_assets.progress.verdicts import as_seen


class ChosenChecks(Chosen):
    """The checks to evaluate, and the tables."""

    checks: list[str] = Field(default=[], description="Names of checks; empty: all that the job evaluates.")


class Reconciled(Chosen, reconciliation.ReconciliationConfig):
    """The tables to reconcile, and their windows."""


def _light(context: dg.OpExecutionContext, table: Table) -> None:
    seen = look(context.instance, table, context.resources.lake, windows.now())
    last, chosen = last_results(context.instance, [table])[table.name], ChosenChecks(**context.op_config).checks
    found = record_what_changed(context.instance, seen, last, context.log.error, only=chosen)
    raise_not_evaluated(table, found.reasons)


def _whole(context: dg.OpExecutionContext, table: Table) -> None:
    chosen = ChosenChecks(**context.op_config).checks

    def evaluated(name: str) -> dg.AssetCheckResult:
        began = windows.now()
        with context.resources.spark.session() as spark:
            return as_seen(TABLE_CHECKS[name].evaluate(spark, table, context.resources.lake), began)

    _recorded(context, table, {n: partial(evaluated, n) for n in table_checks(table) if not chosen or n in chosen})


def _reconciled(context: dg.OpExecutionContext, table: Table) -> None:
    config = Reconciled(**context.op_config)
    _recorded(context, table, {reconciliation.NAME: lambda: verdict_by_itself(context, table, config)})


def _recorded(
    context: dg.OpExecutionContext, table: Table, checks: Mapping[str, Callable[[], dg.AssetCheckResult]]
) -> None:
    """Evaluates checks of a table one by one, and records the results that are new."""
    evaluations = Evaluations(table, context.resources.lake, context.log.error)
    for name, evaluate in checks.items():
        result = evaluations.attempt([name], evaluate)
        if result is not None:
            record_if_new(context.instance, result, last_results(context.instance, [table])[table.name].get(name))
    raise_not_evaluated(table, evaluations.reasons)


CHECK_TABLES = MaintenanceJob(
    name="check_tables",
    step_name="check_each_table",
    cron="",
    about="Runs the checks without Spark, as the sensor does: freshness, gaps, volume and so on.",
    undone="not checked",
    config=ChosenChecks,
    work=_light,
)
CHECK_UNIQUENESS = MaintenanceJob(
    name="check_uniqueness",
    step_name="check_rows_of_each_table",
    cron="10 4 * * *",
    about="Reads the keys of every table, and the logs of tables with several sources.",
    whose="tables with keys, unique columns or several sources",
    undone="not checked",
    applies_to=lambda table: bool(table_checks(table)),
    config=ChosenChecks,
    work=_whole,
)
CHECK_RECONCILIATION = MaintenanceJob(
    name="check_reconciliation",
    step_name="reconcile_each_table",
    cron="40 4 * * *",
    about="Reads the sources again and compares.",
    undone="not reconciled",
    config=Reconciled,
    work=_reconciled,
)
CHECK_JOBS = (CHECK_TABLES, CHECK_UNIQUENESS, CHECK_RECONCILIATION)
JOB_OF: Mapping[str, MaintenanceJob] = {
    **dict.fromkeys(LIGHT_CHECKS, CHECK_TABLES),
    **dict.fromkeys(TABLE_CHECKS, CHECK_UNIQUENESS),
    reconciliation.NAME: CHECK_RECONCILIATION,
}
"""The job that evaluates a check, by the check's name."""
