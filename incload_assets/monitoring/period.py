"""The loads of one period of a table: its due windows, how long they and news waited, what failed."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

from incload_assets.history.load_row import LoadRow
from incload_assets.history.sums import COLLECTED_WITHIN
from incload_assets.monitoring.due_windows import due_times
from incload_assets.monitoring.facts import Check, TableFacts, Watch


@dataclass(frozen=True, kw_only=True)
class Period:
    """The part of a table's facts that belongs to a period. Times are in seconds.

    Args:
        since: The start of the period, aware; it does not belong to the period.
        until: Its end, aware; it belongs to the period.
        present: Whether it ends now, so that what is open counts as it is. A period in the past does not know what
            was open then.
        price_per_hour: Price of an hour of the computing that a load occupies; 0: unknown.
    """

    facts: TableFacts
    since: datetime
    until: datetime
    present: bool = True
    price_per_hour: float = 0.0

    def before(self, checks: Mapping[str, Check]) -> "Period":
        """The period before, with the results that the table's checks had at its end."""
        return Period(
            facts=replace(self.facts, checks=checks, watch=Watch(running=False)),
            since=self.since - (self.until - self.since),
            until=self.since,
            present=False,
            price_per_hour=self.price_per_hour,
        )

    @cached_property
    def known_until(self) -> datetime:
        """The instant until which it is certain what was loaded, as loads are collected a little later."""
        return self.until - COLLECTED_WITHIN if self.present else self.until

    @cached_property
    def loads(self) -> Sequence[LoadRow]:
        """The successful loads that ended in the period, oldest first."""
        return [row for row in self.facts.recent if row.outcome == "loaded" and self.since < row.ended_at <= self.until]

    @cached_property
    def failures(self) -> Sequence[LoadRow]:
        """The failed attempts that ended in the period, oldest first; cancelled ones are no failures."""
        return [row for row in self.facts.recent if row.outcome == "failed" and self.since < row.ended_at <= self.until]

    @cached_property
    def due(self) -> Sequence[datetime]:
        """The ends of the windows that became due in the period and after the table's first load, oldest first."""
        return self._due_after(self.since)

    @cached_property
    def on_time(self) -> int:
        """The number of due windows that were loaded when they were due."""
        return sum(any(row.on_time for row in self._attempts.get(end, ())) for end in self.due)

    @property
    def missed(self) -> int:
        """The number of due windows that were not loaded when they were due, whether or not a run ever started."""
        return len(self.due) - self.on_time

    @cached_property
    def waits(self) -> Sequence[float]:
        """How long each due window and each news had to wait, shortest first."""
        return sorted([*map(self._wait_of_window, self.due), *self._waits_of_news(), *self._waits_of_pending_news()])

    @cached_property
    def recoveries(self) -> Sequence[float]:
        """How long each failure or miss of a window lasted that was over in the period, or exceeds the objective."""
        limit = self.facts.table.slo.recovery.total_seconds()
        due = {*self._due_after(self.since - (self.until - self.since))}  # what began earlier may be over now
        found: list[float] = []
        for end in self._attempts.keys() | due:
            for began, over in self._incidents(end, missable=end in due):
                if over is not None and self.since < over <= self.until:
                    found.append((over - began).total_seconds())
                elif over is None and self.present and (self.until - began).total_seconds() > limit:
                    found.append((self.until - began).total_seconds())
        return sorted(found)

    @cached_property
    def backfilled(self) -> Sequence[LoadRow]:
        """The loads of windows that had been loaded after their end before."""
        return [row for row in self.loads if self._is_again(row)]

    @cached_property
    def seconds(self) -> float:
        """The time that the loads of the period took."""
        return sum(row.seconds for row in self.loads)

    @cached_property
    def bytes(self) -> int:
        """The size of the changes that the loads of the period brought into the log."""
        return sum(row.bytes for row in self.loads)

    @cached_property
    def _attempts(self) -> Mapping[datetime, Sequence[LoadRow]]:
        """All attempts until the end of the period, by the end of their window, oldest first."""
        found: dict[datetime, list[LoadRow]] = defaultdict(list)
        for row in self.facts.recent:
            if row.ended_at <= self.until:
                found[row.window_end].append(row)
        return found

    @cached_property
    def _first_after_end(self) -> Mapping[datetime, datetime]:
        """When each window was loaded for the first time after its end."""
        return {
            end: min(times)
            for end, rows in self._attempts.items()
            if (times := [row.ended_at for row in rows if row.outcome == "loaded" and row.ended_at >= end])
        }

    def _due_after(self, instant: datetime) -> list[datetime]:
        """The ends of the windows that became due after an instant and after the table's first load."""
        if self.facts.first is None:
            return []
        after, wait = max(instant, self.facts.first), self.facts.table.due_after
        return [time - wait for time in due_times(self.facts.table, self.known_until) if time > after]

    def _wait_of_window(self, end: datetime) -> float:
        """The time from the end of a due window to its first load since; 0 if it was loaded while it was open."""
        if (loaded := self._first_after_end.get(end)) is not None:
            return (loaded - end).total_seconds()
        rows = [row for row in self._attempts.get(end, ()) if row.outcome == "loaded"]
        if rows and rows[0].window not in self._pending:
            return 0.0
        return (self.known_until - end).total_seconds()

    def _waits_of_news(self) -> Iterator[float]:
        """The time from the request of each load that brought news into an open or loaded window to its end."""
        for row in self.loads:
            if (
                row.trigger != "sensor"
                or row.why == "repair"
                or not (row.ended_at < row.window_end or self._is_again(row))
            ):
                continue
            if (asked := self._first_request(row)) is not None:
                yield (row.ended_at - asked).total_seconds()

    def _waits_of_pending_news(self) -> Iterator[float]:
        """The time for which news wait that are not loaded yet, once it is longer than promised."""
        for key, since in self._pending.items():
            waiting = self.until - since
            window = next(iter(self.facts.table.known_windows([key])), None)
            if window is None or self.facts.first is None or waiting <= self.facts.table.promised:
                continue
            was_loaded = any(row.outcome == "loaded" for row in self._attempts.get(window.end, ()))
            counted = window.end in self.due and window.end not in self._first_after_end
            if not counted and (was_loaded or window.end > self.facts.first):
                yield waiting.total_seconds()

    @cached_property
    def _pending(self) -> Mapping[str, datetime]:
        """When news of each window were first seen that is not loaded now, by partition key."""
        seen = self.facts.watch.seen
        if seen is None or not self.present:
            return {}
        since = {row.window for row in self.facts.recent if row.outcome == "loaded" and row.ended_at > seen.time}
        return {key: datetime.fromisoformat(at) for key, at in seen.pending.items() if key not in since}

    def _first_request(self, load: LoadRow) -> datetime | None:
        """When a load was requested for the first time, by the failed attempts right before it."""
        asked = None
        for row in self._attempts[load.window_end]:
            if row.event == load.event and row.run_id == load.run_id:
                return asked or load.asked_at
            asked = None if row.outcome == "loaded" else asked or row.asked_at
        return load.asked_at

    def _is_again(self, load: LoadRow) -> bool:
        """True if a load's window had been loaded after its end before; a window two periods old is taken to have."""
        first = self._first_after_end.get(load.window_end)
        if first is not None and first < load.ended_at:
            return True
        long_ago = self.until - 2 * (self.until - self.since)
        return self.facts.first is not None and self.facts.first < long_ago and load.window_end < long_ago

    def _incidents(self, end: datetime, *, missable: bool) -> Iterator[tuple[datetime, datetime | None]]:
        """When each failure or miss of a window began, and when the window was loaded then; None: not yet."""
        rows = self._attempts.get(end, ())
        due = end + self.facts.table.due_after if missable else None
        began: datetime | None = None
        for row in rows:
            if due is not None and row.ended_at > due:
                began, due = began or due, None
            if row.outcome == "failed":
                began = began or row.ended_at
            elif row.outcome == "loaded":
                due = None  # it was loaded when it was due
                if began is not None:
                    yield began, row.ended_at
                began = None
        if began is not None or due is not None:
            yield began or due or end, None


def period_of(facts: TableFacts, at: datetime, price_per_hour: float = 0.0) -> Period:
    """The present period of a table's objectives; the facts were gathered at its end ``at``, which is aware."""
    length: timedelta = facts.table.slo.period
    return Period(facts=facts, since=at - length, until=at, price_per_hour=price_per_hour)
