"""The request of a run: what to do with which partitions of a table, and why. Dagster keeps it as tags of the run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from incload_assets.declaration.table import Table
from incload_assets.progress.run_tags import (
    AT_ONCE_TAG,
    ATTEMPT_TAG,
    BECAUSE_TAG,
    CHUNKS_TAG,
    CODE_VERSION_TAG,
    FILL_TAG,
    FINGERPRINT_TAG,
    PARTITION_TAG,
    RANGE_END_TAG,
    RANGE_START_TAG,
    RELEASE_TAG,
    REPLAY_TAG,
    REQUESTED_PARTITION_TAG,
    REQUESTED_PARTITIONS_TAG,
    REWRITE_COMPACTED_TAG,
    SERIALIZED_TAG,
    STARTED_BY_TAG,
    TABLE_TAG,
    UNDO_TAG,
)

RunAction = Literal["load", "undo", "release", "replay", "fill"]
REPAIR_PREFIX = "repair of "
"""The prefix of fingerprints that request a repair: a window was found wrong at an unchanged position."""
_ACTIONS: Mapping[RunAction, str] = {"undo": UNDO_TAG, "release": RELEASE_TAG, "replay": REPLAY_TAG, "fill": FILL_TAG}
_NO_REASON = "-"
"""The value of a tag that is a reason if none is given, because Dagster keeps no empty tags."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request to a run: what to do with partitions of a table, and why. Empty texts mean that there is none.

    Args:
        action: ``load`` them from their source; ``undo`` their loads; ``release`` them, if they are held, and load
            them; ``replay`` their rejected rows; or ``fill`` columns from what the log rescued.
        table: Name of the table; several names, if a person chose several tables in the UI.
        before: For an undo: what to go back before, as in :class:`incload_assets.load.undo_plan.Undo`.
        rewrite_compacted: Whether windows whose log was compacted may be replaced by other content.
        chunks, at_once: In about how many chunks a partition is read, and how many at a time; 0: as a whole.
        serialized: Whether the queue is to launch one such run of the table at a time.
        started_by: What started the run, if it was no part of Dagster.
        attempt: The number of the attempt at the fingerprints, from 1; 0 for a run that no sensor requested.
    """

    action: RunAction = "load"
    table: str = ""
    first: str = ""
    last: str = ""
    because: str = ""
    before: str = ""
    rewrite_compacted: bool = False
    chunks: int = 0
    at_once: int = 0
    serialized: bool = False
    started_by: str = ""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    attempt: int = 0
    code_version: str | None = None

    @classmethod
    def from_tags(cls, tags: Mapping[str, str]) -> "Request":
        """The request that tags of a run express."""
        one = tags.get(PARTITION_TAG)
        attempt, chunks, at_once = (
            int(number) if (number := tags.get(tag, "")).isdecimal() else 0
            for tag in (ATTEMPT_TAG, CHUNKS_TAG, AT_ONCE_TAG)
        )
        first, last = (one, one) if one is not None else (tags.get(RANGE_START_TAG, ""), tags.get(RANGE_END_TAG, ""))
        because = next((tags[tag] for tag in (BECAUSE_TAG, REPLAY_TAG, FILL_TAG) if tag in tags), "")
        wanted = tags.get(FINGERPRINT_TAG)
        if wanted is None:
            fingerprints = {}
        elif REQUESTED_PARTITIONS_TAG in tags:
            fingerprints = json.loads(wanted)
        else:
            fingerprints = {tags.get(REQUESTED_PARTITION_TAG, first): wanted}
        return cls(
            action=next((action for action, tag in _ACTIONS.items() if tag in tags), "load"),
            table=tags.get(TABLE_TAG, ""),
            first=first,
            last=last,
            because="" if because == _NO_REASON else because,
            before=tags.get(UNDO_TAG, ""),
            rewrite_compacted=REWRITE_COMPACTED_TAG in tags,
            chunks=chunks,
            at_once=at_once,
            serialized=SERIALIZED_TAG in tags,
            started_by=tags.get(STARTED_BY_TAG, ""),
            fingerprints=fingerprints,
            attempt=attempt,
            code_version=tags.get(CODE_VERSION_TAG),
        )

    @property
    def only(self) -> str:
        """The partition of a run over one; empty for a range."""
        return self.first if self.first == self.last else ""

    def as_tags(self) -> dict[str, str]:
        """The tags of a run with this request, except the partition of a run over one, which Dagster itself adds."""
        tags = {
            TABLE_TAG: self.table,
            SERIALIZED_TAG: self.table if self.serialized else "",
            STARTED_BY_TAG: self.started_by,
            REWRITE_COMPACTED_TAG: "true" if self.rewrite_compacted else "",
            CODE_VERSION_TAG: self.code_version or "",
            ATTEMPT_TAG: str(self.attempt or ""),
            CHUNKS_TAG: str(self.chunks or ""),
            AT_ONCE_TAG: str(self.at_once or ""),
            **self._of_action(),
            **self._of_partitions(),
        }
        return {name: value for name, value in tags.items() if value}

    def _of_action(self) -> dict[str, str]:
        reason = self.because or _NO_REASON
        match self.action:
            case "undo":
                return {UNDO_TAG: self.before, BECAUSE_TAG: self.because}
            case "release":
                return {RELEASE_TAG: "true", BECAUSE_TAG: self.because}
            case "replay":
                return {REPLAY_TAG: reason}
            case "fill":
                return {FILL_TAG: reason}
            case "load":
                return {BECAUSE_TAG: self.because}

    def _of_partitions(self) -> dict[str, str]:
        if self.first == self.last:
            return {REQUESTED_PARTITION_TAG: self.first, FINGERPRINT_TAG: self.fingerprints.get(self.first, "")}
        bounds = {RANGE_START_TAG: self.first, RANGE_END_TAG: self.last}
        if not self.fingerprints:
            return bounds
        wanted = {FINGERPRINT_TAG: json.dumps({**self.fingerprints})}
        return {REQUESTED_PARTITIONS_TAG: f"{self.first}...{self.last}", **wanted, **bounds}


A_LOAD = Request()


def request_of(table: Table, request: Request = A_LOAD) -> Request:
    """A request to runs of a table, for the queue's limits, too."""
    # what is read in chunks would keep other loads waiting for hours, and waits for them before it lands
    return replace(request, table=table.name, serialized=table.write.serialized and not request.chunks)
