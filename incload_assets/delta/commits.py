"""Commits of a Delta table, read from their files in its log without Spark."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow.fs as pafs
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

LOOKED_AT = 64
"""Most commits that are read to see whether a part of a table was left alone; each is a request to the store."""


@dataclass(frozen=True)
class Rewrite:
    """The files of one partition value that one commit added and removed."""

    added: frozenset[str]
    removed: frozenset[str]
    changes_rows: bool


class Touched(NamedTuple):
    """A data file that a commit adds or removes.

    Args:
        path: As Delta's log has it, percent-encoded.
        values: Of the partition columns, as Delta spells them; empty if the commit does not tell.
        added: False if it is removed.
        changes_rows: False if its rows are only in other files than before.
        size: In bytes; 0 if it is removed.
    """

    path: str
    values: Mapping[str, str | None]
    added: bool
    changes_rows: bool
    size: int


@dataclass(frozen=True)
class Commit:
    """A commit: the files that it touches, and who made it.

    Args:
        files: The data files that it adds and removes.
        fences: The numbers of its transactions, by their identifiers.
        alters: Whether it changes the table's columns, properties or protocol.
    """

    files: tuple[Touched, ...]
    fences: Mapping[str, int]
    alters: bool

    @property
    def bytes_added(self) -> int:
        """Size of the data files that it adds."""
        return sum(file.size for file in self.files)

    def is_by(self, writer: str) -> bool:
        """True if the identifier of one of its transactions begins like this."""
        return any(name.startswith(writer) for name in self.fences)

    def rewrites(self, column: str | None) -> dict[str | None, Rewrite]:
        """The files that it adds and removes by the value of a partition column, or by None without a column."""
        added: dict[str | None, set[str]] = defaultdict(set)
        removed: dict[str | None, set[str]] = defaultdict(set)
        changing = set()
        for file in self.files:
            value = file.values.get(column) if column is not None else None
            (added if file.added else removed)[value].add(file.path)
            if file.changes_rows:
                changing.add(value)
        return {
            value: Rewrite(frozenset(added[value]), frozenset(removed[value]), value in changing)
            for value in {*added, *removed}
        }


class Seen(NamedTuple):
    """The version of a table that was read, with a hash of its commit's file.

    A table that was replaced by a copy has another file at the same version.
    """

    version: int
    digest: str


def folder_of(delta: DeltaTable) -> pafs.FileSystem:
    """The folder of a table in any store, opened the same way as deltalake opens it."""
    return pafs.PyFileSystem(DeltaStorageHandler.from_table(delta._table, delta._storage_options))


def commit_of(delta: DeltaTable, version: int) -> Commit | None:
    """A commit of a table; None if the log no longer has it."""
    if (text := _file_of(delta, version)) is None:
        return None
    actions = [json.loads(line) for line in text.decode().splitlines() if line]
    return Commit(
        tuple(_touched(action[kind], kind) for action in actions for kind in ("add", "remove") if kind in action),
        {action["txn"]["appId"]: action["txn"]["version"] for action in actions if "txn" in action},
        any("metaData" in action or "protocol" in action for action in actions),
    )


def _touched(file: Mapping[str, Any], kind: str) -> Touched:
    added, values = kind == "add", file.get("partitionValues") or {}
    return Touched(file["path"], values, added, file["dataChange"], file["size"] if added else 0)


def seen(delta: DeltaTable, version: int) -> Seen | None:
    """A version of a table with its digest; None if the log no longer has its commit."""
    text = _file_of(delta, version)
    return None if text is None else Seen(version, hashlib.blake2b(text, digest_size=12).hexdigest())


def commits_between(delta: DeltaTable, since: Seen, until: int) -> list[Commit] | None:
    """The commits after a version up to another one, oldest first.

    None if the table was altered or replaced meanwhile, the log no longer has them, or they are too many to read.
    """
    if not until - LOOKED_AT <= since.version <= until or seen(delta, since.version) != since:
        return None
    commits = []
    for version in range(since.version + 1, until + 1):
        commit = commit_of(delta, version)
        if commit is None or commit.alters:
            return None
        commits.append(commit)
    return commits


def leave_alone(commits: Iterable[Commit], *, writer: str, column: str | None, values: Collection[str] | None) -> bool:
    """True if commits left the rows of some partitions alone, as far as Delta's log says.

    Each of them changes no row, or it is a known writer's and changes rows of other partitions only.

    Args:
        commits: The commits.
        writer: Beginning of the identifiers of the transactions of the known writer.
        column: Column of the partitions; None: no commit may change a row.
        values: Values of these partitions, as Delta spells them; None: all of them.
    """
    for commit in commits:
        changed = {value for value, rewrite in commit.rewrites(column).items() if rewrite.changes_rows}
        known = commit.is_by(writer)
        if changed and (column is None or values is None or not known or not changed.isdisjoint({None, *values})):
            return False
    return True


def _file_of(delta: DeltaTable, version: int) -> bytes | None:
    try:
        with folder_of(delta).open_input_stream(f"_delta_log/{version:020}.json") as stream:
            return bytes(stream.read())
    except FileNotFoundError:
        return None
