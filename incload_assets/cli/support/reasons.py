"""The reasons of a failed run, from its events."""

from collections.abc import Sequence

import dagster as dg


def reasons(events: Sequence[dg.DagsterEvent], partition: str) -> list[str]:
    """The reasons of a run's failed steps, or of the run if no step failed; each once.

    If a partition has a reason of its own, that one is preferred; empty: no partition is meant.
    """
    steps = [event for event in events if event.event_type is dg.DagsterEventType.STEP_FAILURE]
    found = list(dict.fromkeys(_reason_of(event, partition) for event in steps))
    runs = [event for event in events if event.event_type is dg.DagsterEventType.RUN_FAILURE]
    return found or [event.message.strip() for event in runs if event.message]


def _reason_of(event: dg.DagsterEvent, partition: str) -> str:
    """The reason of a failed step."""
    data = event.step_failure_data
    failure = data.user_failure_data
    if failure and partition in failure.metadata:
        return str(failure.metadata[partition].value)
    if failure and failure.description:
        return failure.description
    innermost = data.error
    while innermost and innermost.cause:
        innermost = innermost.cause
    if innermost is None:
        return (event.message or f"step {event.step_key} failed").strip()
    message = innermost.message.strip()
    name, _, rest = message.partition(": ")  # Python writes the class before the message
    return rest if rest and name.startswith("incload_assets.") else message.removeprefix("builtins.")
