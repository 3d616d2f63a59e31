"""Gates in the real load, before every look and every commit, at which a run waits until it is told to go on.

A run is a thread with a session of its own. A run that is killed at a gate does nothing more; but what it had sent to
the server, a landing, a MERGE or a fence, can still be let through, alone.
"""

import threading
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from queue import Queue
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.read_view import ReadView
from incload_assets.ingest import ingest as landing
from incload_assets.load import detection, ranges
from incload_assets.maintenance import compact_logs as compaction
from incload_assets.platform.lake import Lake
from incload_assets.writes import merge, snapshot
from incload_assets.writes import merge_into as fences
from incload_assets.writes.merge_into import INGESTION_SHIFT, fence_number
from incload_assets.writes.plan import Merged, MergePlan

PATIENCE_SECONDS = 240
HERE = threading.local()
Place = tuple[str, object]
"""Where a run stands, and the number of what it is about to send."""
IDLE: Place = ("idle", None)
SENT = ("land", "fence", "merge", "land together", "move landing", "move merge", "intent", "removal", "move")


class Killed(BaseException):
    """Ends a run at once, whatever it would do about an error."""


class Run(threading.Thread):
    """A run that goes from gate to gate as told."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.work, self.orders, self.places = work, Queue[bool](), Queue[Place]()
        self.start()
        self.at = self._arrived()

    def run(self) -> None:
        """The thread."""
        HERE.run = self
        end = IDLE
        try:
            self.work()
        except Killed:
            pass
        except BaseException:
            end = ("failed", traceback.format_exc())
        self.places.put(end)

    def stop(self, place: Place) -> None:
        """The thread waits at a gate."""
        self.places.put(place)
        if not self.orders.get():
            raise Killed

    def go(self) -> None:
        """Let it through, to its next gate."""
        self.orders.put(True)
        self.at = self._arrived()

    def die(self) -> None:
        """Let it do nothing more."""
        self.orders.put(False)
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive()

    def _arrived(self) -> Place:
        place = self.places.get(timeout=PATIENCE_SECONDS)
        assert place[0] != "failed", place[1]
        return place


def stop(at: str, number: object = None) -> None:
    """A gate; other threads than those of runs do not see it."""
    if (run := getattr(HERE, "run", None)) is not None:
        run.stop((at, number))


def put_up_gates(patch: pytest.MonkeyPatch) -> None:
    """Before each step of the model."""
    detect, commit, look, version = detection.detect, landing.commit, LoadContext.read_view, ChangeLog.version
    opened = ChangeLog.open
    fenced, committed = fences.fenced, Lake.commit

    def looks(*args: Any) -> Any:
        if not HERE.starts:  # the first look at the source is part of the start
            stop("detect")
        HERE.starts = False
        return detect(*args)

    def looks_again(*args: Any) -> Any:
        if getattr(HERE, "has_landed", False):
            HERE.has_landed = False
            stop("verify")
        return detect(*args)

    def lands(*args: Any, **options: Any) -> bool:
        stop("land", args[4])
        return commit(*args, **options)

    def lands_together(*args: Any, **options: Any) -> bool:
        stop("land together", args[4])
        HERE.has_landed = commit(*args, **options)
        return bool(HERE.has_landed)

    def merges(by: Callable[[LoadContext, ReadView, MergePlan], Merged | None]) -> Callable[..., Merged | None]:
        def merging(load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
            stop("merge", pair(fence_number(at)))
            HERE.merges = True
            try:
                return by(load, at, plan)
            finally:
                HERE.merges = False

        return merging

    def moves_fence(spark: SparkSession, fence: str, number: int) -> AbstractContextManager[None]:
        if not getattr(HERE, "merges", False):
            HERE.starts = False
            stop("move merge", pair(number))
        return fenced(spark, fence, number)

    def moves_fence_of_log(lake: Lake, at: DeltaTable, added: Any, fence: str, number: int, **more: Any) -> bool:
        if not added:
            HERE.starts = False
            if fence.endswith("/compaction"):
                stop("removal" if getattr(HERE, "compacts", False) else "move", number)
            elif "/range " not in fence:
                stop("fence", number)
            else:
                stop("move landing", pair(number))
        return committed(lake, at, added, fence, number, **more)

    def marks(spark: SparkSession, fence: str, number: int) -> AbstractContextManager[None]:
        stop("intent", number)
        return fenced(spark, fence, number)

    def removes(*args: Any, **options: Any) -> bool:
        stop("removal", args[4])
        return commit(*args, **options)

    def reads_table(*args: Any, **options: Any) -> Any:
        stop("table")
        HERE.has_read_table = True
        return look(*args, **options)

    def reads_log(log: ChangeLog) -> DeltaTable:
        if getattr(HERE, "has_read_table", False):
            HERE.has_read_table = False
            stop("log")
        return opened(log)

    def reads_to_compact(log: ChangeLog) -> int | None:
        if getattr(HERE, "has_looked", False):
            HERE.has_looked = False
            stop("compaction read")
        return version(log)

    for target, name, function in (
        (detection, "detect", looks),
        (ranges, "detect", looks_again),
        (landing, "commit", lands),
        (ranges, "commit", lands_together),
        (merge, "merge", merges(merge.merge)),
        (merge, "rewrite", merges(merge.rewrite)),
        (snapshot, "merge", merges(merge.merge)),
        (compaction, "fenced", marks),
        (compaction, "commit", removes),
        (fences, "fenced", moves_fence),
        (Lake, "commit", moves_fence_of_log),
        (LoadContext, "read_view", reads_table),
        (ChangeLog, "open", reads_log),
        (ChangeLog, "version", reads_to_compact),
    ):
        patch.setattr(target, name, function)


def pair(number: int) -> tuple[int, int]:
    """The number of a MERGE as the model has it."""
    return divmod(number, 1 << INGESTION_SHIFT)
