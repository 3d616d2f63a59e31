"""The proof of a load, and whether it still holds, so that nothing needs to be compared again."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.declaration.layout import laid_out_by
from incload_assets.delta.commits import Seen, commit_of, is_left_alone, seen
from incload_assets.load.reconcile import Evidence, signed, unsigned
from incload_assets.platform.lake import sizes_of

HASHES = ("log_hash", "table_hash")
IN_PROOF = ("keys", "pending", "present")
"""Numbers of the evidence that are shown with its hashes; the others are metadata by themselves."""
FILES = 300
"""Most files that are looked for; each may be a request to the store."""


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
    return commit.bytes_added if commit and at.app_id in commit.writers else None


def shown_proof(evidence: Evidence, proof: Proof | None) -> dict[str, Any]:
    """The evidence of a window as metadata, with the commits that were compared if they are known."""
    commits = {"table": list(proof.table), "log": list(proof.log)} if proof else {}
    hashes = {name: unsigned(getattr(evidence, name)) for name in HASHES}
    return {**{name: getattr(evidence, name) for name in IN_PROOF}, **hashes, **commits}


def still_proven(load: LoadContext, at: ReadView, proof: Proof) -> Evidence | None:
    """The evidence of a proof if it holds in a read view of its window, as Delta's logs say; else None.

    It holds if each commit since then changed no row, or is a load's of other partitions of the table or other windows
    of the log, and if all files of the window are there in their sizes. An edit by hand is a commit of nobody known.
    """
    if load.scratch is not None or at.near.num_rows + at.of_windows.num_rows > FILES:
        return None
    delta, log, writer = load.lake.delta(load.uri), load.lake.delta(load.log.uri), f"{load.table.name}/"
    place, values = laid_out_by(load.table), at.partitions
    if (
        delta is not None
        and log is not None
        and is_left_alone(delta, proof.table, at.table_version, writer=writer, column=place, values=values)
        and is_left_alone(log, proof.log, at.log_version, writer=writer, column="_window", values=[*at.records])
        and _are_there(load, load.uri, at.near)
        and _are_there(load, load.log.uri, at.of_windows)
    ):
        return proof.evidence
    return None


def _are_there(load: LoadContext, uri: str, files: pa.Table) -> bool:
    sizes = sizes_of(files)
    with load.lake.files(uri) as folder:
        found = folder.get_file_info([*sizes])
    return all(info.type == pafs.FileType.File and info.size == sizes[info.path] for info in found)
