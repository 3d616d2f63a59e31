"""The tags of a requested run: what to do, for which position and at which attempt, and why."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from incload_assets.progress.checkpoint import RANGE_END_TAG, RANGE_START_TAG

TABLE_TAG = "incload/table"
PARTITION_TAG = "incload/partition"
PARTITIONS_TAG = "incload/partitions"
FINGERPRINT_TAG = "incload/fingerprint"
ATTEMPT_TAG = "incload/attempt"
CODE_VERSION_TAG = "incload/code_version"
STARTED_BY_TAG = "incload/started_by"
"""The tag of runs that were started from a terminal."""
REPAIR_PREFIX = "repair of "
"""The prefix of fingerprints that request a repair: a window was found wrong at an unchanged position."""
SERIALIZED_TAG = "incload/serialized"
"""The tag of loads that may touch any row of their table; ``dagster.yaml`` lets the queue launch one at a time."""


UNDO_TAG = "incload/undo"
"""The tag of a run that undoes loads of its partitions: what to go back before, or ``last``."""
RELEASE_TAG = "incload/release"
"""The tag of a run that loads held partitions from their source."""
REPLAY_TAG = "incload/replay"
"""The tag of a run that replays the quarantine of its partitions instead of reading their source; its value is why."""
FILL_TAG = "incload/fill"
"""The tag of a run that fills columns of its partitions from the log, not from their source; its value is why."""
BECAUSE_TAG = "incload/because"
"""The tag with the reason of an undo or a release."""
NO_REASON = "-"
"""The value of a tag that is a reason if none is given, because Dagster keeps no empty tags."""
RunAction = Literal["load", "undo", "release", "replay", "fill"]
_ACTIONS: Mapping[RunAction, str] = {"undo": UNDO_TAG, "release": RELEASE_TAG, "replay": REPLAY_TAG, "fill": FILL_TAG}


def action_of(tags: Mapping[str, str]) -> RunAction:
    """The action of a run on its partitions: it loads them from their source, or does what one of its tags says.

    Example:
        >>> action_of({"incload/undo": "last"})
        'undo'
    """
    return next((action for action, tag in _ACTIONS.items() if tag in tags), "load")


def reason_in(tags: Mapping[str, str]) -> str:
    """The reason that the person who started a run has given; empty if none."""
    given = next((tags[tag] for tag in (BECAUSE_TAG, REPLAY_TAG, FILL_TAG) if tag in tags), "")
    return "" if given == NO_REASON else given


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One partition to load.

    Args:
        partition: The partition key.
        fingerprint: Fingerprint of the source's present position.
        number: The number of the attempt at this position, from 1.
        after: The run that last tried the partition, empty if none did.
    """

    partition: str
    fingerprint: str
    number: int = 1
    after: str = ""


def tags_of(table_name: str, code_version: str, asks: Sequence[Ask]) -> dict[str, str]:
    """The tags of a run over one partition, or over a range of adjacent ones with the same number of attempts.

    Example:
        >>> tags_of("orders", "c1", [Ask(partition="2026-01-03", fingerprint="f3")])["incload/fingerprint"]
        'f3'
    """
    first, last = asks[0], asks[-1]
    common = {TABLE_TAG: table_name, CODE_VERSION_TAG: code_version, ATTEMPT_TAG: str(first.number)}
    if len(asks) == 1:
        return {**common, PARTITION_TAG: first.partition, FINGERPRINT_TAG: first.fingerprint}
    return {
        **common,
        PARTITIONS_TAG: f"{first.partition}...{last.partition}",
        FINGERPRINT_TAG: json.dumps({ask.partition: ask.fingerprint for ask in asks}),
        RANGE_START_TAG: first.partition,
        RANGE_END_TAG: last.partition,
    }


def fingerprint_in(tags: Mapping[str, str], partition: str) -> str | None:
    """The fingerprint that a run was requested to load for a partition; None if no sensor requested the run."""
    value = tags.get(FINGERPRINT_TAG)
    if value is None or PARTITIONS_TAG not in tags:
        return value
    found = json.loads(value).get(partition)
    return found if isinstance(found, str) else None


def is_range(tags: Mapping[str, str]) -> bool:
    """True if a run loads several partitions."""
    return tags.get(RANGE_START_TAG) != tags.get(RANGE_END_TAG)
