"""Evaluating checks one by one, so that one that raises hides neither its reason nor what the others say."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.load.error_translation import told, unforeseen
from resources.lake import Lake

Found = TypeVar("Found")


class Evaluations:
    """Evaluates checks of a table and remembers which ones could not be.

    Args:
        table: The declaration.
        lake: Where the table is.
        log: Of the run.
    """

    def __init__(self, table: Table, lake: Lake, log: dg.DagsterLogManager) -> None:
        self.table, self.lake, self.log = table, lake, log
        self.reasons: dict[str, str] = {}
        """Why a check could not be evaluated, by its name."""

    def attempt(self, names: Sequence[str], evaluate: Callable[[], Found]) -> Found | None:
        """The verdict that ``evaluate`` returns, None if it raises.

        Args:
            names: The checks that need it, and cannot be evaluated without.
            evaluate: May raise whatever it likes.
        """
        try:
            return evaluate()
        except Exception as error:
            doing = f"{self.table.name}: check{'s' * (len(names) > 1)} {', '.join(names)}"
            reason = str(told(error, doing, self.table, self.lake))
            self.log.error(reason, exc_info=unforeseen(error))
            self.reasons |= dict.fromkeys(names, reason)
            return None

    def raise_what_failed(self) -> None:
        """Fail the run if a check could not be evaluated, naming each of them with its reason.

        Raises:
            dg.Failure: Its metadata has the reasons by the names of the checks.
        """
        if self.reasons:
            lines = "\n".join(f"- {reason}" for reason in dict.fromkeys(self.reasons.values()))
            raise dg.Failure(
                description=f"{self.table.name}: not evaluated: {', '.join(sorted(self.reasons))}\n{lines}",
                metadata={name: dg.MetadataValue.text(reason) for name, reason in self.reasons.items()},
                allow_retries=False,
            )
