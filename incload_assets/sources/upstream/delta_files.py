"""The data files of a Delta table by partition value, read from Delta's log without Spark.

A data file never changes. So the same files, with the same rows marked as deleted, hold the same rows, whatever
happened to the table in between; late rows, deletes, a rollback or an erased history all lead to other files.
Compaction leads to other files, too, but its commits declare that they change no rows (``dataChange`` is false in each
of their actions). Such commits are undone to find the earlier files, as long as the log has them. See Delta's protocol,
*Add File and Remove File*.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

from incload_assets.delta.commits import Rewrite, commit_of
from incload_assets.platform.lake import data_files

Value = date | datetime | None
"""Value of the partition column; None for NULL, and for every file if no column is given."""

COMMITS = 1000
"""Largest number of commits to undo; older positions count as changed."""


class DataFile(NamedTuple):
    """A file of a table: its name, with a hash of the rows that are deleted in it, and its size in bytes."""

    name: str
    size: int


_commits: dict[tuple[str, str, int, str | None], Mapping[str | None, Rewrite]] = {}
"""Cache of commits, for processes that detect repeatedly; a commit never changes."""


class DeltaFiles:
    """The files of one version of a table, by a partition column of type date or timestamp; None: as a whole."""

    def __init__(self, delta: DeltaTable, column: str | None) -> None:
        self._delta, self._column = delta, column
        self.version = delta.version()
        self.table_id = str(delta.metadata().id)
        self._marked = "deletionVectors" in (delta.protocol().reader_features or ())
        self._deleted = _deleted_rows(delta) if self._marked else {}

    def by_value(self) -> Mapping[Value, list[DataFile]]:
        """The files of the table by partition value, in one pass over the files."""
        files: dict[Value, list[DataFile]] = defaultdict(list)
        actions = data_files(self._delta)
        partition = f"partition.{self._column}"
        values = actions[partition].to_pylist() if self._column is not None else [None] * actions.num_rows
        for path, size, value in zip(
            actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), values, strict=True
        ):
            files[value].append(DataFile(path + self._deleted.get(path.rpartition("/")[2], ""), size))
        return files

    def only_rewritten(self, files: Iterable[str], then: str, since: int, concerned: Callable[[Value], bool]) -> bool:
        """True if commits since a version only rewrote the files of some partition values, without changing rows.

        ``then`` is the :func:`digest` of the files that these values, which ``concerned`` selects, had at that version.
        """
        names = set(files)
        # a file with deleted rows has another name here than in the commits
        if self._marked or not self.version - COMMITS <= since < self.version:
            return False
        for version in range(self.version, since, -1):
            rewrites = self._rewrites(version)
            if rewrites is None:
                return False
            for value, rewrite in rewrites.items():
                if concerned(_value(value)):
                    if rewrite.changes_rows:
                        return False
                    names = (names - rewrite.added) | rewrite.removed
        return digest(names) == then

    def _rewrites(self, version: int) -> Mapping[str | None, Rewrite] | None:
        """The rewrites of a commit by partition value; None if the log no longer has the commit."""
        key = (self._delta.table_uri, self.table_id, version, self._column)
        if key not in _commits:
            if (commit := commit_of(self._delta, version)) is None:
                return None
            if len(_commits) >= 4 * COMMITS:
                _commits.clear()
            _commits[key] = commit.rewrites(self._column)
        return _commits[key]


def digest(names: Iterable[str]) -> str:
    """A short hash of a set of names."""
    return hashlib.blake2b("\n".join(sorted(names)).encode(), digest_size=12).hexdigest()


def _value(text: str | None) -> Value:
    """The partition value that Delta's log spells as this text."""
    if not text:
        return None
    if len(text) == len("2026-01-01"):
        return date.fromisoformat(text)
    instant = datetime.fromisoformat(text)
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _deleted_rows(delta: DeltaTable) -> dict[str, str]:
    """Hash of the rows deleted in a file, by the last part of its name, for files with deleted rows."""
    marks = {}
    for row in pa.table(delta.deletion_vectors().read_all()).to_pylist():
        vector = hashlib.blake2b(bytes(row["selection_vector"]), digest_size=8)
        marks[row["filepath"].rpartition("/")[2]] = f"#{vector.hexdigest()}"
    return marks
