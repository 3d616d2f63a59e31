"""What the tests of the models have in common."""

from collections.abc import Callable, Mapping

from tests.model.exploration import WRONG, Machine, Outcome, State
from tests.model.terms import Case
from tests.support.sampling import NIGHT

Record = Callable[[str, object], None]
"""Pytest's ``record_property``: the figures of each exploration are in its report."""


def bounded(cases: Mapping[str, Case], by_day: Mapping[str, Case]) -> Mapping[str, Case]:
    """Cases to explore: by day, those that take a quarter of a minute or more are replaced by smaller ones.

    Args:
        cases: All, by name.
        by_day: The smaller ones.
    """
    assert by_day.keys() <= cases.keys()
    return cases if NIGHT else {**cases, **by_day}


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
