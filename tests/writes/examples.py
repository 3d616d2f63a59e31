"""An example of the conformance suite: what is done with a table, and what its source holds meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pprint import pformat
from tempfile import mkdtemp
from typing import Any

from pyspark.sql import SparkSession

from incload_assets.assets import Quarantine
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.declaration.window import Window, now, window_of
from incload_assets.load.load import LoadReport
from incload_assets.load.ranges import load_first_windows
from incload_assets.load.reconcile import examine
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.maintenance.compact_logs import compact
from incload_assets.progress.checkpoint import Checkpoint
from incload_assets.trial.literal_source import Record
from incload_assets.writes.merge_into import app_id
from incload_assets.writes.plan import MergePlan
from tests.support.feeds import Follower
from tests.support.readers import check_alike
from tests.support.tables import day, make
from tests.writes.case import Case, Content, Hashes, hashes_of

Step = tuple[str, tuple[int, ...]]
"""What is done, with which days; a name of a public method of :class:`Run`."""


@dataclass(frozen=True, repr=False)
class Example:
    """What is done, and with what; as a string, a literal of it.

    Args:
        steps: In their order.
        held: What the source holds by partition key; nothing for any other.
        rewritten: What it holds when a window is rewritten.
    """

    steps: Sequence[Step]
    held: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    rewritten: Mapping[str, Sequence[Record]] = field(default_factory=dict)

    def __str__(self) -> str:
        fields = [f"{name}={pformat(value, width=110)},\n" for name, value in vars(self).items() if value]
        return "".join(["Example(\n", *fields, ")"])

    def __repr__(self) -> str:
        rows = sum(map(len, (*self.held.values(), *self.rewritten.values())))
        return f"{rows} rows, {list(self.steps)}"


class Differs(AssertionError):
    """The table is not what it should be."""

    def __init__(self, after: Step, found: set[tuple[Any, ...]], right: set[tuple[Any, ...]]) -> None:
        self.values = {str(value) for row in found ^ right for value in row}
        """In the rows that differ."""
        super().__init__(f"after {after} the table has {found - right or 'nothing'} too much, lacks {right - found}")


class Run:
    """Does what an example says with a new table; what lacks a step before it is left out.

    Args:
        spark: A session.
        case: Of whose table.
        example: Of what.
    """

    def __init__(self, spark: SparkSession, case: Case, example: Example) -> None:
        everything = Quarantine(max_share=1.0)
        self.case, self.example, self.done = case, example, 0
        self.content: Content = {day(n): list(example.held.get(day(n), ())) for _, days in example.steps for n in days}
        folder = Path(mkdtemp(prefix="conformance-"))
        self.table = make(spark, folder, self.content, quarantine=everything, **case.declared)
        self.context = LoadContext(spark, self.table.table, self.table.lake)
        self.loaded: Content = {}
        self.reports: dict[int, LoadReport] = {}
        self.forgotten: dict[int, tuple[ReadView, MergePlan]] = {}
        self.overtaken: set[int] = set()
        self.hashes: Hashes = {}
        self.past: dict[int, list[Sequence[Record] | None]] = {}
        self.reader = Follower(self.table.uri)

    def go(self) -> None:
        """All steps; ``done`` tells how many, should one fail.

        Raises:
            AssertionError: The table, or what a load says of itself, is not what it should be.
        """
        for step in self.example.steps:
            what, days = step
            getattr(self, what)(*days)
            if self.loaded:
                self.hashes |= hashes_of(self.table)  # a compaction may remove rows from the log
                found, right = self.case.held(self.table), self.case.right(self.table, self.loaded, self.hashes)
                if found != right:
                    raise Differs(step, found, right)
                if self.case.write.change_feed:
                    self.reader.check()
            self.done += 1
        if self.loaded:
            for uri in self.table.versions():
                check_alike(self.table.spark, uri)

    def load(self, number: int) -> None:
        """Load a window, the first time or once more."""
        report = self.table.load(number)
        assert report.evidence.rows_read == len(self.content[day(number)])
        self.overtaken |= self.forgotten.keys() & {number}  # not known to be clean: it commits at least its fence
        self.loaded[day(number)], self.reports[number] = self.content[day(number)], report
        self._remember(number)

    def rewrite(self, number: int) -> None:
        """Load a window that the source holds otherwise now."""
        self.content[day(number)] = list(self.example.rewritten.get(day(number), ()))
        self.load(number)

    def undo(self, number: int) -> None:
        """Undo the last load that changed a window."""
        past = self.past.get(number, [])
        former = next((content for content in reversed(past) if content != past[-1]), None)
        table = self.table
        undo_window(table.context(), self._window(number), Undo(actor="somebody"))
        if former is None:
            self.loaded.pop(day(number), None)
        else:
            self.loaded[day(number)] = former
        self.reports.pop(number, None)
        self._remember(number)

    def release(self, number: int) -> None:
        """Load a window from its source although it is held."""
        self.table.load(number, if_held="release")
        self.loaded[day(number)] = self.content[day(number)]
        self._remember(number)

    def _remember(self, number: int) -> None:
        self.past.setdefault(number, []).append(self.loaded.get(day(number)))

    def plan(self, number: int) -> None:
        """MergePlan in full, as a load that stops here and goes on later."""
        if number in self.reports:
            at = self.context.read_view((self._window(number),), app_id(self.table.table, self._window(number)))
            self.forgotten[number] = at, self.case.write.plan(self.context, at, full=True)

    def replay(self, number: int) -> None:
        """A replay, and plans that have been overtaken, write no file."""
        files = self.table.files() if self.loaded else set()
        if number in self.reports:
            self.table.replay(self.reports[number])
        for other in sorted(self.overtaken):
            assert self.case.write.apply(self.context, *self.forgotten[other]) is None
        assert not self.loaded or self.table.files() == files

    def together(self, *numbers: int) -> None:
        """Load windows for the first time, at once where the way of writing can."""
        windows = [window for window in map(self._window, sorted(numbers)) if window.key not in self.loaded]
        done = load_first_windows(self.context, windows, lambda ws: {w.key for w in ws})
        in_ranges = self.table.table.in_ranges
        loaded = {report.window.key for reports in done for report in reports} if in_ranges else set()
        assert loaded == ({window.key for window in windows} if in_ranges and len(windows) > 1 else set())
        for window in windows:
            if window.key not in loaded:
                self.table.load(window.key)
            self.loaded[window.key] = self.content[window.key]
        for number in numbers:
            self._remember(number)

    def compact_but(self, *numbers: int) -> None:
        """Compact what is loaded, where that can be, but for windows that will be rewritten."""
        if self.case.write.compacts and self.loaded:
            left_alone = set(map(day, numbers))
            at_rest = {
                key: record.fingerprint for key, record in self.context.log.records().items() if key not in left_alone
            }
            compact(self.context, now(), lambda _: at_rest)
            self.settled()

    def edited(self) -> None:
        """Somebody deletes and edits rows of the table; its windows are then loaded once more as they are."""
        if not self.loaded:
            return
        delta, table = self.context.lake.sql_name(self.table.uri), self.table.table
        first, names = table.columns[0], set(table.schema.names)
        edits = {} if table.write.is_content(table.changes) else {"value": "'edited'", "seq": "coalesce(seq, 0) + 1000"}
        self.table.spark.sql(f"DELETE FROM {delta} WHERE pmod(hash({first}), 4) = 0").first()
        for rest, edit in enumerate(({"value"}, {"value", "seq"}), 1):
            if edit <= names & edits.keys():
                assign = ", ".join(f"{name} = {edits[name]}" for name in sorted(edit))
                self.table.spark.sql(f"UPDATE {delta} SET {assign} WHERE pmod(hash({first}), 4) = {rest}").first()
        for key, record in self.context.log.records().items():
            self.table.load(key, checkpoint=Checkpoint(record.fingerprint, clean=True), if_held="complete")

    def settled(self) -> None:
        """Plans made in full would change nothing."""
        every = tuple(window_of(self.case.partitions_def, key) for key in sorted(self.loaded))
        for some in [every] if self.case.write.ranges and every else [(window,) for window in every]:
            at = self.context.read_view(some, app_id(self.table.table, some[0]))
            plan = self.case.write.plan(self.context, at, full=True)
            assert sum(found.pending for found in examine(plan, at).values()) == 0

    def _window(self, number: int) -> Window:
        return window_of(self.case.partitions_def, day(number))
