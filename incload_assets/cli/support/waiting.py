"""Reports for a load that waits for its table's pool: who holds the pool. The load can be interrupted meanwhile.

Dagster itself waits without output on the terminal, and notices a signal only when the wait is over.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import dagster as dg

from incload_assets.automation.orphans import fail_orphans
from incload_assets.platform.dagster_private import DagsterExecutionInterruptedError, check_captured_interrupt
from incload_assets.progress.slots import SlotRun, Slots, pools, slot_runs

LOOK_SECONDS = 1.0
TELL_SECONDS = 30.0


@contextmanager
def waiting(
    instance: dg.DagsterInstance, job: dg.JobDefinition, run_id: str, say: Callable[[str], None]
) -> Iterator[None]:
    """Reports on a run that this process executes in the block while the run waits for a pool.

    To be used in the main thread, in which Dagster executes the run. ``say`` is called from another thread, with a line
    at first and then at intervals.
    """
    names = sorted({node.pool for node in job.all_node_defs if isinstance(node, dg.OpDefinition) and node.pool})
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(instance, names, run_id, say, over), daemon=True)
    before = signal.signal(signal.SIGUSR1, _interrupt)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()
        signal.signal(signal.SIGUSR1, before)


def _watch(
    instance: dg.DagsterInstance, names: list[str], run_id: str, say: Callable[[str], None], over: threading.Event
) -> None:
    due = time.monotonic()
    while not over.wait(LOOK_SECONDS):  # until the run is over, because a retried step waits again
        with suppress(Exception):  # the storage may not answer now; if that lasts, the run itself reports it
            waited_for = [slots for slots in pools(instance, names) if run_id in slots.waiting]
            if waited_for and check_captured_interrupt():
                os.kill(os.getpid(), signal.SIGUSR1)
            elif waited_for and time.monotonic() >= due and not fail_orphans(instance):
                due = time.monotonic() + TELL_SECONDS
                for slots in waited_for:
                    say(f"waiting for pool {slots.of}, which {_holders(instance, slots)}")


def _interrupt(*_: Any) -> None:
    if check_captured_interrupt():  # else the wait has just ended, and Dagster has handled the signal
        raise DagsterExecutionInterruptedError


def _holders(instance: dg.DagsterInstance, slots: Slots) -> str:
    if not slots.holders:
        return "has no slot"
    return f"is held by {', '.join(map(_described, slot_runs(instance, slots.holders).values()))}"


def _described(run: SlotRun) -> str:
    known = [
        f"of {run.window}" if run.window else "",
        f"in {run.process}" if run.process else "",
        f"since {run.since:%Y-%m-%d %H:%M:%S} UTC" if run.since else "",
    ]
    return " ".join([f"run {run.run_id[:8]}", *filter(None, known)])
