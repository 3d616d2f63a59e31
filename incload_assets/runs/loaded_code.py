"""The code that a process has loaded, and whether its files have changed since."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from stat import S_ISDIR
from zlib import crc32

State = tuple[int, int] | None


@dataclass(frozen=True)
class LoadedCode:
    """The state of the files and package folders of all modules at the time they were loaded.

    A folder counts because a module that is added to it may be loaded next time; its state is a checksum of its
    listing, that of a file its modification time (ns) and size. None: the path does not exist.
    """

    states: dict[str, State]

    @classmethod
    def of(cls, load: Callable[[], object]) -> "LoadedCode":
        """The state of the code that is loaded after a call of ``load``, which may raise any exception.

        A file that is written meanwhile counts as changed, because it is unknown which of its contents was loaded.
        """
        begun = time.time_ns()
        load()
        states = {path: _state(path) for path in _paths()}
        loaded = time.time_ns()
        return cls({path: None if state and begun <= state[0] <= loaded else state for path, state in states.items()})

    def has_changed(self) -> bool:
        """True if a module's file, or the list of a package's modules, has changed."""
        return any(_state(path) != state for path, state in self.states.items())


def _paths() -> set[str]:
    modules = list(sys.modules.values())
    files = {file for module in modules if isinstance(file := getattr(module, "__file__", None), str)}
    return files | {str(folder) for module in modules for folder in getattr(module, "__path__", ())}


def _state(path: str) -> State:
    try:
        stat = os.stat(path)
        if S_ISDIR(stat.st_mode):  # its modules only: a new folder of bytecode is no change
            modules = sorted(name for name in os.listdir(path) if name != "__pycache__")
            return 0, crc32("\n".join(modules).encode())
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
