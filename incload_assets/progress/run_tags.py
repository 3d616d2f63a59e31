"""The names of all run tags, and the tags that a run sets on itself."""

from collections.abc import Mapping

import dagster as dg

PARTITION_TAG = "dagster/partition"
RANGE_START_TAG, RANGE_END_TAG = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
PRIORITY_TAG, MAX_RETRIES_TAG = "dagster/priority", "dagster/max_retries"

TABLE_TAG = "incload/table"
REQUESTED_PARTITION_TAG = "incload/partition"
REQUESTED_PARTITIONS_TAG = "incload/partitions"
"""The tag of a run that a sensor requests over several partitions; ``dagster.yaml`` limits how many run at once."""
FINGERPRINT_TAG = "incload/fingerprint"
ATTEMPT_TAG = "incload/attempt"
CODE_VERSION_TAG = "incload/code_version"
STARTED_BY_TAG = "incload/started_by"
"""The tag of runs that were started from a terminal."""
SERIALIZED_TAG = "incload/serialized"
"""The tag of loads that may touch any row of their table; ``dagster.yaml`` lets the queue launch one at a time."""
REWRITE_COMPACTED_TAG = "incload/rewrite_compacted"
"""The tag of a load that may replace a window whose log was compacted."""
UNDO_TAG = "incload/undo"
"""The tag of a run that undoes loads of its partitions: what to go back before, or ``last``."""
RELEASE_TAG = "incload/release"
"""The tag of a run that loads held partitions from their source."""
REPLAY_TAG = "incload/replay"
"""The tag of a run that replays the quarantine of its partitions instead of reading their source; its value is why."""
FILL_TAG = "incload/fill"
"""The tag of a run that fills columns of its partitions from the log, not from their source; its value is why."""
CHUNKS_TAG, AT_ONCE_TAG = "incload/chunks", "incload/at_once"
"""The tags of a load that reads its partition in chunks: about how many, and how many at a time."""
BECAUSE_TAG = "incload/because"
"""The tag with the reason of an undo or a release."""

RUN_TAGS = "incload/run_tags"
"""The metadata of a table's asset with the tags that the run coordinator gives its runs."""

CHECKED_BY_LOAD = {"incload/checks": "by the load"}
"""The tags of a load that evaluates the checks itself, because the run was requested without their steps."""
LOADS_NOTHING = {"incload/loads": "nothing"}
"""The tags of a run that materializes no table."""
UPKEEP_TAG = "incload/upkeep"
UPKEEP = {**LOADS_NOTHING, UPKEEP_TAG: "true"}
"""The tags of a maintenance run; ``dagster.yaml`` limits how many run at once."""

FAILURE_TAG = "incload/failure"
"""The tag that a failed run sets on itself: the cause, in one word."""
PROCESS_TAG = "incload/process"
"""Host, id and start time of a run's process; the run sets it on itself."""


def own_tags(run_id: str, tags: Mapping[str, str]) -> dict[str, str]:
    """Tags that a run sets on itself. Their values name the run, because Dagster copies a run's tags to its retries."""
    return {name: f"{value} {run_id}" for name, value in tags.items()}


def own_tag(run: dg.DagsterRun, name: str) -> str | None:
    """The value of a tag that a run set on itself; None if it has none, or only a copy from the run that it retries."""
    value, _, run_id = run.tags.get(name, "").rpartition(" ")
    return value if run_id == run.run_id else None
