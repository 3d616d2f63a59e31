"""Content hashes of local files, computed again only when a file may have changed.

Size, modification time, change time and inode decide whether it may; the change time cannot be set back by a program
that preserves modification times. Hashes are cached in a small SQLite file that processes share; it may be lost.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from incload_assets.platform.remembered import Remembered
from incload_assets.platform.settings import current_settings

_SETTLED_NS = 2_000_000_000
"""A file changed more recently than this (ns) may change again within one tick of the file system's clock, unseen."""


def local_hashes(paths: Iterable[str]) -> dict[str, str]:
    """Hashes of local files, remembered in this code location's home; see :meth:`FileHashes.of`."""
    return FileHashes(current_settings().home_root / "file_hashes.sqlite").of(paths)


class FileHashes:
    """Hashes of local files, remembered in a SQLite file."""

    def __init__(self, store: Path) -> None:
        self._known = Remembered(store)

    def of(self, paths: Iterable[str]) -> dict[str, str]:
        """The hash (32 hex digits) of each file that is there; one that cannot be opened has ``unreadable-<mtime>``.

        A file without read permission still belongs to its window, so that loading the window can say what is wrong.
        """
        states = {path: state for path in paths if (state := _state(path))}
        known = self._known.recall(states)
        hashes, fresh = {}, []
        for path, state in states.items():
            value = known.get(path)
            if value is None:
                value = _hash(path)
                if value and _is_settled(state) and _state(path) == state and not value.startswith("unreadable"):
                    fresh.append((path, state, value))
            if value:
                hashes[path] = value
        self._known.keep(fresh)
        return hashes


def _state(path: str) -> str | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return f"{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}:{stat.st_ino}"


def _is_settled(state: str) -> bool:
    _, modified, changed, _ = map(int, state.split(":"))
    return max(modified, changed) < time.time_ns() - _SETTLED_NS


def _hash(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except FileNotFoundError:
        return None
    except OSError:
        with contextlib.suppress(OSError):
            return f"unreadable-{os.stat(path).st_mtime_ns}"
        return None
