"""Range loads beside single ones, explored exhaustively; see :mod:`tests.model.ranges`."""

import pytest

from tests.model.checking import Record, bounded, check_right, check_wrong
from tests.model.exploration import WRONG
from tests.model.ranges import RANGE_CASES, RANGE_SWITCHES, TOGETHER, RangeModel
from tests.model.terms import Case, down, once, up
from tests.model.walks import walked

ALONE, BOTH = "a range alone, rewritten and back", "a range and a load of one of its windows, rewritten"
EXPLORED = bounded(
    RANGE_CASES,
    {f"{BOTH} and back": Case({"A": ((up(3),), (up(5),), (up(3),)), "B": once()}, kills=1, runs=(TOGETHER,))},
)
TEETH = {
    "range fence": ALONE,
    "range landing fence": ALONE,
    "intent": ALONE,
    "second look": f"{BOTH} and back",
    "first": BOTH,
    "move of the landing fence": ALONE,
    "move of the table fence": ALONE,
    "fallback": BOTH,
    "range reconcile": "a range and a delete in another window",
}


@pytest.mark.parametrize("name", EXPLORED)
def test_whatever_the_order_of_steps_the_table_is_the_fold_in_the_end(name: str, record_property: Record) -> None:
    check_right(RangeModel(EXPLORED[name]), record_property)


@pytest.mark.parametrize("part", TEETH)
def test_without_any_one_part_of_range_loads_some_order_of_steps_goes_wrong(part: str) -> None:
    check_wrong(RangeModel(RANGE_CASES[TEETH[part]], frozenset({part})), RANGE_SWITCHES[part])


def test_with_numbers_that_tell_of_landings_the_merge_of_a_killed_range_could_exceed_a_call_off() -> None:
    case = Case({"A": ((up(5),), (up(6),), ()), "B": once(down(4))}, runs=(TOGETHER, ("A",)))
    range_lands, single_lands_what_is_new = ["run 0"] * 5, ["source A", *["run 1"] * 5]
    range_plans_and_is_killed, single_ends = ["run 0", "run 0", "kill 0"], [*["run 1"] * 6, "source A"]
    range_is_repeated, its_former_merge_goes_on = ["run 0"] * 22, ["zombie 0"]
    actions = range_lands + single_lands_what_is_new + range_plans_and_is_killed + single_ends + range_is_repeated
    right, wrong = RangeModel(case), RangeModel(case, frozenset({"range numbers"}))
    for model in (right, wrong):
        assert model.problem(walked(model, actions)) is None
    actions += its_former_merge_goes_on
    assert right.problem(walked(right, actions)) is None
    assert wrong.rests(walked(wrong, actions))
    assert wrong.problem(walked(wrong, actions)) == f"{WRONG}the table holds {up(6)}, the fold is None"


def test_the_parts_of_range_loads_are_those_with_teeth() -> None:
    assert TEETH.keys() | {"range numbers"} == RANGE_SWITCHES.keys()


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
