"""Locks between processes of one machine that end with the process that holds them, however it ends."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_SECONDS = 0.05


@contextmanager
def exclusive(path: Path, timeout: float) -> Iterator[bool]:
    """Hold the lock ``path`` for the block; the block is told whether it does, after at most ``timeout`` seconds."""
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
    """Whether some process holds the lock ``path`` now."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        # shared, so that several askers never take each other for the holder
        return not _try(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
