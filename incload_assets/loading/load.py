"""The load of one window: detect, land, merge, reconcile. Only a load that returns may be checkpointed.

Whatever happens to a load, at any point, running it again makes the table right: the log tells what was landed, the
fence in the table's commits tells what was merged, and the reconciliation compares the states of both.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from incload_assets.loading.change_log import ChangeLog, Control
from incload_assets.loading.declaration import Table
from incload_assets.loading.delta_tables import ensure_table
from incload_assets.loading.errors import ConcurrentLoad, ReconciliationFailed, SourceChanged, SourceMissing
from incload_assets.loading.folding import Snapshot, fold_plan
from incload_assets.loading.landing import Landing, land
from incload_assets.loading.reconciliation import Evidence, check_bins, examine
from incload_assets.loading.sources.base import Position
from incload_assets.loading.tuning import tune
from incload_assets.loading.window import Window, window_of
from incload_assets.loading.writes.merge import Merged, app_id, is_merged, merge
from resources.lake import Lake

LANDINGS = 5
MERGES = 8


@dataclass(frozen=True)
class Checkpoint:
    """What Dagster knows of a window.

    Args:
        fingerprint: Data version of its last materialization, None if there is none.
        clean: Whether nothing was tried since that did not succeed: then no forgotten MERGE can still be running.
    """

    fingerprint: str | None = None
    clean: bool = False


@dataclass(frozen=True)
class LoadReport:
    """The outcome of a load.

    Args:
        window: Which.
        control: The control row that the log holds for it.
        evidence: Of the reconciliation.
        merged: Rows changed in the table.
        landed: Whether this load put the window into the log; False where the log already held it.
        committed: Whether this load committed to the table.
        table_version: Delta version of the table that was reconciled.
        log_version: Delta version of the log that it was reconciled with.
        seconds: Time spent per phase.
    """

    window: Window
    control: Control
    evidence: Evidence
    merged: Merged
    landed: bool
    committed: bool
    table_version: int
    log_version: int
    seconds: dict[str, float] = field(default_factory=dict)


def load_window(
    spark: SparkSession,
    table: Table,
    lake: Lake,
    window: Window,
    *,
    run_id: str = "",
    checkpoint: Checkpoint = Checkpoint(),
    say: Callable[[str], None] = lambda _: None,
) -> LoadReport:
    """Bring the table to the fold of what the source now holds for a window.

    Args:
        spark: A session of this load's own: the fence is a setting of the session.
        table: The declaration.
        lake: Where tables are.
        window: Which.
        checkpoint: What Dagster knows; without it the load commits at least its fence.
        run_id: For the control row and the commits.
        say: Called with one line per step.

    Raises:
        SourceMissing: The source has nothing for the window yet.
        ContractViolation: Too many rejected rows; the partition keeps what it had.
        ReconciliationFailed: Table and log still differ after several repairs.
        IncrementalLoadError: As the steps raise it.
    """
    load = _Load(spark, table, lake, window, run_id, checkpoint, say)
    return load.run()


class _Load:
    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        lake: Lake,
        window: Window,
        run_id: str,
        checkpoint: Checkpoint,
        say: Callable[[str], None],
    ) -> None:
        self.spark, self.table, self.lake, self.window = spark, table, lake, window
        self.run_id, self.checkpoint, self.say = run_id, checkpoint, say
        self.log = ChangeLog(table, lake)
        self.uri = lake.table_uri(table.key.path)
        self.where = f"{table.name} {window.key}"
        self.seconds: dict[str, float] = {}

    def run(self) -> LoadReport:
        with self._phase("prepare"):
            self._ensure_tables()
        landed = self._land()
        return self._merge(landed)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start

    def _ensure_tables(self) -> None:
        partition = self.table.write.partition_by
        schema = self.table.contract.schema
        ensure_table(self.spark, self.lake, self.uri, schema, (partition,) if partition else (), self.table.name)
        ensure_table(self.spark, self.lake, self.log.uri, self.log.schema, ("_window", "_kind"), self.table.name)

    def _detect(self) -> Position:
        source = self.table.source
        first = window_of(self.table.partitions_def, self.table.partitions_def.get_first_partition_key() or "").start
        position = source.detect(self.table.name, [self.window], self.log.landed, first=first).get(self.window.key)
        if position is not None:
            return position
        if source.absent == "empty":
            return source.empty_position(self.window)
        raise SourceMissing(
            f"{self.where}: {source} holds nothing for this window",
            rule='the table waits for its source (absent="wait")',
            remedy='load it when the source has it, or declare absent="empty" if a window may have nothing',
        )

    def _land(self) -> bool:
        """Land until the log holds what the source holds; looking again afterwards also proves a consistent read.

        Unless the log's content is known to be settled it is landed again even if it is what the source holds: a killed
        load's landing may still be on its way, and only a later landing refuses it.
        """
        landed = False
        for _ in range(LANDINGS):
            with self._phase("detect"):
                position = self._detect()
                version = self.log.version()
                assert version is not None
                before = self.log.control(self.window.key, version)
                tune(self.spark, self.lake, position.size, self.uri, self.log.uri)
            settled = (
                before is not None and self.checkpoint == Checkpoint(before.fingerprint, clean=True) and not landed
            )
            same = before and (before.fingerprint, before.code_version) == (
                position.fingerprint,
                self.table.code_version,
            )
            if same and (settled or landed):
                return landed
            landing = Landing(self.window, position, before, version, settled, self.run_id)
            with self._phase("land"):
                landed = land(self.spark, self.table, self.log, landing, self.say) or landed
        raise SourceChanged(
            f"{self.where}: the source changed during each of {LANDINGS} attempts to read it",
            rule="a window is landed from a source that stands still while it is read",
            remedy="none if the writer pauses: the load is tried again; else write files under a temporary name",
        )

    def _snapshot(self) -> Snapshot:
        """The table is looked at before the log, so that nothing merged can be missing from the log that is read."""
        table_version = self.lake.version(self.uri)
        assert table_version is not None
        fence = self.lake.transaction_version(self.uri, app_id(self.table, self.window), table_version) or 0
        log_version = self.log.version()
        assert log_version is not None
        control = self.log.control(self.window.key, log_version)
        assert control is not None
        return Snapshot(table_version, log_version, fence, control)

    def _plan(self, at: Snapshot, *, full: bool) -> DataFrame:
        return fold_plan(self.spark, self.table, self.log, self.uri, self.window, at, full=full)

    def _merge(self, landed: bool) -> LoadReport:
        total, committed, lost = Merged(), False, 0
        for _ in range(MERGES):
            at = self._snapshot()
            quiet = not landed and self.checkpoint == Checkpoint(at.control.fingerprint, clean=True)
            plan = self._plan(at, full=False)
            if is_merged(at) and (committed or quiet):
                with self._phase("reconcile"):
                    evidence = examine(plan, at.control)
                if not evidence.pending:
                    check_bins(evidence, self.where)
                    return LoadReport(
                        self.window,
                        at.control,
                        evidence,
                        total,
                        landed,
                        committed,
                        at.table_version,
                        at.log_version,
                        self.seconds,
                    )
                self.say(f"{self.where}: {evidence.pending} keys differ from the log, folding them in full")
                plan = self._plan(at, full=True)
            with self._phase("merge"):
                done = merge(self.spark, self.table, self.lake, self.uri, self.window, at, plan)
            if done is None:
                lost += 1
                self.say(f"{self.where}: another load committed first, planning anew")
                continue
            total, committed = total + done, True
            self.say(f"{self.where}: merged {done.inserted} inserts, {done.updated} updates, {done.deleted} deletes")
        if lost:
            raise ConcurrentLoad(
                f"{self.where}: other loads won {lost} of {MERGES} attempts to commit",
                rule="a load redoes its merge a bounded number of times",
                remedy="it is tried again later; for a table that any load may touch, keep its pool at one slot",
            )
        raise ReconciliationFailed(
            f"{self.where}: table and log still differ after {MERGES} merges",
            rule="a partition is done only when the table holds what the log says",
            remedy="look for another writer of the table; the partition stays open and is tried again",
        )
