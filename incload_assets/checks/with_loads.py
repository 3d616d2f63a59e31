"""Checks in a run that also loads: after a load of several partitions, and for checks too expensive for every load."""

import time
from datetime import datetime, timedelta
from functools import partial

import dagster as dg

from incload_assets.checks import reconciliation
from incload_assets.checks.evaluations import Evaluations
from incload_assets.checks.findings import (
    BY_ROWS,
    DRIFTED,
    UNAVAILABLE,
    UNSEEN,
    found_in,
    loaded_since,
    times_of,
    windows_in,
)
from incload_assets.checks.observation import look
from incload_assets.checks.registry import LIGHT_CHECKS, TABLE_CHECKS, check_names
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.platform.lake import Lake
from incload_assets.progress.status import rows_of
from incload_assets.progress.verdicts import (
    Verdict,
    as_measured,
    as_seen,
    evaluation_of,
    have_the_last_word,
    last_verdict,
    measured_in,
    repeated,
)

LARGE = 5_000_000
"""Number of rows above which a table is not read whole with loads, unless its last result is a failure."""
A_DAY, AN_HOUR = timedelta(days=1), timedelta(hours=1)

Context = dg.AssetExecutionContext | dg.AssetCheckExecutionContext | dg.OpExecutionContext


def check_after_load(context: dg.AssetExecutionContext, table: Table, *, loaded: bool) -> Evaluations:
    """Evaluates the checks of a run within the load's step, if it has no steps for them, or Dagster skips these.

    A run over several partitions reports each by itself and has no output for all of them, so Dagster skips the steps
    of its checks. A run with the tags :data:`CHECKED_BY_LOAD` was requested without their steps, as Dagster keeps the
    plan of a step as a record for each check and partition. Checks that read rows are left out if nothing was loaded.
    """
    wanted, lake = context.run.asset_check_selection, context.resources.lake
    names = [name for name in check_names(table) if not wanted or dg.AssetCheckKey(table.key, name) in wanted]
    cheap = [name for name in names if name in LIGHT_CHECKS]
    evaluations = Evaluations(table, lake, context.log.error)
    seen = evaluations.attempt(cheap, lambda: look(context.instance, table, lake, windows.now())) if cheap else None
    results = (
        []
        if seen is None
        else [evaluations.attempt([name], partial(LIGHT_CHECKS[name].result, seen)) for name in cheap]
    )
    for name in [name for name in names if name not in LIGHT_CHECKS]:
        of_rows = partial(verdict_with_load, context, table, name, loaded=loaded)
        results.append(evaluations.attempt([name], of_rows))
    for result in filter(None, results):
        key = dg.AssetCheckKey(table.key, str(result.check_name))
        context.log_event(evaluation_of(key, result))
        have_the_last_word(context.instance, key, result, context.run.run_id)
    return evaluations


def verdict_with_load(context: Context, table: Table, name: str, *, loaded: bool = True) -> dg.AssetCheckResult | None:
    """The result of a check that is too expensive for every load: a new one, or the last one with its time.

    Dagster shows only the result of a check's last run, and a run that loads includes the checks. Unless the load
    repeated it, a nightly finding would disappear with the next load.
    """
    instance, key, began = context.instance, dg.AssetCheckKey(table.key, name), windows.now()
    last = last_verdict(instance, key)
    new = _reconciled if name == reconciliation.NAME else _of_the_whole
    result = new(context, table, name, last) if loaded else None
    if result is None:
        return repeated(*last) if last else None
    newer = last_verdict(instance, key)  # of a concurrent load, which has also seen what this one loaded
    return repeated(*newer) if newer is not None and newer[0] > began else as_seen(result, began)


def verdict_by_itself(
    context: Context, table: Table, config: reconciliation.ReconciliationConfig
) -> dg.AssetCheckResult:
    """The result of a reconciliation in a run that does not load.

    It compares windows with earlier findings, too, which would otherwise be lost, and again windows that other runs
    loaded during the comparison.
    """
    began = time.monotonic()
    seen = look(context.instance, table, context.resources.lake, windows.now())
    last = last_verdict(context.instance, dg.AssetCheckKey(table.key, reconciliation.NAME))
    known = windows_in(found_in(*last), *BY_ROWS) if last else set[str]()
    with context.resources.spark.session() as spark:
        result = reconciliation.reconciliation(spark, seen, config, context.log.info, known)
    result = _look_again(context, table, seen.now, result) or result
    return as_measured(as_seen(result, windows.now()), time.monotonic() - began)


def _of_the_whole(context: Context, table: Table, name: str, last: Verdict | None) -> dg.AssetCheckResult | None:
    """A new result, unless the last one is recent enough; any load may fix a finding."""
    if last is not None:
        when, verdict = last
        if _is_large(table, context.resources.lake):
            good_for = None if verdict.passed else AN_HOUR
        else:
            good_for = A_DAY if verdict.passed else timedelta(0)
        if good_for is None or windows.now() - when <= good_for:
            return None
    with context.resources.spark.session() as spark:
        return TABLE_CHECKS[name].evaluate(spark, table, context.resources.lake)


def _reconciled(context: Context, table: Table, name: str, last: Verdict | None) -> dg.AssetCheckResult | None:
    """The first result, from positions alone because the load has just compared the rows; or an update of the last."""
    if last is not None:
        return _look_again(context, table, *last)
    return reconciliation.first_verdict(look(context.instance, table, context.resources.lake, windows.now()))


def _look_again(
    context: Context, table: Table, when: datetime, verdict: dg.AssetCheckResult
) -> dg.AssetCheckResult | None:
    """The next result, if a window with a finding was loaded since, or if the source did not answer last time."""
    found = found_in(when, verdict)
    loaded = loaded_since(context.instance, table, times_of(found, *BY_ROWS, DRIFTED))
    if not loaded and found.keys().isdisjoint({UNAVAILABLE, UNSEEN}):
        return None
    seen = look(context.instance, table, context.resources.lake, windows.now())
    if seen.trouble is not None:
        return None
    again = reconciliation.look_again(context.resources.spark.session, seen, verdict, found, loaded, context.log.info)
    return as_measured(again, measured_in(verdict))


def _is_large(table: Table, lake: Lake) -> bool:
    delta = lake.delta(lake.table_uri(table.key.path))
    rows = None if delta is None else rows_of(delta)
    return rows is None or rows > LARGE
