"""A watch over folders on this machine: their modification times change when a file is added, renamed or removed.

A look at the times of the folders costs a hundredth of a listing. A file that is written again in its place leaves its
folder's time as it is, so the files of the newest windows are looked at, too, and all others when asked to do it
closely. Clocks of file systems are coarse: a time that was just past when it was read vouches for nothing.
"""

import hashlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from incload_assets.declaration.source import Watch
from incload_assets.declaration.window import Window
from incload_assets.sources.files.listing import Listed, LocalFolders, local_files, local_folders
from incload_assets.sources.files.template import Template

NEWEST = 3
"""Number of newest windows whose files are always looked at."""
MANY = 1000
"""Number of files of the newest windows from which on they are only looked at closely."""
SETTLED_NS = 2_000_000_000
"""How long ago a folder must have changed for its time to be relied upon."""


@dataclass(frozen=True)
class FolderWatch(Watch):
    """The folders of windows, with their times, and a hash of all files; of the newest windows each file's own."""

    table_name: str
    below: LocalFolders
    folders: Mapping[str, int | None]
    newest: Mapping[str, tuple[int, int] | None]
    files: bytes

    @classmethod
    def of(cls, table_name: str, template: Template, windows: Sequence[Window]) -> "FolderWatch":
        """The watch over what the folders of windows, given oldest first, hold now."""
        below, folders, began = local_folders(template, windows), dict[str, int | None](), time.time_ns()
        files = _hash(local_files(table_name, below, folders))
        for folder, changed in folders.items():
            if changed is not None and changed > began - SETTLED_NS:
                folders[folder] = -1
        listed = [file.path for file in local_files(table_name, local_folders(template, windows[-NEWEST:]))]
        times = {template.times_of(window) for window in windows[-NEWEST:]}
        newest = [path for path in listed if template.is_flat or template.match(path) in times]
        of_newest = {path: _file(path) for path in newest} if len(newest) < MANY else {}
        return cls(table_name, below, folders, of_newest, files)

    def changed(self, *, closely: bool) -> bool:
        """True if a folder's or a newest file's time is another one; ``closely``: or any file's."""
        if any(_folder(folder) != changed for folder, changed in self.folders.items()):
            return True
        if any(_file(path) != found for path, found in self.newest.items()):
            return True
        return closely and _hash(local_files(self.table_name, self.below)) != self.files


def _folder(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:  # it is gone, or refused: a detection says which
        return None


def _file(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _hash(files: Iterable[Listed]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        digest.update(f"{file.path}\0{file.size}\0{file.modified.timestamp()}\n".encode())
    return digest.digest()
