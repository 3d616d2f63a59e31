"""Tags by which a run tells of itself: they name it, because Dagster copies a run's tags to its retries."""

from collections.abc import Mapping

import dagster as dg


def own_tags(run_id: str, tags: Mapping[str, str]) -> dict[str, str]:
    """The tags, bound to the run that they are of.

    Args:
        run_id: The run.
        tags: Values by name.

    Example:
        >>> own_tags("3f2a", {"incload/failure": "contract"})
        {'incload/failure': 'contract 3f2a'}
    """
    return {name: f"{value} {run_id}" for name, value in tags.items()}


def own_tag(run: dg.DagsterRun, name: str) -> str | None:
    """What a run told of itself; None if nothing, as when the tag is that of a run which this one repeats."""
    value, _, run_id = run.tags.get(name, "").rpartition(" ")
    return value if run_id == run.run_id else None


PRIORITY_TAG = "dagster/priority"
