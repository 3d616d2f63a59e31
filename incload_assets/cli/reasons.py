"""Why a run failed, as its events tell it."""

from collections.abc import Sequence

import dagster as dg


def reasons(events: Sequence[dg.DagsterEvent], partition: str) -> list[str]:
    """Each reason once: those that steps gave, or, where no step failed, those of the run.

    Args:
        events: Of a run that failed.
        partition: The key of the partition that is asked about, empty if none is.
    """
    steps = [event for event in events if event.event_type is dg.DagsterEventType.STEP_FAILURE]
    told = list(dict.fromkeys(_told(event, partition) for event in steps))
    runs = [event for event in events if event.event_type is dg.DagsterEventType.RUN_FAILURE]
    return told or [event.message.strip() for event in runs if event.message]


def _told(event: dg.DagsterEvent, partition: str) -> str:
    data = event.step_failure_data
    told = data.user_failure_data
    if told and partition in told.metadata:
        return str(told.metadata[partition].value)
    if told and told.description:
        return told.description
    innermost = data.error
    while innermost and innermost.cause:
        innermost = innermost.cause
    if innermost is None:
        return (event.message or f"step {event.step_key} failed").strip()
    message = innermost.message.strip()
    name, _, rest = message.partition(": ")  # Python writes the class before what it tells
    return rest if rest and name.startswith("incload_assets.") else message.removeprefix("builtins.")
