"""Tags that a run sets on itself. Their values name the run, because Dagster copies a run's tags to its retries."""

from collections.abc import Mapping

import dagster as dg


def own_tags(run_id: str, tags: Mapping[str, str]) -> dict[str, str]:
    """The tags, with the run's id in each value.

    Args:
        run_id: The run's id.
        tags: Values by name.

    Example:
        >>> own_tags("3f2a", {"incload/failure": "contract"})
        {'incload/failure': 'contract 3f2a'}
    """
    return {name: f"{value} {run_id}" for name, value in tags.items()}


def own_tag(run: dg.DagsterRun, name: str) -> str | None:
    """The value of a tag that a run set on itself; None if it has none, or only a copy from the run that it retries."""
    value, _, run_id = run.tags.get(name, "").rpartition(" ")
    return value if run_id == run.run_id else None


PRIORITY_TAG = "dagster/priority"
