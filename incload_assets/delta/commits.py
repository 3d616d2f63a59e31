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


@dataclass(frozen=True)
class Commit:
    """A commit: its rewrites by partition value (as Delta spells it), and who made it.

    Args:
        rewrites: By the value of one partition column; by None without a column.
        writers: Identifiers of the transactions whose fences it has.
        alters: Whether it changes the table's columns, properties or protocol.
        bytes_added: Size of the data files that it adds.
    """

    rewrites: Mapping[str | None, Rewrite]
    writers: frozenset[str]
    alters: bool
    bytes_added: int


class Seen(NamedTuple):
    """The version of a table that was read, with a hash of its commit's file.

    A table that was replaced by a copy has another file at the same version.
    """

    version: int
    digest: str


def folder_of(delta: DeltaTable) -> pafs.FileSystem:
    """The folder of a table in any store, opened the same way as deltalake opens it."""
    return pafs.PyFileSystem(DeltaStorageHandler.from_table(delta._table, delta._storage_options))


def commit_of(delta: DeltaTable, version: int, column: str | None = None) -> Commit | None:
    """A commit, with its rewrites by a partition column; None if the log no longer has it."""
    if (text := _file_of(delta, version)) is None:
        return None
    actions = [json.loads(line) for line in text.decode().splitlines() if line]
    return Commit(
        _rewrites(actions, column),
        frozenset(action["txn"]["appId"] for action in actions if "txn" in action),
        any("metaData" in action or "protocol" in action for action in actions),
        sum(action["add"]["size"] for action in actions if "add" in action),
    )


def seen(delta: DeltaTable, version: int) -> Seen | None:
    """A version of a table with its digest; None if the log no longer has its commit."""
    text = _file_of(delta, version)
    return None if text is None else Seen(version, hashlib.blake2b(text, digest_size=12).hexdigest())


def is_left_alone(
    delta: DeltaTable, since: Seen, until: int, *, writer: str, column: str | None, values: Collection[str] | None
) -> bool:
    """True if all commits between two versions left the rows of some partitions alone, as far as Delta's log says.

    Each of them changes no row, or it is a known writer's and changes rows of other partitions only. False
    if the table was altered or replaced, or if there are too many commits to look at.

    Args:
        delta: The table.
        since: The version after which commits count.
        until: The version of the last commit that counts.
        writer: Beginning of the identifiers of the transactions of the known writer.
        column: Column of the partitions; None: no commit may change a row.
        values: Values of these partitions, as Delta spells them; None: all of them.
    """
    if not until - LOOKED_AT <= since.version <= until or seen(delta, since.version) != since:
        return False
    for version in range(since.version + 1, until + 1):
        commit = commit_of(delta, version, column)
        if commit is None or commit.alters:
            return False
        changed = {value for value, rewrite in commit.rewrites.items() if rewrite.changes_rows}
        known = any(one.startswith(writer) for one in commit.writers)
        if changed and (column is None or values is None or not known or not changed.isdisjoint({None, *values})):
            return False
    return True


def _file_of(delta: DeltaTable, version: int) -> bytes | None:
    try:
        with folder_of(delta).open_input_stream(f"_delta_log/{version:020}.json") as stream:
            return bytes(stream.read())
    except FileNotFoundError:
        return None


def _rewrites(actions: Iterable[Mapping[str, Any]], column: str | None) -> dict[str | None, Rewrite]:
    added: dict[str | None, set[str]] = defaultdict(set)
    removed: dict[str | None, set[str]] = defaultdict(set)
    changing = set()
    for action in actions:
        for kind, names in (("add", added), ("remove", removed)):
            if (file := action.get(kind)) is not None:
                value = (file.get("partitionValues") or {}).get(column) if column is not None else None
                names[value].add(file["path"])
                if file["dataChange"]:
                    changing.add(value)
    return {
        value: Rewrite(frozenset(added[value]), frozenset(removed[value]), value in changing)
        for value in {*added, *removed}
    }
