"""The runs that hold slots of Dagster's pools and of its run queue, and the runs that wait for one."""

import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from incload_assets.platform.dagster_private import (
    IN_PROGRESS_RUN_STATUSES,
    DagsterExecutionInterruptedError,
    check_captured_interrupt,
)
from incload_assets.progress.process import gone
from incload_assets.progress.request import Request
from incload_assets.progress.run_tags import PROCESS_TAG, own_tag

QUEUE = "run queue"
CLAIM_SECONDS = 1.0
MOST = 1000
"""Limit of unfinished runs that are looked at."""


@dataclass(frozen=True, kw_only=True)
class Slots:
    """The slots of a pool or of the run queue: the identifiers of the runs that hold one and of those that wait."""

    of: str
    holders: Collection[str]
    waiting: Collection[str]


@dataclass(frozen=True, kw_only=True)
class SlotRun:
    """A run that holds a slot or waits for one, with its table (else job), and why it is over (empty if it may run)."""

    run_id: str
    table: str = ""
    window: str = ""
    since: datetime | None = None
    process: str = ""
    over: str = ""


def pools(instance: dg.DagsterInstance, names: Iterable[str] | None = None) -> list[Slots]:
    """The slots of the named pools, by default of all."""
    storage = instance.event_log_storage
    found = storage.get_concurrency_infos(sorted(storage.get_concurrency_keys() if names is None else names))
    return [
        Slots(
            of=name,
            holders=sorted(info.active_run_ids | info.assigned_run_ids),
            waiting=sorted(info.pending_run_ids),
        )
        for name, info in found.items()
    ]


@contextmanager
def slot_left(instance: dg.DagsterInstance, pool: str | None, run_id: str, step: str) -> Iterator[None]:
    """Leaves the slot of a step to other runs for the block, and waits for one at its end; nothing without a slot."""
    if pool is None or not any(run_id in slots.holders for slots in pools(instance, [pool])):
        yield
        return
    instance.event_log_storage.free_concurrency_slot_for_step(run_id, step)
    try:
        yield
    except Exception:  # the step may go on with other partitions
        _claim(instance, pool, run_id, step)
        raise
    _claim(instance, pool, run_id, step)


def _claim(instance: dg.DagsterInstance, pool: str, run_id: str, step: str) -> None:
    while not instance.event_log_storage.claim_concurrency_slot(pool, run_id, step).is_claimed:
        if check_captured_interrupt():
            raise DagsterExecutionInterruptedError
        time.sleep(CLAIM_SECONDS)


def slots_in_use(instance: dg.DagsterInstance) -> list[Slots]:
    """The pools, and the run queue, if a run holds a slot or waits for one."""
    statuses = [dg.DagsterRunStatus.QUEUED, *IN_PROGRESS_RUN_STATUSES]
    runs = instance.get_runs(dg.RunsFilter(statuses=statuses), limit=MOST)
    queued = [run.run_id for run in runs if run.status is dg.DagsterRunStatus.QUEUED]
    queue = Slots(of=QUEUE, holders=[run.run_id for run in runs if run.run_id not in queued], waiting=queued)
    return [slots for slots in (*pools(instance), queue) if slots.holders or slots.waiting]


def slot_runs(instance: dg.DagsterInstance, run_ids: Iterable[str]) -> dict[str, SlotRun]:
    """Runs by their identifiers; a run that Dagster has deleted has nothing but its identifier."""
    wanted = sorted(set(run_ids))
    records = instance.get_run_records(dg.RunsFilter(run_ids=wanted)) if wanted else []
    known = {record.dagster_run.run_id: record for record in records}
    return {run_id: _slot_run(known[run_id]) if run_id in known else SlotRun(run_id=run_id) for run_id in wanted}


def work_of(run: dg.DagsterRun) -> tuple[str, str]:
    """The work of a run: the table that it loads, and a partition key or a range."""
    selected = sorted(key.to_user_string() for key in run.asset_selection or ())
    request = Request.from_tags(run.tags)
    window = f"{request.first}..{request.last}" if request.first != request.last else request.first
    return request.table or ", ".join(selected) or run.job_name, window


def _slot_run(record: dg.RunRecord) -> SlotRun:
    run, mark = record.dagster_run, own_tag(record.dagster_run, PROCESS_TAG)
    table, window = work_of(run)
    host, pid, _ = (mark or "::").rsplit(":", 2)
    return SlotRun(
        run_id=run.run_id,
        table=table,
        window=window,
        since=datetime.fromtimestamp(record.start_time or record.create_timestamp.timestamp(), UTC),
        process=f"process {pid} on {host}" if pid else "",
        over="The run has ended." if run.is_finished else (mark and gone(mark)) or "",
    )
