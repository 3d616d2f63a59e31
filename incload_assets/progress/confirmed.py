"""The configuration of a job by hand: it names tables that exist, and confirms once more what is removed for good.

The command line asks for the same word at the terminal, see :mod:`incload_assets.cli.support.options`.
"""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import dagster as dg
from pydantic import Field

from incload_assets.platform.dagster_private import SCHEDULE_NAME_TAG
from incload_assets.platform.errors import IncrementalLoadError

T = TypeVar("T")
RULE = "what cannot be taken back is confirmed by a person first; nothing was changed"


def confirm_field(what: str) -> Any:
    """The field of a job's configuration in which a person confirms.

    Args:
        what: What to write there, for people.
    """
    return Field(default="", description=f"Needed for what cannot be taken back: {what}.")


def expect_confirmed(job: str, confirm: str, wanted: str, gone: str) -> None:
    """Refuses to go on with a job that removes something for good, unless its configuration confirms it.

    Args:
        job: The job's name.
        confirm: The field of its configuration.
        wanted: What the field has to be.
        gone: What the job removes.

    Raises:
        IncrementalLoadError: The field is something else.
    """
    if confirm != wanted:
        raise IncrementalLoadError(
            f"{job} {gone}, and its field confirm {'names something else' if confirm else 'is empty'}",
            rule=RULE,
            remedy=f"if that is meant, write confirm: {json.dumps(wanted)} in its configuration",
        )


def named(known: Mapping[str, T], *names: str, whose: str = "tables") -> list[T]:
    """The tables that a job's configuration names.

    Args:
        known: The tables by name.
        names: The names.
        whose: What they are chosen from, for the message.

    Raises:
        dagster.Failure: There is no such table; the message names the others.
    """
    if unknown := sorted({*names} - known.keys()):
        others = ", ".join(sorted(known))
        raise dg.Failure(f"{', '.join(unknown)}: not among the {whose} ({others})", allow_retries=False)
    return [known[name] for name in names]


def is_by_hand(run: dg.DagsterRun) -> bool:
    """True if a person has launched a run, and not a schedule."""
    return SCHEDULE_NAME_TAG not in run.tags
