"""Complete listings of files in a store, with as few requests as possible.

The template handles hidden names. Some names mark files that are still being written: ``*.tmp``, ``*.part``,
``*.partial``, ``*.crdownload``, ``*.inprogress``, ``*._COPYING_``, ``*~``. A file that grows under its final name
cannot be distinguished from a finished one: it is loaded as it is, and again when it has changed.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from incload_assets.declaration.window import Window
from incload_assets.platform.errors import SourceUnavailable, SourceUnreadable
from incload_assets.platform.object_stores import in_object_store, object_store
from incload_assets.sources.files.names import UNFINISHED
from incload_assets.sources.files.storage import store_errors
from incload_assets.sources.files.template import Template

_SINGLE_SCANS = 8
"""Largest number of prefixes that are listed one by one; for more, the key range that covers them is listed once."""


@dataclass(frozen=True)
class Listed:
    """A file as listed: full path, bytes, modification time in the store (aware, UTC).

    ``etag`` is the store's identifier of the content; None for local files, whose content is hashed when needed.
    """

    path: str
    size: int
    modified: datetime
    etag: str | None = None

    @property
    def is_finished(self) -> bool:
        """True if the name does not mark a file that is still being written."""
        return not self.path.lower().endswith(UNFINISHED)


def files_of(
    table_name: str, template: Template, windows: Sequence[Window], *, was_there: Callable[[], bool]
) -> Iterator[Listed]:
    """Every file below the literal prefixes of the windows, each once, including unfinished and non-matching files.

    If ``was_there()`` (the store held files before), a missing root is an error, not an empty store. It is only called
    if the root is missing, because it reads all ingested positions.
    """
    if not windows:
        return
    if in_object_store(template.base):
        listed = _stored_files(table_name, template, windows)
    else:
        if not os.path.isdir(template.base) and was_there():
            raise SourceUnavailable(
                f"{table_name}: the folder {template.base} is gone, and files from it were loaded before",
                rule="a missing folder is not the same as an empty folder",
                remedy="mount or restore it; if its files were deleted on purpose, create an empty folder",
            )
        listed = local_files(table_name, local_folders(template, windows))
    seen = set()
    for file in listed:
        if file.path not in seen:
            seen.add(file.path)
            yield file


def _stored_files(table_name: str, template: Template, windows: Sequence[Window]) -> Iterator[Listed]:
    prefixes = sorted({template.prefix_of(window) for window in windows})
    if len(prefixes) > _SINGLE_SCANS:
        # stores list keys in order, so the windows' keys lie between the first and the last prefix
        yield from _stored_keys(table_name, _beginning(prefixes), after=prefixes[0][:-1], upto=prefixes[-1])
        return
    for prefix in prefixes:
        folder = prefix.rpartition("/")[0]
        depth = template.depth_below(folder)
        yield from _stored_keys(table_name, prefix, nested=depth != 0)


def _beginning(prefixes: Sequence[str]) -> str:
    """The common prefix of sorted strings."""
    first, last = prefixes[0], prefixes[-1]
    for index, (one, other) in enumerate(zip(first, last, strict=False)):
        if one != other:
            return first[:index]
    return first


def _stored_keys(
    table_name: str, prefix: str, *, after: str | None = None, upto: str | None = None, nested: bool = True
) -> Iterator[Listed]:
    store = object_store(prefix)
    with store_errors(table_name, store.bucket(prefix)):
        for found in store.objects(prefix, after, upto, nested=nested):
            if not found.path.endswith("/"):
                yield Listed(found.path, found.size, found.modified, found.etag)


@dataclass(frozen=True)
class LocalFolders:
    """The folders on this machine with the files of some windows, each with the depth to which files may be below."""

    depths: Mapping[str, int | None]
    skipped: tuple[str, ...]


def local_folders(template: Template, windows: Sequence[Window]) -> LocalFolders:
    """The folders of windows."""
    depths: dict[str, int | None] = {}
    for window in windows:
        folder = os.path.dirname(template.prefix_of(window))
        if folder not in depths:
            depths[folder] = template.depth_below(folder)
    return LocalFolders(depths, () if template.enters_hidden_folders else (".", "_"))


def local_files(table_name: str, below: LocalFolders, changed: dict[str, int | None] | None = None) -> Iterator[Listed]:
    """The files in folders on this machine, sorted by folder.

    Args:
        table_name: For messages.
        changed: Receives the modification time (in nanoseconds) of each folder that files may be in, read before its
            files; None of one that does not exist.
    """
    seen: dict[str, int | None] = {} if changed is None else changed
    for folder, depth in below.depths.items():
        yield from _walk(table_name, folder, depth, below.skipped, frozenset(), seen)


def _walk(
    table_name: str,
    folder: str,
    depth: int | None,
    skipped: tuple[str, ...],
    above: frozenset[tuple[int, int]],
    seen: dict[str, int | None],
) -> Iterator[Listed]:
    seen[folder] = None
    try:
        here = os.stat(folder)
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        with store_errors(table_name, f"folder {folder}"):
            raise error
    seen[folder] = here.st_mtime_ns
    identity = (here.st_dev, here.st_ino)
    if identity in above:  # a link to a folder above
        return
    for entry in entries:
        try:
            found = entry.stat()
        except OSError:  # removed meanwhile, or a link to nothing
            continue
        if stat.S_ISDIR(found.st_mode):
            if depth != 0 and not entry.name.startswith(skipped):
                deeper = None if depth is None else depth - 1
                yield from _walk(table_name, entry.path, deeper, skipped, above | {identity}, seen)
        elif stat.S_ISREG(found.st_mode):
            yield Listed(_utf8(table_name, entry.path), found.st_size, datetime.fromtimestamp(found.st_mtime, UTC))


def _utf8(table_name: str, path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise SourceUnreadable(
            f"{table_name}: the file name {os.fsencode(path)!r} is not UTF-8",
            rule="a file is identified by its name, which must be text",
            remedy="rename the file",
        ) from None
    return path
