"""Checks in a run that also loads: after several partitions at once, and verdicts that a load does not change."""

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
from incload_assets.checks.registry import CHEAP, cheap_verdict
from incload_assets.checks.whole import WHOLE, check_names
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.progress.status import rows_of
from incload_assets.progress.verdicts import as_seen, evaluation_of, have_the_last_word, last_verdict, repeated
from resources.lake import Lake

LARGE = 5_000_000
"""Rows above which all of a table is not read with loads, unless something was found wrong in it."""
A_DAY, AN_HOUR = timedelta(days=1), timedelta(hours=1)

Verdict = tuple[datetime, dg.AssetCheckResult]
Context = dg.AssetExecutionContext | dg.AssetCheckExecutionContext


def check_after_range(context: dg.AssetExecutionContext, table: Table, *, loaded: bool) -> Evaluations:
    """Evaluate the checks of the run here and now.

    A run over several partitions reports each by itself and has no output for all of them, so Dagster skips the steps
    of its checks.

    Args:
        context: Of the load.
        table: The declaration.
        loaded: Whether any partition was; else nothing is new to the checks that read rows.

    Returns:
        Which checks could not be evaluated.
    """
    wanted, lake = context.run.asset_check_selection, context.resources.lake
    names = [name for name in check_names(table) if wanted is None or dg.AssetCheckKey(table.key, name) in wanted]
    cheap = [name for name in names if name in CHEAP]
    evaluations = Evaluations(table, lake, context.log)
    seen = evaluations.attempt(cheap, lambda: look(context.instance, table, lake, windows.now())) if cheap else None
    results = (
        [] if seen is None else [evaluations.attempt([name], partial(cheap_verdict, name, seen)) for name in cheap]
    )
    for name in [name for name in names if name not in CHEAP]:
        of_rows = partial(verdict_with_load, context, table, name, loaded=loaded)
        results.append(evaluations.attempt([name], of_rows))
    for result in filter(None, results):
        key = dg.AssetCheckKey(table.key, str(result.check_name))
        context.log_event(evaluation_of(key, result))
        have_the_last_word(context.instance, key, result, context.run.run_id)
    return evaluations


def verdict_with_load(context: Context, table: Table, name: str, *, loaded: bool = True) -> dg.AssetCheckResult | None:
    """The verdict of a check that is too dear for every load: the last one, saying when it was made, or a new one.

    Dagster shows of each check only what its last run said, and a run that loads includes the checks: without a word
    from them a nightly finding would be gone with the next load.

    Args:
        context: Of a run that loads.
        table: The declaration.
        name: Of the check.
        loaded: Whether the run has loaded anything; else there is no new verdict.

    Returns:
        None if there is no verdict, old or new.
    """
    instance, key, began = context.instance, dg.AssetCheckKey(table.key, name), windows.now()
    last = last_verdict(instance, key)
    new = _reconciled if name == reconciliation.NAME else _of_the_whole
    result = new(context, table, name, last) if loaded else None
    if result is None:
        return repeated(*last) if last else None
    newer = last_verdict(instance, key)  # of a load beside this one, which has seen what that one loaded, too
    return repeated(*newer) if newer is not None and newer[0] > began else as_seen(result, began)


def verdict_by_itself(
    context: dg.AssetCheckExecutionContext, table: Table, config: reconciliation.ReconciliationConfig
) -> dg.AssetCheckResult:
    """The reconciliation of a run that does not load.

    Windows that were found wrong before are compared, too: a look at others says nothing of them. And windows that
    others have loaded while this one looked are looked at again.
    """
    seen = look(context.instance, table, context.resources.lake, windows.now())
    last = last_verdict(context.instance, dg.AssetCheckKey(table.key, reconciliation.NAME))
    known = windows_in(found_in(*last), *BY_ROWS) if last else set[str]()
    with context.resources.spark.session() as spark:
        result = reconciliation.reconciliation(spark, seen, config, context.log.info, known)
    result = _look_again(context, table, seen.now, result) or result
    return as_seen(result, windows.now())


def _of_the_whole(context: Context, table: Table, name: str, last: Verdict | None) -> dg.AssetCheckResult | None:
    """A new verdict, unless the last one is good for longer; what was found wrong may be mended by any load."""
    if last is not None:
        when, verdict = last
        if _is_large(table, context.resources.lake):
            good_for = None if verdict.passed else AN_HOUR
        else:
            good_for = A_DAY if verdict.passed else timedelta(0)
        if good_for is None or windows.now() - when <= good_for:
            return None
    with context.resources.spark.session() as spark:
        return WHOLE[name][1](spark, table, context.resources.lake)


def _reconciled(context: Context, table: Table, name: str, last: Verdict | None) -> dg.AssetCheckResult | None:
    """A first verdict, by positions alone, as the load has just compared the rows; or what became of the last one."""
    if last is not None:
        return _look_again(context, table, *last)
    return reconciliation.first_verdict(look(context.instance, table, context.resources.lake, windows.now()))


def _look_again(
    context: Context, table: Table, when: datetime, verdict: dg.AssetCheckResult
) -> dg.AssetCheckResult | None:
    """The next verdict, if some of what the last one found is loaded since, or the source did not answer then."""
    found = found_in(when, verdict)
    loaded = loaded_since(context.instance, table, times_of(found, *BY_ROWS, DRIFTED))
    if not loaded and found.keys().isdisjoint({UNAVAILABLE, UNSEEN}):
        return None
    seen = look(context.instance, table, context.resources.lake, windows.now())
    if seen.trouble is not None:
        return None
    return reconciliation.look_again(context.resources.spark.session, seen, verdict, found, loaded, context.log.info)


def _is_large(table: Table, lake: Lake) -> bool:
    delta = lake.delta(lake.table_uri(table.key.path))
    rows = None if delta is None else rows_of(delta)
    return rows is None or rows > LARGE
