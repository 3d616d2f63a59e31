"""What the tests of the models have in common."""

from collections.abc import Callable

from tests.model.exploration import WRONG, Machine, Outcome, State

Record = Callable[[str, object], None]
"""Pytest's ``record_property``: the figures of each exploration are in its report."""


def check_right(model: Machine[State], record: Record) -> Outcome:
    """Every state at rest is right, and there is one."""
    outcome = model.explore()
    record("states", outcome.states)
    record("steps", outcome.steps)
    assert outcome.wrong == []
    assert outcome.at_rest > 0
    return outcome


def check_wrong(model: Machine[State], meaning: str) -> None:
    """Some order of steps goes wrong."""
    outcome = model.explore(stop_when_wrong=True)
    assert outcome.wrong != [], f"nothing goes wrong without it, so it is not needed: {meaning}"
    assert outcome.wrong[0][-1].startswith(WRONG)
