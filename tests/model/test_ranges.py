"""Range loads beside single ones, explored exhaustively; see :mod:`tests.model.ranges`."""

import pytest

from tests.model.checking import Record, check_right, check_wrong
from tests.model.ranges import RANGE_CASES, RANGE_SWITCHES, TOGETHER, RangeModel
from tests.model.terms import Case, once, up

ALONE, BOTH = "a range alone, rewritten and back", "a range and a load of one of its windows, rewritten"
TEETH = {
    "range fence": ALONE,
    "range landing fence": ALONE,
    "intent": ALONE,
    "second look": BOTH,
    "first": BOTH,
    "move of the landing fence": ALONE,
    "move of the table fence": ALONE,
    "fallback": BOTH,
    "range reconcile": "a range and a delete in another window",
}


@pytest.mark.parametrize("name", RANGE_CASES)
def test_whatever_the_order_of_steps_the_table_is_the_fold_in_the_end(name: str, record_property: Record) -> None:
    check_right(RangeModel(RANGE_CASES[name]), record_property)


@pytest.mark.parametrize("part", RANGE_SWITCHES)
def test_without_any_one_part_of_range_loads_some_order_of_steps_goes_wrong(part: str) -> None:
    check_wrong(RangeModel(RANGE_CASES[TEETH[part]], frozenset({part})), RANGE_SWITCHES[part])


def test_a_range_that_nobody_disturbs_lands_once_and_merges_once() -> None:
    model = RangeModel(Case({"A": once(up(1)), "B": once(up(2))}, kills=0, runs=(TOGETHER,)))
    state, said = model.start(), []
    while steps := list(model.steps(state)):
        ((what, after),) = steps
        assert after is not None
        said.append(what.removeprefix("run 0 of A+B: "))
        state = after
    assert (said.count("lands"), said.count("commits"), state.row) == (1, 1, up(2))
    assert [known.clean for known in state.checkpoints] == [True, True]
