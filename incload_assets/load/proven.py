"""The proof of a load, and how much of it still holds, so that only the rest needs to be compared again.

A proof holds as long as Delta's logs say that nobody has touched what it is about. If the window has only gained rows
since, which are in files of their own, it holds for all keys that these do not have. What it says of the others is
replaced: the evidence of their changes as it was is taken out, and that of their present changes is added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from incload_assets.change_log.change import CONTROL, REJECTED
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import BROADCAST_ROWS, ReadView
from incload_assets.declaration.layout import laid_out_by
from incload_assets.delta.commits import Commit, Seen, commit_of, commits_between, leave_alone, seen
from incload_assets.delta.data_files import parquet_files
from incload_assets.load.reconcile import Evidence, signed, unsigned
from incload_assets.platform.lake import rows_of, sizes_of

HASHES = ("log_hash", "table_hash")
IN_PROOF = ("keys", "pending", "present")
"""Numbers of the evidence that are shown with its hashes; the others are metadata by themselves."""
FILES = 300
"""Most files that are looked for; each may be a request to the store."""
MANY = 50_000
"""Least number of a window's rows from which gained ones are compared alone, which takes one query more."""
LARGEST_SHARE = 0.25
"""Largest share of a window's rows that are compared alone if they are gained."""


@dataclass(frozen=True)
class StillProven:
    """A proof that still holds for the keys of a window that have gained no change since.

    Args:
        evidence: Of the proof.
        before: The changes of the other keys as the proof has seen them; None if there are none.
        now: The changes of the other keys.
    """

    evidence: Evidence
    before: ReadView | None = None
    now: ReadView | None = None


@dataclass(frozen=True)
class Proof:
    """The evidence of a window, with the versions of table and log that were compared."""

    evidence: Evidence
    table: Seen
    log: Seen

    @classmethod
    def shown_in(cls, metadata: Mapping[str, Any]) -> "Proof | None":
        """The proof in the values of a materialization's metadata; None if they lack it."""
        shown = metadata.get("proof")
        if not isinstance(shown, Mapping) or not {*IN_PROOF, *HASHES, "table", "log"} <= shown.keys():
            return None
        try:
            numbers = {field.name: int(metadata.get(field.name, 0)) for field in fields(Evidence)}
            numbers |= {name: int(shown[name]) for name in IN_PROOF} | {name: signed(shown[name]) for name in HASHES}
            return cls(Evidence(**numbers), Seen(*shown["table"]), Seen(*shown["log"]))
        except (TypeError, ValueError):  # metadata that no load has written
            return None


def compared(load: LoadContext, at: ReadView) -> tuple[Seen, Seen] | None:
    """The commits of table and log that a read view shows; None if a log no longer has them, or nothing is written."""
    if load.scratch is not None:
        return None
    delta, log = load.lake.delta(load.uri), load.lake.delta(load.log.uri)
    of_table = seen(delta, at.table_version) if delta else None
    of_log = seen(log, at.log_version) if log else None
    return (of_table, of_log) if of_table and of_log else None


def written_by(load: LoadContext, at: ReadView) -> int | None:
    """The size of the table's files that the commit in a read view wrote; None if it is of another load."""
    delta = None if load.scratch is not None else load.lake.delta(load.uri)
    commit = commit_of(delta, at.table_version) if delta else None
    return commit.bytes_added if commit and at.app_id in commit.fences else None


def shown_proof(evidence: Evidence, proof: Proof | None) -> dict[str, Any]:
    """The evidence of a window as metadata, with the commits that were compared if they are known."""
    commits = {"table": list(proof.table), "log": list(proof.log)} if proof else {}
    hashes = {name: unsigned(getattr(evidence, name)) for name in HASHES}
    return {**{name: getattr(evidence, name) for name in IN_PROOF}, **hashes, **commits}


def still_proven(load: LoadContext, at: ReadView, proof: Proof, *, sent: int = 0) -> StillProven | None:
    """How much of a proof holds in a read view of its window, as Delta's logs say; None if it does not.

    It holds if each commit since then changed no row, or is a load's of other partitions of the table or other windows
    of the log, or has added changes to the window, and if all files of the window are there in their sizes. An edit by
    hand is a commit of nobody known. ``sent`` is the fence of the load's own merge, which may have changed rows.
    """
    if load.scratch is not None or at.near.num_rows + at.of_windows.num_rows > FILES:
        return None
    delta, log, writer = load.lake.delta(load.uri), load.lake.delta(load.log.uri), f"{load.table.name}/"
    still, of_log = StillProven(proof.evidence), commits_between(log, proof.log, at.log_version) if log else None
    if delta is None or log is None or of_log is None:
        return None
    if not leave_alone(of_log, writer=writer, column="_window", values=[*at.records]):
        if not may_be_carried_on(load, at) or (gained := _gained(of_log, at)) is None or not _are_few(at, gained):
            return None
        if (files := parquet_files(log, load.lake.spark_uri(load.log.uri), gained)) is None:
            return None
        now = replace(at, gained=files, gained_rows=rows_of(gained))
        still = replace(still, before=_without(now, gained, proof.log.version), now=now)
    of_table = commits_between(delta, proof.table, at.table_version)
    others = [commit for commit in of_table or () if not sent or commit.fences.get(at.app_id) != sent]
    if of_table is None or not leave_alone(others, writer=writer, column=laid_out_by(load.table), values=at.partitions):
        return None
    if still.now and not sent:  # the files are looked for once it has merged
        return still
    return still if _are_there(load, load.uri, at.near) and _are_there(load, load.log.uri, at.of_windows) else None


def _gained(commits: Sequence[Commit], at: ReadView) -> pa.Table | None:
    """The files of changes that the windows have gained; None if they have lost some, too."""
    unknown = next(iter(at.records))
    touched = {
        unquote(file.path)
        for commit in commits
        for file in commit.files
        if file.values.get("_window", unknown) in at.records and file.values.get("_kind") != CONTROL
    }
    here = at.of_windows.filter(pa.array([name in touched for name in sizes_of(at.of_windows)]))
    if here.num_rows != len(touched):
        return None
    return here.filter(~pc.field("partition._kind").isin(pa.array([CONTROL, REJECTED], pa.string())))


def may_be_carried_on(load: LoadContext, at: ReadView) -> bool:
    """True if what a large window gains can be compared alone, as all changes that matter have a key."""
    changes = load.table.changes
    alone = changes.keys and not (changes.empties or changes.moved_when or load.table.write.together())
    return bool(alone) and at.changes >= MANY and not at.replaced and at.window_files is not None


def _are_few(at: ReadView, gained: pa.Table) -> bool:
    return 0 < rows_of(gained) <= min(at.changes * LARGEST_SHARE, BROADCAST_ROWS)


def _without(at: ReadView, gained: pa.Table, log_version: int) -> ReadView:
    """A read view without what the windows have gained since a version of the log."""
    names = frozenset(sizes_of(gained))
    assert at.window_files is not None
    return replace(
        at,
        log_version=log_version,
        window_files=at.window_files.without(names),
        log_files=None if at.log_files is None else at.log_files.without(names),
    )


def _are_there(load: LoadContext, uri: str, files: pa.Table) -> bool:
    sizes = sizes_of(files)
    with load.lake.files(uri) as folder:
        found = folder.get_file_info([*sizes])
    return all(info.type == pafs.FileType.File and info.size == sizes[info.path] for info in found)
