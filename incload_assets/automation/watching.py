"""The sensor ``watch_sources``: it looks at the sources of all tables, and requests loads of what they have.

A tick looks at the tables whose interval is over, some at once, each in a thread of its own that reads source and log.
It waits for a look for some seconds; a source that takes longer keeps its thread, and its table is not looked at twice
at once, while the tables whose looks are done are decided about. A table without news at its source or in Dagster,
and for which no instant has come that matters, costs a look at the times of its folders, or one question about
its newest windows; it is looked at wholly every hour. What the sensor knows is in the memory of its process:
where that starts again, every table is looked at wholly once.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock

import dagster as dg

from incload_assets.automation.looks import Look, Seen, Watched, next_instant, take
from incload_assets.automation.news import News
from incload_assets.automation.pace import Pace
from incload_assets.automation.window_requests import decided, is_new, run_requests, summary
from incload_assets.automation.workers import Workers
from incload_assets.checks import freshness, gaps
from incload_assets.checks.findings import loaded_since
from incload_assets.checks.observation import Observation, unanswered
from incload_assets.checks.recording import last_results, record_what_changed
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.load.error_translation import translated, unforeseen
from incload_assets.load.faults import of_table
from incload_assets.platform.errors import IncrementalLoadError, LakeUnreadable, SourceUnavailable
from incload_assets.platform.lake import BACK, Lake
from incload_assets.platform.wording import several, some, spoken
from incload_assets.progress.lake_identity import mistaken
from incload_assets.progress.lateness import lateness_of
from incload_assets.progress.observed import (
    NEVER,
    SENSOR,
    Observed,
    Pass,
    folder_of,
    keep_observed,
    keep_watched,
    observation,
    observed_tables,
)
from incload_assets.progress.pause import Pause, pauses_in_force
from incload_assets.progress.progress import SourceState, WindowProgress
from incload_assets.progress.recorded import Recorded
from incload_assets.progress.status import Overview, status_from

AT_ONCE = 16
"""Number of cheap looks at once, beside those that take too long."""
WHOLE_AT_ONCE = 2
"""Number of whole looks at once: they keep a processor busy, and more of them would be in each other's way."""
STEP = 0.25
"""How long a tick waits at a time, in seconds."""
PATIENCE = 3.0
"""How long a tick waits for one look, in seconds; those that take longer are waited for by later ticks."""
SLOW = 5.0
"""How long a look counts among those at once, in seconds; one that takes longer waits for its source."""
BUDGET = 25.0
"""How long a tick looks at tables, in seconds; the others come first in the next one. Dagster ends a tick after 60."""
REQUESTS = 50
"""Number of runs from which on a tick requests no others; the tables that are left come first in the next one."""
HANGS = 60.0
"""How long a look may take until it counts as one that hangs, in seconds."""
CHECKED_AGAIN, EACH = 600.0, 3.6
"""How long the light checks of a table hold whose windows change, in seconds, and the share of each of many tables."""
LINES = 20
"""The most tables that a tick describes."""


def watch_sensor(tables: Mapping[Table, int]) -> dg.SensorDefinition:
    """The sensor that requests, for all tables, the partitions for which their sources have new data, oldest first.

    It covers new and changed files, windows missed during downtime, windows that are over and declared empty, failed
    windows whose retry is due, and windows that a check found wrong, but not what a queued or running run covers. A
    table whose source does not answer, or that cannot be looked at for another reason, delays no other table.

    Args:
        tables: The most partitions of one run by table.
    """
    watching = Watching(tables)

    @dg.sensor(
        name=SENSOR,
        asset_selection=dg.AssetSelection.assets(*(table.key for table in tables)),
        minimum_interval_seconds=round(min(table.interval for table in tables).total_seconds()),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Requests the partitions of {several(len(tables), 'table')} for which their sources have new data",
        required_resource_keys={"lake"},
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        return watching.tick(context)

    return sensor


def _hanging(table: Table) -> SourceUnavailable:
    return SourceUnavailable(
        f"{table.name}: its source has not answered for over {spoken(timedelta(seconds=HANGS))}",
        rule="a source answers or fails in seconds",
        remedy="see whether its disk, network or server hangs; the table is looked at again when that has ended",
    )


class Watching:
    """The sensor's knowledge of all tables, from tick to tick."""

    def __init__(self, tables: Mapping[Table, int]) -> None:
        self.checked_again = max(CHECKED_AGAIN, EACH * len(tables))
        began, each = time.monotonic(), self.checked_again / len(tables)  # not all are checked in the first tick
        self.tables = {
            table.name: Watched(table, most, began - number * each, closely=Pace(len(tables)))
            for number, (table, most) in enumerate(tables.items())
        }
        self.news, self.is_known, self._workers = News(), False, Workers("incload-looks")
        self.under_way: dict[str, Look] = {}
        self._ended: SimpleQueue[Watched] = SimpleQueue()
        self._ticking = Lock()

    def tick(self, context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        """Looks at the tables that are due, and requests what they lack."""
        if not self._ticking.acquire(blocking=False):
            return dg.SkipReason("Another tick is under way.")
        try:
            return _Tick(self, context).run()
        finally:
            self._ticking.release()

    def __iter__(self) -> Iterator[Watched]:
        return iter(self.tables.values())

    def begin(self, one: Watched, lake: Lake, *, wholly: bool) -> None:
        """Starts a look at a table in a thread."""
        one.look = self.under_way[one.table.name] = look = Look(wholly)
        if wholly:
            one.news = False

        def run() -> None:
            take(one, look, lake)
            self._ended.put(one)

        self._workers.do(run)

    def young(self, seconds: float, *, wholly: bool) -> int:
        """The number of looks under way that began within some seconds."""
        since = time.monotonic() - seconds
        return sum(look.wholly == wholly and look.began > since for look in self.under_way.values())

    def next_ended(self, seconds: float) -> Watched | None:
        """A table whose look has ended; None if there is none within some seconds."""
        with suppress(Empty):
            ended = self._ended.get(timeout=seconds)
            del self.under_way[ended.table.name]
            return ended
        return None

    def behind(self, at: datetime) -> dict[str, str]:
        """When the tables were last looked at that have been waiting for too long, by name; empty: never."""
        waiting = {name: one.ended for name, one in self.tables.items() if one.waits_too_long(at)}
        return {name: ended.isoformat() if ended else "" for name, ended in waiting.items()}


class _Tick:
    """One tick: which tables it has looked at, and what it requests."""

    def __init__(self, watching: Watching, context: dg.SensorEvaluationContext) -> None:
        self.watching, self.context = watching, context
        self.instance, self.lake = context.instance, context.resources.lake
        self.at, self.began = now(), time.monotonic()
        self.location = context.code_location_origin.location_name if context.code_location_origin else ""
        self.whole: deque[Watched] = deque()
        self.cheap: deque[Watched] = deque()
        self.requests: list[dg.RunRequest] = []
        self.paused: dict[str, Pause] = {}

    def run(self) -> dg.SensorResult | dg.SkipReason:
        if not self.watching.is_known:
            keep_watched(self.instance, self.location, self.watching.tables, folder_of(Path.cwd()))
            self.watching.is_known = True
        news = self.watching.news.since_last_time(self.instance, self.at)
        self.paused = {pause.table: pause for pause in pauses_in_force(self.lake, self.at)}
        due = []
        for one in self.watching:
            one.news = one.news or news is None or one.table.key in news
            if (is_paused := one.table.name in self.paused) != one.paused:
                one.paused, one.quiet = is_paused, None
            if one.look is None and one.due <= self.began:
                due.append(one)
            elif one.look is not None and not one.look.has_ended and self.began - one.look.began > HANGS:
                self._fail(one, _hanging(one.table), one.ended)
        self._restore(due)
        for one in sorted(due, key=lambda one: (one.has_trouble, one.due)):  # what may hang again comes last
            (self.whole if one.news or one.quiet is None else self.cheap).append(one)
        while len(self.requests) < REQUESTS and (left := self.began + BUDGET - time.monotonic()) > 0:
            self._begin_some()
            if (ended := self.watching.next_ended(min(left, STEP))) is not None:
                self._end(ended)
            elif not (self.whole or self.cheap or any(self.watching.young(PATIENCE, wholly=w) for w in (True, False))):
                break
        watching, marks = self.watching, self.watching.news.marks
        unsure = [name for name, one in watching.tables.items() if one.may_have_changed(now())]
        self.context.update_cursor(Pass(self.at.isoformat(), watching.behind(now()), unsure, marks).as_text())
        if self.requests:
            return dg.SensorResult(run_requests=self.requests)
        return dg.SkipReason(self._summary())

    def _begin_some(self) -> None:
        """Begins looks as long as there may be more at once."""
        while self.cheap and self.watching.young(SLOW, wholly=False) < AT_ONCE:
            self.watching.begin(self.cheap.popleft(), self.lake, wholly=False)
        while (
            self.whole
            and self.watching.young(SLOW, wholly=True) < WHOLE_AT_ONCE
            and self.watching.young(HANGS, wholly=True) < AT_ONCE
        ):
            self.watching.begin(self.whole.popleft(), self.lake, wholly=True)

    def _look_wholly(self, one: Watched) -> None:
        """Looks at a table next, in this tick or, if there is no time for it, in the next one."""
        one.due = 0.0
        self.whole.appendleft(one)

    def _restore(self, due: Iterable[Watched]) -> None:
        """Takes the kept observations of tables that this process has not looked at yet."""
        if new := [one for one in due if one.observed is None and one.ended is None]:
            kept = observed_tables(self.instance, [one.table for one in new])
            for one in new:
                one.observed = kept.get(one.table.name)

    def _end(self, one: Watched) -> None:
        """Takes the outcome of a look, and decides about the table."""
        look, table = one.look, one.table
        assert look is not None
        one.look, one.due = None, time.monotonic() + table.interval.total_seconds()
        if look.error is None and (look.has_news or one.news):  # the latter: of a run that ended during the look
            self._look_wholly(one)
            return
        error, one.ended, before = look.error, now(), one.ended
        try:
            if look.state is not None and look.seen is not None:
                self._decide(one, look, look.state, look.seen)
        except Exception as raised:
            error = raised
        if error is not None:
            self._fail(one, error, before)

    def _decide(self, one: Watched, look: Look, state: SourceState, seen: Seen) -> None:
        table = one.table
        recorded = Recorded(self.instance, [table])
        progress, planned = decided(self.instance, table, state, seen.at, recorded)
        last = recorded.last_materialization(table)
        if planned.asks and last is not None and last.timestamp >= seen.at.timestamp():
            # the log was read before a load ended, and Dagster is asked after it: such a window only looks changed
            loaded = loaded_since(self.instance, table, {ask.partition: seen.at for ask in planned.asks})
            planned = replace(planned, asks=[ask for ask in planned.asks if ask.partition not in loaded])
        if state.passed and any(is_new(window, seen.at) for window in progress[state.passed :]):
            one.pace = Pace()  # older windows may wait, too, and are requested together with it
            self._look_wholly(one)
            return
        late = lateness_of(self.instance, table, progress, seen.at)
        row = self._row(one, look, state, progress, recorded)
        found = observation(table, progress, late, row, planned.stopped, one.observed, seen.at, self.location)
        if one.observed is None or not found.says_the_same(one.observed):
            keep_observed(self.instance, table, found)
        one.observed = found
        one.line = summary(table, progress, planned, len(progress) - state.passed if state.passed else None)
        if (pause := self.paused.get(table.name)) is not None:
            waiting = f"waiting for its end: {several(len(planned.asks), 'window')}; " if planned.asks else ""
            one.line = f"{table.name} is {pause}; {waiting}{one.line}"
        elif planned.asks and (why := mistaken(self.instance, table, self.lake)) is not None:
            one.line = f"{table.name}: nothing is requested, because {why}. What to do: set {BACK}."
        else:
            most = one.partitions_per_run
            self.requests += run_requests(self.instance, table, progress, planned.asks, seen.at, most)
        one.quiet = None
        if state.passed:
            return
        self._check(one, Observation(table, self.lake, self.instance, seen.at, state, progress, pause=pause))
        one.until = next_instant(table, progress, planned, pause, seen.at)
        if pause is not None or not planned.asks:
            one.quiet = replace(seen, until=one.until)

    def _row(
        self, one: Watched, look: Look, state: SourceState, progress: Sequence[WindowProgress], recorded: Recorded
    ) -> Overview | str:
        """The row of a table among others, or why it cannot be read: its source's news are loaded nevertheless."""
        if look.unreadable:
            return look.unreadable
        assert look.lake is not None
        try:
            with of_table(one.table, look.lake):
                return status_from(self.instance, one.table, look.lake, state, progress, look.at, recorded).overview
        except IncrementalLoadError as error:
            return str(error)

    def _check(self, one: Watched, seen: Observation) -> None:
        """Evaluates the light checks of a table if that was long ago, and at an instant those that depend on time."""
        is_long_ago = time.monotonic() - one.checked >= self.watching.checked_again
        if not is_long_ago and (one.until is None or seen.now < one.until):
            return
        if is_long_ago:
            one.checked = time.monotonic()
        last = last_results(self.instance, [one.table])[one.table.name]
        only = () if is_long_ago else (freshness.NAME, gaps.NAME)
        record_what_changed(self.instance, seen, last, self.context.log.error, only=only)

    def _fail(self, one: Watched, error: Exception, before: datetime | None) -> None:
        """Keeps why a table could not be looked at; whatever it is, the others go on."""
        try:
            self._keep_trouble(one, error, before)
        except Exception as other:
            known = translated(other, one.table.name, one.table, self.lake)
            self.context.log.error(str(known), exc_info=unforeseen(other))

    def _keep_trouble(self, one: Watched, error: Exception, before: datetime | None) -> None:
        table = one.table
        known = translated(error, table.name, table, self.lake)
        trouble, one.quiet = str(known), None
        if not trouble.startswith(table.name):
            trouble = f"{table.name}: {trouble}"
        if trouble != one.line:  # else it is in the log of an earlier tick
            self.context.log.error(trouble, exc_info=unforeseen(error))
        one.line = trouble
        if one.observed is None or one.observed.trouble != trouble:
            last = one.observed or Observed(at=NEVER, location=self.location)
            if not last.trouble and before is not None:
                last = last.seen_at(before)
            one.observed = replace(last, trouble=trouble)
            keep_observed(self.instance, table, one.observed)
        if isinstance(known, IncrementalLoadError) and not isinstance(known, LakeUnreadable):
            self._check(one, unanswered(self.instance, table, self.lake, now(), trouble))

    def _summary(self) -> str:
        """Why nothing is requested: the last line about each table if they are few, or about those that need one."""
        every = [*self.watching]
        lines = [one.line for one in every if one.line and (len(every) <= LINES or one.needs_a_line)]
        parts = lines[:LINES]
        if len(every) > LINES:
            parts.insert(0, f"{several(len(every), 'table')}: nothing new")
        if len(lines) > LINES:
            parts.append(f"{len(lines) - LINES} more like these")
        if under_way := [one.table.name for one in every if one.look is not None]:
            parts.append(f"still looking at {some(under_way)}")
        return "\n".join(parts) or "nothing new"
