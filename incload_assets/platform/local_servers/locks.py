"""Locks between processes of one machine, released when the process that holds them ends in whatever way.

The library filelock was tried and left alone: a forked child keeps this lock and not that one, it installs hooks for
every fork of the process, and it has no probe like :func:`is_held`.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_SECONDS = 0.05


@contextmanager
def exclusive(path: Path, timeout: float) -> Iterator[bool]:
    """Holds the lock ``path`` for the block; yields whether it was acquired within ``timeout`` seconds."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)  # not inherited by child processes
    deadline = time.monotonic() + timeout
    try:
        held = _try(descriptor, fcntl.LOCK_EX)
        while not held and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            held = _try(descriptor, fcntl.LOCK_EX)
        yield held
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """True if some process holds the lock ``path`` now."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        # shared, so that two probes never take each other for the holder
        return not _try(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
