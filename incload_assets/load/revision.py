"""Revisions: a window's content in the log is replaced by other content than its source's, in one fenced commit.

An undo, a hold, a replay, a fill and an erasure are revisions. Each attempt reads what the window holds and the fence
of its landings, stages rows, and commits them with a window record under the next number. A load or another revision
that lands first makes the commit fail, and the next attempt starts from what that has landed; the commit of a process
that was killed is refused if it arrives after another one.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from deltalake import DeltaTable
from pyspark.sql import DataFrame

from incload_assets.change_log.commit import commit
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.staged import Staged
from incload_assets.change_log.window_records import WindowRecord, window_records_of
from incload_assets.declaration.window import Window
from incload_assets.delta.tuning import tune_ingest
from incload_assets.ingest.ingestion import Ingestion, ingestion_app_id, next_number
from incload_assets.load.apply import apply_changes
from incload_assets.load.compacted import hold_off
from incload_assets.load.load import LoadReport, report_of
from incload_assets.load.placement import refuse_misplaced
from incload_assets.load.range_fences import call_off_ingestions, call_off_merges
from incload_assets.load.tables import ensure_tables
from incload_assets.platform.attempts import in_attempts
from incload_assets.platform.errors import ConcurrentLoad
from incload_assets.writes.merge_into import app_id

ATTEMPTS = 5


@dataclass(frozen=True)
class Revision:
    """One attempt to revise a window, from a version of the log; ``before`` is None if the window was never loaded.

    Args:
        fence: The number of the window's last landing in the log's commits, 0 if none.
        held_off: Whether removals of compactions that may be running are rejected since before the attempt.
    """

    load: LoadContext
    window: Window
    at: DeltaTable
    before: WindowRecord | None
    fence: int
    staged: Staged
    held_off: bool = False

    @property
    def former(self) -> DataFrame:
        """The window's rows in the log, with its record."""
        return self.load.log.read(self.load.spark, self.at.version(), [self.window.key])

    @property
    def number(self) -> int:
        """The number of the window's next landing."""
        return next_number(self.before, self.fence)

    @property
    def waits_for_removals(self) -> bool:
        """True if a compaction may still remove changes, so that an attempt to replace changes has to return False."""
        return self.before is not None and self.before.compacted_at is not None and not self.held_off

    def ingestion(self, before: WindowRecord) -> Ingestion:
        """The attempt as an ingestion that replaces a landing, for rules that both have."""
        return Ingestion(self.window, before.as_position(), before, self.at.version(), False, self.fence)

    def commit(
        self,
        record: WindowRecord,
        *,
        note: str,
        adds: bool = False,
        keep: bool = True,
        replacing: Collection[str] = (),
        read_at: Mapping[str, datetime] | None = None,
    ) -> bool:
        """Commits the staged rows with a record, under the next number; whether the log has them now.

        Args:
            adds: Whether the rows are added to the window's rows; its record then has to be the same as before.
            keep: Whether what the window held is kept for an undo.
            replacing: With ``adds``, kinds of the window's rows that are replaced nevertheless.
            read_at: As for :func:`incload_assets.change_log.commit.commit`.
        """
        return commit(
            self.load,
            self.staged,
            {self.window.key: replace(record, landing=self.number)},
            ingestion_app_id(self.load.table, self.window),
            self.number,
            note=f"{note}, run {self.load.run_id}",
            base=self.before if adds else None,
            keep=keep,
            replacing=replacing,
            read_at=read_at,
        )


Attempt = Callable[[Revision], bool | None]
"""Makes one attempt; returns whether it was committed, or None if there is nothing to commit."""


@contextmanager
def revision(load: LoadContext, window: Window, *, held_off: bool = False) -> Iterator[Revision]:
    """One attempt; rows that it has staged and not committed are removed at the block's end."""
    with Staged(load.log, load.spark, [window.key]) as staged:
        at = load.log.open()
        before = window_records_of(at, only=[window.key]).get(window.key)
        fence = at.transaction_version(ingestion_app_id(load.table, window)) or 0
        yield Revision(load, window, at, before, fence, staged, held_off)


def revise_and_merge(
    load: LoadContext, window: Window, attempt: Attempt, *, doing: str, even_misplaced: bool = False
) -> LoadReport:
    """Revises a window as :func:`revise` does, merges it in full, and reconciles.

    In full, because a revision that was killed before its merge is repeated by one that may find nothing to commit.
    """
    load = load.renewed()
    with load.phases.timed("prepare"):
        if not even_misplaced:
            refuse_misplaced(load, [window])
        ensure_tables(load)
        call_off_ingestions(load, window)

    def tuned(this: Revision) -> bool | None:
        with load.phases.timed("ingest"):
            tune_ingest(load.spark, this.at, [window.key], 0)
            return attempt(this)

    revised = revise(load, window, tuned, doing=doing)
    with load.phases.timed("prepare"):
        call_off_merges(load, window)
    applied = apply_changes(load, (window,), app_id(load.table, window), is_again=lambda _: True)
    return report_of(load, applied, window, ingested=revised)


def revise(load: LoadContext, window: Window, attempt: Attempt, *, doing: str, remedy: str = "") -> bool:
    """Revises a window, in a bounded number of attempts; returns whether there was anything to commit.

    Messages say what it is ``doing``: *to …*; and what a person can do if all attempts fail: by default, to try again.
    """
    held_off = False

    def revised() -> bool | None:
        nonlocal held_off
        with revision(load, window, held_off=held_off) as this:
            done = attempt(this)
        if done is False and this.waits_for_removals:
            hold_off(load)
            held_off = True  # the next attempt starts from the log after any removal
        return None if done is False else bool(done)

    problem = f"{load.table.name} {window.key}: other loads landed first"
    return in_attempts(ATTEMPTS, revised, others_first(problem, doing, remedy))


def others_first(problem: str, doing: str, remedy: str = "") -> ConcurrentLoad:
    """The error of a revision that other loads came before in every attempt."""
    return ConcurrentLoad(
        f"{problem} in each of {ATTEMPTS} attempts to {doing}",
        rule="what is to be replaced is what was read; an attempt is repeated a bounded number of times",
        remedy=remedy or "try again; if the source changes all the time, pause the table first",
    )
