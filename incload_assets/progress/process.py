"""Which process a run is in, noted on the run: so its end is noticed when nothing of it is left to report it."""

import socket

import dagster as dg
import psutil

from incload_assets.progress.run_tags import own_tags

PROCESS_TAG = "incload/process"
CLOCK_TOLERANCE_SECONDS = 2.0
"""A process's start is derived from the machine's boot time, which the clock's adjustments move a little."""


def process_tags(run_id: str) -> dict[str, str]:
    """Tags that name this process as a run's: host, process id, and its start, as an id is used again."""
    process = psutil.Process()
    return own_tags(run_id, {PROCESS_TAG: f"{socket.gethostname()}:{process.pid}:{process.create_time():.2f}"})


def mark_process(context: dg.AssetExecutionContext) -> None:
    """Note on a step's run which process it is in, unless that is noted already."""
    tags = process_tags(context.run.run_id)
    if not tags.items() <= context.run.tags.items():
        context.instance.add_run_tags(context.run.run_id, tags)


def gone(mark: str) -> str | None:
    """Why the process of a mark is known to be gone; None if it lives, or is on another machine.

    Args:
        mark: What the run told by the tag.
    """
    host, pid, started = mark.rsplit(":", 2)
    if host != socket.gethostname() or lives(int(pid), started=float(started)):
        return None
    return f"Process {pid} on {host} is gone."


def lives(pid: int, *, started: float | None = None, before: float | None = None) -> bool:
    """Whether there is a process with this id, and it is the one meant.

    Args:
        pid: The id.
        started: When the one meant started, seconds since 1970.
        before: An instant at which the one meant had started, seconds since 1970.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        created = process.create_time()
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
    if started is not None:
        return abs(created - started) <= CLOCK_TOLERANCE_SECONDS
    return before is None or created <= before + CLOCK_TOLERANCE_SECONDS
