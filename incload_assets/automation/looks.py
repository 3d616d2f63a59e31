"""Looks at a table's source and log, in threads: whole ones, and cheap ones that find that nothing has changed."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from incload_assets.automation.pace import NEWEST, Pace
from incload_assets.automation.policy import Decision
from incload_assets.change_log.log import ChangeLog
from incload_assets.declaration.source import DetectRequest, Position, Watch
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window, now
from incload_assets.load.faults import expect_readable, of_table
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.platform.object_stores import in_object_store
from incload_assets.progress.observed import RECENT, Observed
from incload_assets.progress.pause import Pause
from incload_assets.progress.progress import SourceState, WindowProgress, source_state, windows_to_look_at

WHOLLY = timedelta(hours=1)
"""How often a table without news is looked at wholly."""
BEHIND = timedelta(minutes=1)
"""How much longer than its interval a table may wait for a look before it counts as behind."""


@dataclass(frozen=True)
class Seen:
    """The findings of the last whole look at a table, to tell whether anything has changed since.

    Args:
        until: Until when it holds without any news.
        watch: The watch over the source; None if only a detection notices changes.
        asked: The newest windows that the source was asked about, and the start of the first window of all.
        found: The fingerprints of their positions.
        folders: The modification times of the Delta logs of table and change log, on this machine.
    """

    at: datetime
    until: datetime
    watch: Watch | None
    asked: Sequence[Window]
    first: datetime | None
    found: Mapping[str, str]
    folders: Sequence[int | None]


@dataclass
class Look:
    """A look that is under way, or its outcome: a state, an error, or whether there is news.

    ``lake`` has the tables open that it read; ``unreadable`` says why the table or its log cannot be read.
    """

    wholly: bool
    began: float = field(default_factory=time.monotonic)
    at: datetime = field(default_factory=lambda: now())
    state: SourceState | None = None
    seen: Seen | None = None
    lake: Lake | None = None
    unreadable: str = ""
    error: Exception | None = None
    has_news: bool = False
    has_ended: bool = False


@dataclass
class Watched:
    """One table as the sensor knows it.

    Args:
        partitions_per_run: The most partitions that one run loads.
        due: When its next look is due, by the monotonic clock.
        news: Whether Dagster has recorded something about it since its last look began.
        quiet: What the last whole look found, if nothing was left to do; None: the next look is a whole one.
        checked: When its light checks were last evaluated, by the monotonic clock.
        until: The first instant at which something may change without any news, by the last whole look.
        ended: When a look at it last ended, well or not.
        observed: The observation that is kept.
        line: What the last tick that decided about it said of it.
    """

    table: Table
    partitions_per_run: int
    checked: float
    pace: Pace = field(default_factory=Pace)
    closely: Pace = field(default_factory=Pace)
    due: float = 0.0
    news: bool = True
    look: Look | None = None
    quiet: Seen | None = None
    paused: bool = False
    until: datetime | None = None
    ended: datetime | None = None
    observed: Observed | None = None
    line: str = ""

    def waits_too_long(self, at: datetime) -> bool:
        """True if it waits for a look for too long, or had none yet."""
        return self.ended is None or at - self.ended > self.table.interval + BEHIND

    def may_have_changed(self, at: datetime) -> bool:
        """True if something has happened that no look has seen, or there was no look for a while."""
        return self.news or self.ended is None or at - self.ended > RECENT

    @property
    def needs_a_line(self) -> bool:
        """True if a person wants to know of it: it is paused, cannot be looked at, or windows wait for a person."""
        return self.paused or self.has_trouble or (self.observed is not None and bool(self.observed.stopped))

    @property
    def has_trouble(self) -> bool:
        """True if it could not be looked at the last time."""
        return self.observed is not None and bool(self.observed.trouble)


def take(one: Watched, look: Look, lake: Lake) -> None:
    """Takes a look, in a thread: a whole one, or a cheap one, which finds whether a whole one is needed."""
    try:
        if look.wholly or one.quiet is None:
            _look(one, look, lake)
        else:
            look.has_news = _may_have_changed(one, one.quiet, lake, look.at)
    except Exception as error:  # of any kind: it is this table's
        look.error = error
    look.has_ended = True


def _look(one: Watched, look: Look, lake: Lake) -> None:
    """Reads log and source of a table, wholly or, between two whole looks that take long, its newest windows."""
    table, began = one.table, time.monotonic()
    newest = None if one.pace.is_due() else NEWEST
    folders = _log_times(table, lake)
    watch = table.source.watch(table.name, windows_to_look_at(table, look.at)) if newest is None else None
    look.lake = lake = lake.followed()
    state = source_state(table, lake, look.at, newest)
    try:
        with of_table(table, lake):
            expect_readable(table, lake)
    except IncrementalLoadError as error:
        look.unreadable = str(error)
    if newest is None:
        for pace in (one.pace, one.closely):
            pace.took(time.monotonic() - began)
    asked, first = state.asked[-NEWEST:], state.windows[0].start if state.windows else None
    look.state = state
    look.seen = Seen(look.at, look.at, watch, asked, first, _fingerprints(asked, state.found), folders)


def _may_have_changed(one: Watched, quiet: Seen, lake: Lake, at: datetime) -> bool:
    """False if neither source nor lake has changed since the last whole look, and no instant has come that matters."""
    table, began, closely = one.table, time.monotonic(), one.closely.is_due()
    if at >= quiet.until or _log_times(table, lake) != quiet.folders:
        return True
    if quiet.watch is not None:
        changed = quiet.watch.changed(closely=closely)
        if closely:
            one.closely.took(time.monotonic() - began)
        return changed
    if closely:  # only a detection tells of older windows
        return True
    ingested = ChangeLog(table, lake).ingested
    request = DetectRequest(table.name, quiet.asked, ingested, lake, quiet.first, table.reads_older)
    return _fingerprints(quiet.asked, table.source.survey(request).positions) != quiet.found


def _fingerprints(windows: Sequence[Window], positions: Mapping[str, Position]) -> dict[str, str]:
    return {window.key: positions[window.key].fingerprint for window in windows if window.key in positions}


def _log_times(table: Table, lake: Lake) -> Sequence[int | None]:
    """When the Delta logs of a table and its change log last got a commit, if they are on this machine."""
    uris = [lake.table_uri(table.key.path), lake.log_uri(table.key.path)]
    return [] if in_object_store(lake.root) else [_changed(f"{uri}/_delta_log") for uri in uris]


def _changed(folder: str) -> int | None:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return None


def next_instant(
    table: Table, progress: Sequence[WindowProgress], planned: Decision, pause: Pause | None, at: datetime
) -> datetime:
    """The next instant at which a window ends or is due, a retry is due, a pause ends, or it is time for a look."""
    last = progress[-1].window if progress else None
    following = table.partitions_def.get_next_partition_window(last.end, respect_bounds=False) if last else None
    instants = [at + WHOLLY, *planned.later.values()]
    instants += [following.end] if following else []
    instants += [pause.until] if pause else []
    for one in progress:
        instants += [one.window.end, one.window.end + table.due_after]
    return min(instant for instant in instants if instant > at)
