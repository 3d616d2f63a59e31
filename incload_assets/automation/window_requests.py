"""The runs that the sensor requests for one table: loads of what the source holds and the table does not have yet."""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime

import dagster as dg

from incload_assets.automation.attempts import Attempt, last_attempts, last_load
from incload_assets.automation.policy import Ask, Decision, plan
from incload_assets.automation.repairs import with_repairs
from incload_assets.declaration.table import Table
from incload_assets.load.pending import is_pending
from incload_assets.load.range_fences import WINDOWS_AT_ONCE
from incload_assets.platform.dagster_private import RUN_KEY_TAG
from incload_assets.platform.lake import Lake
from incload_assets.progress.progress import SourceState, WindowProgress, progress_from, source_state
from incload_assets.progress.recorded import Recorded
from incload_assets.progress.request import Request, request_of
from incload_assets.progress.run_tags import CHECKED_BY_LOAD, PRIORITY_TAG


def look(
    instance: dg.DagsterInstance, table: Table, lake: Lake, at: datetime, *, newest: int | None = None
) -> tuple[list[WindowProgress], Decision]:
    """The table's progress at an instant, and the decision about its pending windows; raises the source's errors."""
    return decided(instance, table, source_state(table, lake, at, newest), at)


def decided(
    instance: dg.DagsterInstance, table: Table, state: SourceState, at: datetime, recorded: Recorded | None = None
) -> tuple[list[WindowProgress], Decision]:
    """The progress by a state of the source at an instant, and the decision about pending windows."""
    progress = with_repairs(instance, table, progress_from(instance, table, state, recorded))
    attempts = last_attempts(instance, table, pending) if (pending := [w for w in progress if is_pending(w)]) else {}

    def attempt_at(window: WindowProgress) -> Attempt | None:
        if (known := attempts.get(window.key)) is not None or window.status != "drifted":
            return known
        return last_load(instance, table, window.key)

    return progress, plan(progress, attempt_at, table.code_version, at)


def is_new(window: WindowProgress, at: datetime) -> bool:
    """True if a window is over, its source holds data, and no load ever succeeded or failed."""
    return window.status == "missing" and window.window.end <= at


def run_requests(
    instance: dg.DagsterInstance,
    table: Table,
    progress: Sequence[WindowProgress],
    asks: Sequence[Ask],
    at: datetime,
    most: int = WINDOWS_AT_ONCE,
) -> list[dg.RunRequest]:
    """Run requests: one run per stretch of adjacent windows that are over and untried, and one per other window.

    Untried windows can be loaded together. A failed window is retried by itself, so that it cannot fail because of
    another. A window that is open or was rewritten does not wait for others, nor do others wait for it.
    """
    return [_request(instance, table, group) for group in _groups(progress, asks, at, most)]


def _groups(progress: Sequence[WindowProgress], asks: Sequence[Ask], at: datetime, most: int) -> Iterator[list[Ask]]:
    place = {window.key: number for number, window in enumerate(progress)}
    new = {window.key for window in progress if is_new(window, at)}
    group: list[Ask] = []
    for ask in asks:
        together = ask.partition in new and not ask.after
        adjacent = group and place[ask.partition] == place[group[-1].partition] + 1
        if group and not (together and adjacent and len(group) < most):
            yield group
            group = []
        group.append(ask)
        if not together:
            yield group
            group = []
    if group:
        yield group


def _request(instance: dg.DagsterInstance, table: Table, asks: Sequence[Ask]) -> dg.RunRequest:
    first, last = asks[0], asks[-1]
    request = Request(
        first=first.partition,
        last=last.partition,
        fingerprints={ask.partition: ask.fingerprint for ask in asks},
        attempt=first.number,
        code_version=table.code_version,
    )
    tags = request_of(table, request).as_tags() | CHECKED_BY_LOAD
    partition = first.partition if first is last else None
    if partition is not None and table.urgent:
        tags[PRIORITY_TAG] = "1"
    key = _run_key(instance, table, asks)
    return dg.RunRequest(
        run_key=key, asset_selection=[table.key], asset_check_keys=[], partition_key=partition, tags=tags
    )


def _run_key(instance: dg.DagsterInstance, table: Table, asks: Sequence[Ask]) -> str:
    """The run key of a request. Dagster never starts a second run for the same key.

    It contains the previous run, so that a file that is changed and then changed back is requested a third time. If
    Dagster's history lacks that run (it was wiped, or a materialization reported), it is found by its key.
    """
    first, last = asks[0], asks[-1]
    if first is last:
        partitions, fingerprint, after = first.partition, first.fingerprint, first.after[:8]
    else:
        partitions = f"{first.partition}...{last.partition}"
        fingerprint = _digest(ask.fingerprint for ask in asks)
        after = _digest(ask.after for ask in asks) if any(ask.after for ask in asks) else ""
    request = f"{table.name}:{partitions}:{fingerprint}:{first.number}:{table.code_version}"
    key = f"{request}:{after or 'first'}"
    while (runs := instance.get_runs(dg.RunsFilter(tags={RUN_KEY_TAG: key}))) and all(run.is_finished for run in runs):
        key = f"{request}:{runs[0].run_id[:8]}"
    return key


def _digest(parts: Iterator[str]) -> str:
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def summary(table: Table, progress: Sequence[WindowProgress], planned: Decision, newest: int | None = None) -> str:
    """Why nothing is requested, in one line."""
    counts = {
        status: sum(w.status == status for w in progress) for status in ("loaded", "in_progress", "waiting", "held")
    }
    parts = [
        f"{counts['loaded']} of {len(progress)} windows loaded",
        f"only the newest {newest} were checked" if newest is not None and newest < len(progress) else "",
        f"{counts['in_progress']} in progress" if counts["in_progress"] else "",
        f"{counts['waiting']} waiting for their source" if counts["waiting"] else "",
        f"{counts['held']} held after an undo" if counts["held"] else "",
        *(f"{key} is tried again at {due:%Y-%m-%d %H:%M:%S} UTC" for key, due in list(planned.later.items())[:3]),
        *(f"{key} waits for a person: {why}" for key, why in list(planned.stopped.items())[:3]),
    ]
    if (more := max(len(planned.later) - 3, 0) + max(len(planned.stopped) - 3, 0)) > 0:
        parts.append(f"{more} more like these")
    return f"{table.name}: " + "; ".join(filter(None, parts))
