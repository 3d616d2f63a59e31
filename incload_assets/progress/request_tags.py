"""The tags of a requested run: what to load, for which position and at which attempt."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    """Whether a run loads several partitions."""
    return tags.get(RANGE_START_TAG) != tags.get(RANGE_END_TAG)
