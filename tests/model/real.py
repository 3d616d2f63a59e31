"""The real load in the steps of the model: it stops where they end, and its tables are read as the model's state.

A run is a thread with a session of its own that waits at gates, one before every look and every commit. A run that is
killed at a gate does nothing more; but what it had sent to the server, a landing, a MERGE or a fence, can still be let
through, alone.
"""

import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from incload_assets.loading import landing, load, ranges
from incload_assets.loading.change_log import ChangeLog
from incload_assets.loading.checkpoint import Checkpoint
from incload_assets.loading.context import Context, Merged, Plan, Snapshot
from incload_assets.loading.load import LoadReport
from incload_assets.loading.range_fences import range_app_id
from incload_assets.loading.window import Window, window_of
from incload_assets.loading.writes import merge
from incload_assets.loading.writes import merging as fences
from incload_assets.loading.writes.merging import LANDING_SHIFT, app_id, fence_number
from resources.settings import Settings
from resources.spark import open_session
from tests.loading.literal_source import LiteralSource, Record
from tests.loading.tables import DAYS, day, item, make
from tests.model.protocol import Model
from tests.model.terms import Change, Content, Landed, State

VALUES = ("b", "a", "c")
"""The value of an item by the model's content hash: of the last two, the real hashes are in that order, too."""
PATIENCE_SECONDS = 240

HERE = threading.local()
Place = tuple[str, object]
"""Where a run stands, and the number of what it is about to send."""
IDLE: Place = ("idle", None)
SENT = ("land", "merge", "land together", "move landing", "move merge")


class View(NamedTuple):
    """What can be seen of a state, the model's or the real one; the last of the fences are the range's."""

    log: tuple[Landed | None, ...]
    landings: tuple[int, ...]
    row: Change | None
    fences: tuple[tuple[int, int], ...]
    checkpoints: tuple[Content | None, ...]
    runs: tuple[Place, ...]


def view_of(state: State) -> View:
    """What can be seen of the model's state."""
    places = []
    for run in state.runs:
        number = getattr(run.work, "landed", run.work)
        at = "move landing" if run.at == "intent" else run.at
        places.append((at, number and number.number) if run.active else IDLE)
    contents = tuple(known.content for known in state.checkpoints)
    return View(state.log, state.landings, state.row, state.fences, contents, tuple(places))


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
    detect, commit, snapshot, version = load.detect, landing.commit, Context.snapshot, ChangeLog.version
    merging, fenced = merge.merge, fences.fenced

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

    def merges(context: Context, at: Snapshot, plan: Plan) -> Merged | None:
        stop("merge", _pair(fence_number(at)))
        HERE.merges = True
        try:
            return merging(context, at, plan)
        finally:
            HERE.merges = False

    def moves_fence(context: Context, fence: str, number: int) -> AbstractContextManager[None]:
        if not getattr(HERE, "merges", False):
            HERE.starts = False
            stop("move landing" if fence.endswith("/landing") else "move merge", _pair(number))
        return fenced(context, fence, number)

    def reads_table(*args: Any, **options: Any) -> Any:
        stop("table")
        HERE.has_read_table = True
        return snapshot(*args, **options)

    def reads_log(log: ChangeLog) -> int | None:
        if getattr(HERE, "has_read_table", False):
            HERE.has_read_table = False
            stop("log")
        return version(log)

    for target, name, function in (
        (load, "detect", looks),
        (ranges, "detect", looks_again),
        (landing, "commit", lands),
        (ranges, "commit", lands_together),
        (merge, "merge", merges),
        (fences, "fenced", moves_fence),
        (Context, "snapshot", reads_table),
        (ChangeLog, "version", reads_log),
    ):
        patch.setattr(target, name, function)


def _pair(number: int) -> tuple[int, int]:
    """The number of a MERGE as the model has it."""
    return divmod(number, 1 << LANDING_SHIFT)


class Real:
    """A real table in the place of a model's, and what Dagster does.

    Args:
        settings: Of the server.
        folder: For the table.
        model: On whose case; it also says what Dagster knows, of the windows and of other runs.
    """

    def __init__(self, settings: Settings, folder: Path, model: Model) -> None:
        self.settings, self.model, self.state = settings, model, model.start()
        self.windows = {name: window_of(DAYS, day(n)) for n, name in enumerate(model.names, 1)}
        self.held = {content: _held(content) for contents in model.case.windows.values() for content in contents}
        self.known = {fingerprint: content for content, (_, fingerprint) in self.held.items()}
        records = {w.key: self.held[model.case.windows[name][0]][0] for name, w in self.windows.items()}
        self.table = make(None, folder, records)  # type: ignore[arg-type]  # each run has a session of its own
        self.context = Context(self.table.spark, self.table.table, self.table.lake)
        self.runs: list[Run | None] = [None] * len(self.state.runs)
        self.zombies: list[Run] = []
        self.checkpoints: dict[str, Content] = {}

    def act(self, action: str, after: State) -> None:
        """Do what the model did, which is now in the given state."""
        self.state = after
        what, _, which = action.partition(" ")
        if what == "source":
            content = self.model.case.windows[which][after.source[self.model.names.index(which)]]
            self.table.content[self.windows[which].key] = self.held[content][0]
        elif what == "zombie":
            zombie = self.zombies.pop(int(which))
            zombie.go()
            zombie.die()
        elif (run := self.runs[int(which)]) is None:
            self.runs[int(which)] = Run(lambda: self._work(int(which)))
        elif what == "kill":
            self.runs[int(which)] = None
            if run.at[0] in SENT:
                self.zombies.append(run)
            else:
                run.die()
        else:
            run.go()
            if run.at == IDLE:
                self.runs[int(which)] = None

    def _work(self, i: int) -> None:
        """What a run of the asset does: together what can be, then one by one."""
        left = {self.windows[name]: name for name in sorted(self.state.runs[i].pending)}
        is_alone, goes_on = len(left) == 1, False
        with open_session(self.settings) as spark:
            for report in self._together(spark, i, left):
                stop("checkpoint")
                self._checkpoint(report, left.pop(report.window))
                goes_on = True
            for window, name in left.items():
                if goes_on:
                    stop("next")
                HERE.starts = goes_on = True
                content = self.state.checkpoints[self.model.names.index(name)].content
                known = Checkpoint(
                    None if content is None else self.held[content][1],
                    clean=self.state.runs[i].trusted is not None,
                    untried=is_alone and self._is_untried(i, name),
                )
                context = self.context
                self._checkpoint(load.load_window(spark, context.table, context.lake, window, checkpoint=known), name)

    def _together(self, spark: SparkSession, i: int, left: dict[Window, str]) -> Iterator[LoadReport]:
        def first_of(windows: Sequence[Window]) -> set[str]:
            return {window.key for window in windows if self._is_untried(i, left[window])}

        def still_first(windows: Sequence[Window]) -> set[str]:
            stop("look")
            return first_of(windows)

        first = first_of(list(left))
        if len(first) > 1:
            context, chosen = replace(self.context, spark=spark), [window for window in left if window.key in first]
            for reports in ranges.load_first_windows(context, chosen, still_first, run_id="", say=lambda _: None):
                yield from reports

    def _is_untried(self, i: int, name: str) -> bool:
        known = self.state.checkpoints[self.model.names.index(name)]
        others = any(name in other.pending for j, other in enumerate(self.state.runs) if j != i)
        return known.content is None and not known.failed and not others

    def _checkpoint(self, report: LoadReport, name: str) -> None:
        self.checkpoints[name] = self.known[report.control.fingerprint]

    def view(self) -> View:
        """What can be seen."""
        table, lake, log = self.context.table, self.context.lake, self.context.log
        windows, of_range = self.windows.values(), range_app_id(table, self.windows["A"])
        landings = [*(landing.landing_app_id(table, window) for window in windows), f"{of_range}/landing"]
        of_merges = [*(app_id(table, window) for window in windows), of_range]
        rows = self.table.rows("value", "seq") if lake.version(self.context.uri) is not None else set()
        assert len(rows) <= 1
        return View(
            tuple(self._landed(window.key) for window in windows),
            tuple(lake.transaction_version(log.uri, fence) or 0 for fence in landings),
            next(((seq, False, VALUES.index(value)) for value, seq in rows), None),
            tuple(_pair(lake.transaction_version(self.context.uri, fence) or 0) for fence in of_merges),
            tuple(self.checkpoints.get(name) for name in self.windows),
            tuple(IDLE if run is None else run.at for run in self.runs),
        )

    def _landed(self, key: str) -> Landed | None:
        delta = self.context.lake.delta(self.context.log.uri)
        if delta is None:
            return None
        columns = ["_kind", "value", "seq", "_control"]
        rows = delta.to_pyarrow_table(filters=[("_window", "=", key)], columns=columns).to_pylist()
        controls = [row["_control"] for row in rows if row["_kind"] == "control"]
        if not rows:
            return None
        ((number, fingerprint, replaced),) = ((c["landing"], c["fingerprint"], c["replaced"]) for c in controls)
        changes = [
            (row["seq"], row["_kind"] == "delete", VALUES.index(row["value"]))
            for row in rows
            if row["_kind"] in ("upsert", "delete")
        ]
        assert replaced == sum(row["_kind"] == "replaced" for row in rows)
        return Landed(number, self.known[fingerprint], tuple(sorted(changes)), replaced > 0)

    def end(self) -> None:
        """Nothing goes on."""
        for run in (*self.runs, *self.zombies):
            if run is not None:
                run.die()


def _held(content: Content) -> tuple[list[Record], str]:
    """The records of a window that holds the content, and their fingerprint."""
    records = [item("k", VALUES[value], sequence, "d" if delete else "u") for sequence, delete, value in content]
    window = window_of(DAYS, day(1))
    return records, LiteralSource({window.key: records}).detect("", [window], {})[window.key].fingerprint
