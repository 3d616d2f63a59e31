"""A summary of a Dagster instance's events in a few lines: loads, partitions that turn green, failures."""

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import dagster as dg

from incload_assets.cli.support.reasons import reasons
from incload_assets.platform.dagster_private import RunsFilter
from incload_assets.platform.wording import some
from incload_assets.progress.request import Request
from incload_assets.progress.slots import work_of

SUM_SECONDS = 60.0
PAUSE_SECONDS = 10.0
QUIET_SECONDS = 60.0
_OVERLAP = timedelta(seconds=5)
"""Overlap of two queries for runs: a record that is written later may have an earlier date, by the time of a write."""
_FAILED = {dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}


class Watch:
    """Reports on the runs of an instance since this object was created.

    Each line is reported once. The first partition that turns green and each failure get their own lines; other green
    partitions are summed up once a minute.

    Args:
        address: The UI's address, for links to runs.
        began: When the user began to wait, by the monotonic clock.
    """

    def __init__(self, instance: dg.DagsterInstance, address: str, began: float, say: Callable[[str], None]) -> None:
        self._instance, self._address, self._began, self._say = instance, address, began, say
        self._after = datetime.now(UTC)
        self._loading: dict[str, str] = {}
        self._over: set[str] = set()
        self._seen: Counter[str] = Counter()
        self._green: set[tuple[str, str]] = set()
        self._fresh: Counter[str] = Counter()
        self._summed = self._active = time.monotonic()
        self._quiet = False

    @property
    def doing(self) -> str:
        """The loads under way, in one line; empty if there are none."""
        names = sorted(self._loading.values())
        return f"loading {some(names, 2)}; green so far: {len(self._green)}" if names else ""

    def look(self) -> None:
        """Reports what is new since the last call."""
        records = self._instance.get_run_records(RunsFilter(updated_after=self._after))
        for record in reversed(records):
            run = record.dagster_run
            if run.status == dg.DagsterRunStatus.STARTED and run.run_id not in self._loading and _loads(run):
                self._loading[run.run_id] = _name(run)
                if not self._green:
                    self._say(f"Loading {_name(run)}")
        for run_id in list(self._loading):
            self._count(run_id)
        for record in reversed(records):
            run = record.dagster_run
            if run.is_finished and run.run_id not in self._over:
                self._over.add(run.run_id)
                self._end(run)
            self._after = max(self._after, record.update_timestamp.replace(tzinfo=UTC) - _OVERLAP)
        self._sum_up()

    def _end(self, run: dg.DagsterRun) -> None:
        if _loads(run):
            self._count(run.run_id)  # a run may begin and end between two calls
        self._loading.pop(run.run_id, None)
        self._seen.pop(run.run_id, None)
        if run.status in _FAILED:
            kinds = {dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE}
            logged = self._instance.all_logs(run.run_id, of_type=kinds)
            events = [entry.dagster_event for entry in logged if entry.dagster_event]
            why = [*reasons(events, Request.from_tags(run.tags).only), run.status.value.lower()][0]
            name = _name(run)
            line = why.splitlines()[0]
            self._say(
                f"✗ {line if line.startswith(name) else f'{name}: {line}'} More: {self._address}/runs/{run.run_id}"
            )

    def _count(self, run_id: str) -> None:
        """Counts the partitions that a run has materialized since the last call."""
        logged = self._instance.all_logs(run_id, of_type={dg.DagsterEventType.ASSET_MATERIALIZATION})
        for entry in logged[self._seen[run_id] :]:
            event = entry.dagster_event
            if event is None or event.asset_key is None:
                continue
            key = (event.asset_key.to_user_string(), event.partition or "")
            if not self._green:
                self._summed = time.monotonic()
                waited = self._summed - self._began
                self._say(f"✓ The first partition is green: {' '.join(key).strip()}, after {waited:.0f} s")
            self._green.add(key)
            self._fresh[key[0]] += 1
        self._seen[run_id] = len(logged)

    def _sum_up(self) -> None:
        now = time.monotonic()
        if self._loading:
            self._active, self._quiet = now, False
        if self._fresh and (now >= self._summed + SUM_SECONDS or now >= self._active + PAUSE_SECONDS):
            self._say(f"✓ Loaded: {', '.join(f'{table} {count}' for table, count in sorted(self._fresh.items()))}")
            self._fresh.clear()
            self._summed = now
        if not self._quiet and now >= self._active + QUIET_SECONDS:
            self._quiet = True
            self._say("Nothing is left to do; new data is loaded when it arrives.")


def _loads(run: dg.DagsterRun) -> bool:
    request = Request.from_tags(run.tags)
    return bool(request.table or request.first)


def _name(run: dg.DagsterRun) -> str:
    """The name of a run's load: the table, and a partition or a range."""
    return " ".join(work_of(run)).strip()
