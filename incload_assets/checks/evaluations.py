"""Evaluation of checks one by one: a check that raises hides neither its reason nor the results of the others."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.load.error_translation import translated, unforeseen
from incload_assets.load.faults import unheard
from incload_assets.platform.lake import Lake

Found = TypeVar("Found")


class Evaluations:
    """Evaluates checks of a table and records which ones failed; ``hear`` gets each, as a logger's ``error`` does."""

    def __init__(self, table: Table, lake: Lake, hear: Callable[..., object] = unheard) -> None:
        self.table, self.lake, self.hear = table, lake, hear
        self.reasons: dict[str, str] = {}
        """Why a check could not be evaluated, by check name."""

    def attempt(self, names: Sequence[str], evaluate: Callable[[], Found]) -> Found | None:
        """The value of ``evaluate``, which the named checks need; None, with the reason recorded, if it raises."""
        try:
            return evaluate()
        except Exception as error:
            doing = f"{self.table.name}: check{'s' * (len(names) > 1)} {', '.join(names)}"
            reason = str(translated(error, doing, self.table, self.lake))
            self.hear(reason, exc_info=unforeseen(error))
            self.reasons |= dict.fromkeys(names, reason)
            return None

    def raise_what_failed(self) -> None:
        """Fails the run with the names and reasons of the checks that could not be evaluated, if any."""
        raise_not_evaluated(self.table, self.reasons)


def raise_not_evaluated(table: Table, reasons: Mapping[str, str]) -> None:
    """Raises a dagster.Failure with the reasons why checks of a table could not be evaluated, by name, if any."""
    if reasons:
        lines = "\n".join(f"- {reason}" for reason in dict.fromkeys(reasons.values()))
        raise dg.Failure(
            description=f"{table.name}: not evaluated: {', '.join(sorted(reasons))}\n{lines}",
            metadata={name: dg.MetadataValue.text(reason) for name, reason in reasons.items()},
            allow_retries=False,
        )
