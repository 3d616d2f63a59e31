"""The confirmation of a job by hand that removes something for good."""

import json
from typing import Any

import dagster as dg
from pydantic import Field

from incload_assets.platform.dagster_private import SCHEDULE_NAME_TAG
from incload_assets.platform.errors import IncrementalLoadError

RULE = "what cannot be taken back is confirmed by a person first; nothing was changed"


def confirm_field(what: str) -> Any:
    """The field of a job's configuration in which a person confirms; ``what`` says to people what to write there."""
    return Field(default="", description=f"Needed for what cannot be taken back: {what}.")


def expect_confirmed(job: str, confirm: str, wanted: str, gone: str) -> None:
    """Raises IncrementalLoadError unless the configuration of a job that removes ``gone`` for good confirms it."""
    if confirm != wanted:
        raise IncrementalLoadError(
            f"{job} {gone}, and its field confirm {'names something else' if confirm else 'is empty'}",
            rule=RULE,
            remedy=f"if that is meant, write confirm: {json.dumps(wanted)} in its configuration",
        )


def is_by_hand(run: dg.DagsterRun) -> bool:
    """True if a person has launched a run, and not a schedule."""
    return SCHEDULE_NAME_TAG not in run.tags
