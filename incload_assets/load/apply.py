"""From ingested windows to a reconciled table: plan, commit, look again, a bounded number of times."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pyspark.sql import functions as F

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.declaration.window import Window
from incload_assets.delta.tuning import tune_plan
from incload_assets.load.reconcile import Evidence, check_bins, duplicate_keys_named, examine
from incload_assets.writes.merge_into import is_merged
from incload_assets.writes.overflow import overflow_named
from incload_assets.writes.plan import PENDING, Merged, MergePlan
from incload_assets.writes.strategy import strategy_of
from resources.errors import ConcurrentLoad, ReconciliationFailed

MERGES = 8


@dataclass(frozen=True)
class Applied:
    """What it took, and the proof.

    Args:
        at: What was reconciled.
        evidence: By partition key.
        merged: Rows changed in the table, by partition key.
        committed: Whether anything was committed to the table.
    """

    at: ReadView
    evidence: dict[str, Evidence]
    merged: dict[str, Merged]
    committed: bool


def apply_changes(
    load: LoadContext,
    windows: tuple[Window, ...],
    app_id: str,
    *,
    of_range: bool = False,
    is_again: Callable[[ReadView], bool] = lambda _: False,
    is_quiet: Callable[[ReadView], bool] = lambda _: False,
) -> Applied:
    """Merge ingested windows until table and log agree.

    Args:
        load: Of the load.
        windows: All of them ingested.
        app_id: Identifier of the fence.
        of_range: Whether it is the fence of a range.
        is_again: Whether what a snapshot holds was loaded before. Then its keys are folded in full: whoever asks for it
            once more doubts the table, and the fast fold trusts rows of the table that are newer than the changes.
        is_quiet: Whether a snapshot is known to be reconciled, so that looking is enough. Default of both: never.

    Raises:
        ConcurrentLoad: Other loads won the races.
        ReconciliationFailed: Table and log still differ after several repairs, or a key has several rows.
    """
    table = load.table
    where = f"{table.name} {windows[0].key}" + (f"..{windows[-1].key}" if len(windows) > 1 else "")
    total, committed, full, lost = {window.key: Merged() for window in windows}, False, False, 0
    with ExitStack() as held:
        held.enter_context(duplicate_keys_named(load, where))
        held.enter_context(overflow_named(table, where))
        held.callback(load.kept.release)
        for _ in range(MERGES):
            at = load.read_view(windows, app_id, of_range=of_range)
            full = full or is_again(at)
            with load.phases.timed("merge"):
                plan = _plan(load, at, full, held)
            if (committed and is_merged(at)) or is_quiet(at):
                with load.phases.timed("reconcile"):
                    evidence = examine(plan, at)
                pending = sum(found.pending for found in evidence.values())
                if not pending:
                    for key, found in evidence.items():
                        check_bins(found, f"{table.name} {key}")
                    return Applied(at, evidence, total, committed)
                load.info(f"{where}: {pending} keys differ from the log, folding them in full")
                if not full:  # from now on: what the fast fold could not see it could not prove, either
                    full = True
                    plan = _plan(load, at, full, held)
            with load.phases.timed("merge"):
                planned = _planned(plan, len(windows)) if len(windows) > 1 else {}
                done = strategy_of(table).apply(load, at, plan)
            if done is None:
                lost += 1
                load.info(f"{where}: another load committed first, planning anew")
                continue
            for key, count in planned.items() if len(windows) > 1 else [(windows[0].key, done)]:
                total[key] += replace(count, rewrites=done.rewrites)
            committed = True
            load.info(f"{where}: merged {done.inserted} inserts, {done.updated} updates, {done.deleted} deletes")
        if lost:
            raise ConcurrentLoad(
                f"{where}: other loads won {lost} of {MERGES} attempts to commit",
                rule="a load redoes its merge a bounded number of times",
                remedy="it is tried again later; for a table that any load may touch, keep its pool at one slot",
            )
        raise ReconciliationFailed(
            f"{where}: table and log still differ after {MERGES} merges",
            rule="a partition is done only when the table holds what the log says",
            remedy="look for another writer of the table; the partition stays open and is tried again",
        )


def _plan(load: LoadContext, at: ReadView, full: bool, held: ExitStack) -> MergePlan:
    strategy = strategy_of(load.table)
    all_changes = full or at.replaced or at.empties or not strategy.reads_windows(load.table.changes)
    log_bytes = at.log_bytes if all_changes else at.windows_bytes
    tune_plan(load.spark, at.changes, at.near_bytes + log_bytes)
    plan = strategy.plan(load, at, full=full)
    held.callback(plan.release)
    return plan


def _planned(plan: MergePlan, windows: int) -> dict[str, Merged]:
    """Rows to be changed per window: of a commit for several windows Delta tells only the sum."""
    counts: dict[str, Merged] = {}
    pending = plan.actions.filter(F.col("_action").isin(*PENDING))
    for row in pending.groupBy("_window", "_action").count().head(len(PENDING) * windows):
        change = Merged(**{_COUNTED_AS[row["_action"]]: row["count"]})
        counts[row["_window"]] = counts.get(row["_window"], Merged()) + change
    return counts


_COUNTED_AS = {"insert": "inserted", "update": "updated", "delete": "deleted"}
