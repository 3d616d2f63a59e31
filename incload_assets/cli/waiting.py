"""Reports for a load that waits for its table's pool: who holds the pool. The load can be interrupted meanwhile.

Dagster itself waits without output on the terminal, and notices a signal only when the wait is over.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._utils.interrupts import check_captured_interrupt  # has no public name

from incload_assets.automation.orphans import fail_orphans
from incload_assets.progress.request import Request
from incload_assets.progress.run_tags import PROCESS_TAG, own_tag

LOOK_SECONDS = 1.0
TELL_SECONDS = 30.0


@contextmanager
def waiting(
    instance: dg.DagsterInstance, job: dg.JobDefinition, run_id: str, say: Callable[[str], None]
) -> Iterator[None]:
    """Reports on a run that this process executes in the block while the run waits for a pool.

    To be used in the main thread, in which Dagster executes the run.

    Args:
        instance: The instance with the run.
        job: The job of the run.
        run_id: The run.
        say: Called from another thread, with a line at first and then at intervals.
    """
    pools = sorted({node.pool for node in job.all_node_defs if isinstance(node, dg.OpDefinition) and node.pool})
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(instance, pools, run_id, say, over), daemon=True)
    before = signal.signal(signal.SIGUSR1, _interrupt)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()
        signal.signal(signal.SIGUSR1, before)


def _watch(
    instance: dg.DagsterInstance, pools: list[str], run_id: str, say: Callable[[str], None], over: threading.Event
) -> None:
    due = time.monotonic()
    while not over.wait(LOOK_SECONDS):  # until the run is over, because a retried step waits again
        with suppress(Exception):  # the storage may not answer now; if that lasts, the run itself reports it
            held = [instance.event_log_storage.get_concurrency_info(pool) for pool in pools]
            waited_for = [found for found in held if run_id in found.pending_run_ids]
            if waited_for and check_captured_interrupt():
                os.kill(os.getpid(), signal.SIGUSR1)
            elif waited_for and time.monotonic() >= due and not fail_orphans(instance):
                due = time.monotonic() + TELL_SECONDS
                for found in waited_for:
                    say(f"waiting for pool {found.concurrency_key}, which {_holders(instance, found)}")


def _interrupt(*_: Any) -> None:
    if check_captured_interrupt():  # else the wait has just ended, and Dagster has handled the signal
        raise DagsterExecutionInterruptedError


def _holders(instance: dg.DagsterInstance, found: Any) -> str:
    runs = sorted(found.active_run_ids | found.assigned_run_ids)
    return f"is held by {', '.join(_described(instance, run) for run in runs)}" if runs else "has no slot"


def _described(instance: dg.DagsterInstance, run_id: str) -> str:
    record = instance.get_run_record_by_id(run_id)
    if record is None:
        return f"run {run_id[:8]}"
    began = datetime.fromtimestamp(record.start_time or record.create_timestamp.timestamp(), UTC)
    partition = Request.from_tags(record.dagster_run.tags).only
    host, pid, _ = (own_tag(record.dagster_run, PROCESS_TAG) or "::").rsplit(":", 2)
    known = [
        f"of {partition}" if partition else "",
        f"in process {pid} on {host}" if pid else "",
        f"since {began:%Y-%m-%d %H:%M:%S} UTC",
    ]
    return " ".join([f"run {run_id[:8]}", *filter(None, known)])
