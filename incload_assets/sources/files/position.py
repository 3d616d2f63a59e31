"""The position of a window of files: its files, each with an identifier of its content.

``detail`` is ``{"files": [[key, etag, size], ...], "gone": [[key, etag, size], ...]}``, both sorted by key. ``gone``
lists ingested files that are no longer at the source and whose rows stay. The fingerprint covers both lists together,
so a deletion alone does not change it.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import NamedTuple

from incload_assets.declaration.source import Position
from incload_assets.platform.wording import several


class File(NamedTuple):
    """One file of a position: its key, the identifier of its content, its size in bytes."""

    key: str
    etag: str
    size: int


def position_of(files: Iterable[File], gone: Iterable[File] = ()) -> Position:
    """The position of a window with these files."""
    present, absent = sorted(files), sorted(gone)
    text = json.dumps(sorted([*present, *absent]), ensure_ascii=False)
    summary = f"{several(len(present), 'file')}, {_readable(sum(file.size for file in present))}"
    if absent:
        summary += f", {len(absent)} more no longer at the source"
    return Position(
        fingerprint=hashlib.blake2b(text.encode(), digest_size=8).hexdigest(),
        detail={"files": [list(file) for file in present], "gone": [list(file) for file in absent]},
        summary=summary,
        size=sum(file.size for file in present),
    )


def groups_of(position: Position, number: int, known: Iterable[Position] = ()) -> list[Position]:
    """Positions of about ``number`` groups of files; ``known`` groups whose files are all there stay as they are."""
    left = set(files_in(position))
    groups = []
    for one in known:
        if (files := set(files_in(one))) and files <= left:
            groups.append(one)
            left -= files
    most = max(position.size / number, 1)
    group: list[File] = []
    size = 0
    for file in sorted(left):
        if group and size + file.size > most:
            groups.append(position_of(group))
            group, size = [], 0
        group.append(file)
        size += file.size
    return [*groups, *([position_of(group)] if group else [])]


def files_in(position: Position | None) -> list[File]:
    """The files of a position that were at the source."""
    return _listed(position, "files")


def gone_from(position: Position | None) -> list[File]:
    """The files of a position that were already gone from the source."""
    return _listed(position, "gone")


def _listed(position: Position | None, name: str) -> list[File]:
    return [File(*entry) for entry in position.detail.get(name, ())] if position else []


def _readable(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
