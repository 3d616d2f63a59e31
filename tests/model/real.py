"""The real load in the steps of the model: it stops where they end, and its tables are read as the model's state."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.window import Window, window_of
from incload_assets.ingest import ingest as landing
from incload_assets.load import load, ranges
from incload_assets.load.load import LoadReport
from incload_assets.load.range_fences import range_app_id
from incload_assets.maintenance.compact_logs import compact
from incload_assets.platform.errors import ConcurrentLoad, WindowCompacted
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.progress.checkpoint import Checkpoint
from incload_assets.trial.literal_source import LiteralSource, Record
from incload_assets.writes.merge_into import app_id
from incload_assets.writes.snapshot import Snapshot
from tests.model.gates import HERE, IDLE, SENT, Place, Run, pair, stop
from tests.model.protocol import Model
from tests.model.terms import Change, Content, Landed, State
from tests.support.detection import detected
from tests.support.tables import DAYS, checkpoint_of, day, item, make

VALUES = ("b", "a", "c")
"""The value of an item by the model's content hash: of the last two, the real hashes are in that order, too."""


class View(NamedTuple):
    """What can be seen of a state, the model's or the real one; the last fences are those of no single window."""

    log: tuple[Landed | None, ...]
    landings: tuple[int, ...]
    row: Change | None
    fences: tuple[tuple[int, int], ...]
    checkpoints: tuple[Content | None, ...]
    runs: tuple[Place, ...]
    compacted: tuple[str, ...]


def view_of(state: State) -> View:
    """What can be seen of the model's state."""
    places = []
    for run in state.runs:
        number = getattr(run.work, "landed", run.work)
        at = "removal" if run.at == "empty removal" else run.at
        if at == "intent" and run.asked:
            at = "move landing"
        places.append((at, number and number.number) if run.active else IDLE)
    contents = tuple(known.content for known in state.checkpoints)
    return View(state.log, state.landings, state.row, state.fences, contents, tuple(places), state.frozen)


class Real:
    """A real table in the place of a model's, and what Dagster does.

    Args:
        settings: Of the server.
        folder: For the table.
        model: On whose case; it also says what Dagster knows, of the windows and of other runs.
    """

    declared: Mapping[str, Any] = {}
    """Of the table."""

    def __init__(self, settings: Settings, folder: Path, model: Model) -> None:
        self.settings, self.model, self.state = settings, model, model.start()
        self.windows = {name: window_of(DAYS, day(n)) for n, name in enumerate(model.names, 1)}
        self.held = {content: _held(content) for contents in model.case.windows.values() for content in contents}
        self.known = {fingerprint: content for content, (_, fingerprint) in self.held.items()}
        records = {w.key: self.held[model.case.windows[name][0]][0] for name, w in self.windows.items()}
        self.table = make(None, folder, records, **self.declared)  # type: ignore[arg-type]  # each run has its own
        self.context = self.table.context()
        self.runs: list[Run | None] = [None] * len(self.state.runs)
        self.zombies: list[Run] = []
        self.checkpoints: dict[str, Content] = {}
        self.proofs: dict[str, Mapping[str, Any]] = {}

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
                    metadata=self.proofs.get(name, {}),
                )
                context, chosen = self.context, name in self.model.case.chosen
                report = load.load_window(
                    LoadContext(spark, context.table, context.lake), window, checkpoint=known, rewrite_compacted=chosen
                )
                self._checkpoint(report, name)

    def _together(self, spark: SparkSession, i: int, left: dict[Window, str]) -> Iterator[LoadReport]:
        def first_of(windows: Sequence[Window]) -> set[str]:
            return {window.key for window in windows if self._is_untried(i, left[window])}

        def still_first(windows: Sequence[Window]) -> set[str]:
            stop("look")
            return first_of(windows)

        first = first_of(list(left))
        if len(first) > 1:
            context, chosen = replace(self.context, spark=spark), [window for window in left if window.key in first]
            for reports in ranges.load_first_windows(context, chosen, still_first):
                yield from reports

    def _is_untried(self, i: int, name: str) -> bool:
        known = self.state.checkpoints[self.model.names.index(name)]
        others = any(name in other.pending for j, other in enumerate(self.state.runs) if j != i)
        return known.content is None and not known.failed and not others

    def _checkpoint(self, report: LoadReport, name: str) -> None:
        self.checkpoints[name] = self.known[report.record.fingerprint]
        self.proofs[name] = checkpoint_of(report).metadata

    def view(self) -> View:
        """What can be seen."""
        table, lake, log = self.context.table, self.context.lake, self.context.log
        windows, (of_landings, of_merges) = self.windows.values(), self.shared_fences()
        landings = [*(landing.ingestion_app_id(table, window) for window in windows), of_landings]
        merges = [*(app_id(table, window) for window in windows), of_merges]
        rows = self.table.rows("value", "seq") if lake.version(self.context.uri) is not None else set()
        assert len(rows) <= 1
        return View(
            tuple(self._landed(window.key) for window in windows),
            tuple(lake.transaction_version(log.uri, fence) or 0 for fence in landings),
            next(((seq, False, VALUES.index(value)) for value, seq in rows), None),
            tuple(pair(lake.transaction_version(self.context.uri, fence) or 0) for fence in merges),
            tuple(self.checkpoints.get(name) for name in self.windows),
            tuple(IDLE if run is None else run.at for run in self.runs),
            tuple(name for name, window in self.windows.items() if self._is_compacted(window)),
        )

    def shared_fences(self) -> tuple[str, str]:
        """The names of the fences that are not of one window: in the log, in the table."""
        of_range = range_app_id(self.context.table, self.windows["A"])
        return f"{of_range}/landing", of_range

    def _is_compacted(self, window: Window) -> bool:
        record = self.context.log.record(window.key)
        return record is not None and record.compacted_at is not None

    def _landed(self, key: str) -> Landed | None:
        delta = self.context.lake.delta(self.context.log.uri)
        if delta is None:
            return None
        columns = ["_kind", "value", "seq", "_control"]
        rows = delta.to_pyarrow_table(filters=[("_window", "=", key)], columns=columns).to_pylist()
        records = [row["_control"] for row in rows if row["_kind"] == "control"]
        if not rows:
            return None
        ((number, fingerprint, replaced),) = ((c["landing"], c["fingerprint"], c["replaced"]) for c in records)
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


class RealSnapshots(Real):
    """A table of snapshots."""

    declared: Mapping[str, Any] = {
        "write": Snapshot(max_shrink=1.0),
        "changes": Changes(keys=["id"], sequence_by=["seq"]),
    }

    def shared_fences(self) -> tuple[str, str]:
        """That of the table."""
        return super().shared_fences()[0], f"{self.context.table.name}/*"


class RealCompaction(Real):
    """A table whose log is compacted, by a run that loads nothing."""

    def shared_fences(self) -> tuple[str, str]:
        """That of the compaction."""
        return f"{self.context.table.name}/compaction", super().shared_fences()[1]

    def _work(self, i: int) -> None:
        try:
            if self.state.runs[i].asked:
                super()._work(i)
            else:
                self._compact()
        except (WindowCompacted, ConcurrentLoad):
            pass  # it has failed: its checkpoint stays as it is

    def _compact(self) -> None:
        HERE.compacts, looks = True, 0

        def at_rest(keys: Collection[str]) -> dict[str, str]:
            nonlocal looks
            looks += 1
            if looks > 1:
                stop("compaction look")
                HERE.has_looked = True
            checkpoints = dict(zip(self.model.names, self.state.checkpoints, strict=True))
            busy = {name for run in self.state.runs for name in run.pending}
            return {
                window.key: self.held[known.content][1]
                for name, window in self.windows.items()
                if (known := checkpoints[name]).clean and known.content is not None and name not in busy
                if window.key in keys
            }

        end = max(self.windows[name].end for name in self.model.case.old)
        with open_session(self.settings) as spark:
            compact(replace(self.context, spark=spark), end, at_rest)


def _held(content: Content) -> tuple[list[Record], str]:
    """The records of a window that holds the content, and their fingerprint."""
    records = [item("k", VALUES[value], sequence, "d" if delete else "u") for sequence, delete, value in content]
    window = window_of(DAYS, day(1))
    return records, detected(LiteralSource({window.key: records}), "", [window], {})[window.key].fingerprint
