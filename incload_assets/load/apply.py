"""Merges ingested windows: plans, commits and reconciles in a bounded number of attempts."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pyspark.sql import functions as F

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.declaration.window import Window
from incload_assets.delta.commits import Seen
from incload_assets.delta.tuning import tune_plan
from incload_assets.load.proven import StillProven, compared, written_by
from incload_assets.load.reconcile import Evidence, adds_up, carried_on, check_bins, duplicate_keys_named, examine
from incload_assets.platform.errors import ConcurrentLoad, ReconciliationFailed
from incload_assets.platform.wording import several
from incload_assets.writes.merge_into import fence_number, is_merged
from incload_assets.writes.overflow import overflow_named
from incload_assets.writes.plan import PENDING, Merged, MergePlan
from incload_assets.writes.scratch import merge_into_scratch
from incload_assets.writes.strategy import strategy_of

MERGES = 8


@dataclass(frozen=True)
class Applied:
    """The result of a merge, with the read view that was reconciled; evidence and merged rows are by partition key.

    ``compared``: the commits of table and log in that read view; None if a log no longer has them. ``written``: size of
    the table's files that the last merge wrote; None if it wrote none, or another load has committed since.
    """

    at: ReadView
    evidence: dict[str, Evidence]
    merged: dict[str, Merged]
    committed: bool
    compared: tuple[Seen, Seen] | None
    written: int | None = None


def apply_changes(
    load: LoadContext,
    windows: tuple[Window, ...],
    app_id: str,
    *,
    of_range: bool = False,
    is_again: Callable[[ReadView], bool] = lambda _: False,
    is_quiet: Callable[[ReadView], bool] = lambda _: False,
    proven: Callable[[ReadView, int], StillProven | None] = lambda _, __: None,
) -> Applied:
    """Merges ingested windows until table and log agree; ``app_id`` is their fence, or a range's (``of_range``).

    ``is_again``: whether the content of a read view was loaded before. Then its keys are folded in full: a repeated
    load means doubt about the table, and the incremental fold trusts rows of the table that are newer than the changes.
    ``is_quiet``: whether a read view is known to be merged, so that it is only reconciled. ``proven``: what is known of
    the one window without comparing it, as it was left alone since its proof; it gets the number of the load's merge.

    Raises:
        ConcurrentLoad: Other loads committed first in every attempt.
        ReconciliationFailed: Table and log still differ after several repairs, or a key has several rows.
    """
    table = load.table
    where = f"{table.name} {windows[0].key}" + (f"..{windows[-1].key}" if len(windows) > 1 else "")
    total, committed, full, lost = {window.key: Merged() for window in windows}, False, False, 0
    sent, before = 0, None
    merge = strategy_of(table).apply if load.scratch is None else merge_into_scratch
    with ExitStack() as held:
        held.enter_context(duplicate_keys_named(load, where))
        held.enter_context(overflow_named(table, where))
        held.callback(load.kept.release)
        for _ in range(MERGES):
            at = load.read_view(windows, app_id, of_range=of_range)
            still, view = None if full or (committed and before is None) else proven(at, sent), at
            if still and not still.now and not committed and is_quiet(at):
                return Applied(at, {windows[0].key: still.evidence}, total, committed, compared(load, at))
            full = full or is_again(at)
            with load.phases.timed("merge"):
                if not committed:
                    before = _compared(load, still.before, held) if still and still.before and not full else None
                if before and before.pending:
                    before = None
                if still and still.now and before and not full:
                    view = still.now
                plan = _plan(load, view, full, held)
            if (committed and is_merged(at)) or is_quiet(at):
                with load.phases.timed("reconcile"):
                    examined = examine(plan, view)
                if still and before and view is not at:
                    examined = {key: carried_on(still.evidence, before, found) for key, found in examined.items()}
                    if not all(found.pending or adds_up(found) for found in examined.values()):
                        load.info(f"{where}: the rows gained do not add up with those before, comparing all of them")
                        before = None
                        continue
                    load.info(f"{where}: {several(view.gained_rows, 'gained row')} compared, the others were proven")
                pending = sum(found.pending for found in examined.values())
                if not pending:
                    for key, found in examined.items():
                        check_bins(found, f"{table.name} {key}")
                    written = written_by(load, at) if committed else None
                    return Applied(at, examined, total, committed, compared(load, at), written)
                load.info(f"{where}: {several(pending, 'key')} unlike the log, folding in full")
                if not full:  # for all further attempts: the incremental fold cannot prove a repair it cannot make
                    full, view = True, at
                    plan = _plan(load, at, full, held)
            with load.phases.timed("merge"):
                planned = _planned(plan, len(windows)) if len(windows) > 1 else {}
                done = merge(load, view, plan)
            if done is None:
                lost += 1
                load.info(f"{where}: another load committed first, planning again")
                continue
            for key, count in planned.items() if len(windows) > 1 else [(windows[0].key, done)]:
                total[key] += replace(count, rewrites=done.rewrites)
            committed, sent = True, fence_number(at)
            load.info(f"{where}: merged {done.inserted} inserts, {done.updated} updates, {done.deleted} deletes")
        if lost:
            raise ConcurrentLoad(
                f"{where}: other loads won {lost} of {MERGES} attempts to commit",
                rule="a load repeats its merge a bounded number of times",
                remedy="the load is tried again later; if any load may touch any row, keep the table's pool at 1 slot",
            )
        raise ReconciliationFailed(
            f"{where}: table and log still differ after {MERGES} merges",
            rule="a partition is done only when table and log agree",
            remedy="find the other writer of the table; the partition stays open and is tried again",
        )


def _plan(load: LoadContext, at: ReadView, full: bool, held: ExitStack) -> MergePlan:
    strategy = strategy_of(load.table)
    all_changes = full or at.replaced or at.empties or not strategy.reads_windows(load.table.changes)
    log_bytes = at.log_bytes if all_changes else at.windows_bytes
    tune_plan(load.spark, at.changes, at.near_bytes + log_bytes)
    plan = strategy.plan(load, at, full=full)
    held.callback(plan.release)
    return plan


def _compared(load: LoadContext, at: ReadView, held: ExitStack) -> Evidence:
    """The evidence of one window in a read view."""
    (evidence,) = examine(_plan(load, at, False, held), at).values()
    return evidence


def _planned(plan: MergePlan, windows: int) -> dict[str, Merged]:
    """The rows to be changed per window; for a commit of several windows Delta reports only the sum."""
    counts: dict[str, Merged] = {}
    pending = plan.actions.filter(F.col("_action").isin(*PENDING))
    for row in pending.groupBy("_window", "_action").count().head(len(PENDING) * windows):
        change = Merged(**{_COUNTED_AS[row["_action"]]: row["count"]})
        counts[row["_window"]] = counts.get(row["_window"], Merged()) + change
    return counts


_COUNTED_AS = {"insert": "inserted", "update": "updated", "delete": "deleted"}
