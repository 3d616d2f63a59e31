"""The code that a process has loaded, and whether the files that it was loaded from are still the same."""

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
    """The files and package folders of all loaded modules as they were when the modules were loaded.

    A package's folder is among them, because a module that is added to it may be part of what is loaded next time.

    Args:
        states: By path: modification time (ns) and size, or of a folder what is in it; None where there is nothing.
    """

    states: dict[str, State]

    @classmethod
    def of(cls, load: Callable[[], object]) -> "LoadedCode":
        """The code that is loaded after ``load`` was called.

        Args:
            load: Imports what is to be loaded. A file that is written meanwhile counts as changed: which of its
                contents was loaded cannot be told.

        Raises:
            Exception: What ``load`` raises.
        """
        begun = time.time_ns()
        load()
        states = {path: _state(path) for path in _paths()}
        loaded = time.time_ns()
        return cls({path: None if state and begun <= state[0] <= loaded else state for path, state in states.items()})

    def has_changed(self) -> bool:
        """Whether a module's file, or the list of a package's modules, is not as it was."""
        return any(_state(path) != state for path, state in self.states.items())


def _paths() -> set[str]:
    modules = list(sys.modules.values())
    files = {file for module in modules if isinstance(file := getattr(module, "__file__", None), str)}
    return files | {str(folder) for module in modules for folder in getattr(module, "__path__", ())}


def _state(path: str) -> State:
    try:
        stat = os.stat(path)
        if S_ISDIR(stat.st_mode):  # by its modules: bytecode that is kept there for the first time changes nothing
            modules = sorted(name for name in os.listdir(path) if name != "__pycache__")
            return 0, crc32("\n".join(modules).encode())
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
