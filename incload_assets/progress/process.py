"""The process of a run, recorded as a tag on the run, so that a process that dies without a report is noticed."""

import socket

import dagster as dg
import psutil

from incload_assets.progress.run_tags import PROCESS_TAG, own_tags

CLOCK_TOLERANCE_SECONDS = 2.0
"""A process's start time is derived from the machine's boot time, which clock adjustments move a little."""


def process_tags(run_id: str) -> dict[str, str]:
    """Tags with this process's host, id and start time; the start time is needed because ids are reused."""
    process = psutil.Process()
    return own_tags(run_id, {PROCESS_TAG: f"{socket.gethostname()}:{process.pid}:{process.create_time():.2f}"})


def mark_process(context: dg.AssetExecutionContext) -> None:
    """Records on a step's run which process it is in, unless that is recorded already."""
    tags = process_tags(context.run.run_id)
    if not tags.items() <= context.run.tags.items():
        context.instance.add_run_tags(context.run.run_id, tags)


def gone(mark: str) -> str | None:
    """Why the process that a run's tag names is known to be gone; None if it is alive, or on another machine."""
    host, pid, started = mark.rsplit(":", 2)
    if host != socket.gethostname() or lives(int(pid), started=float(started)):
        return None
    return f"Process {pid} on {host} is gone."


def lives(pid: int, *, started: float | None = None, before: float | None = None) -> bool:
    """True if a process is alive; one that reuses its id is excluded by start time, in seconds since 1970."""
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
