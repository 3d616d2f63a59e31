"""The load protocol, explored exhaustively; see :mod:`tests.model.protocol`."""

import pytest

from tests.model.checking import Record, bounded, check_right, check_wrong
from tests.model.protocol import CASES, SWITCHES, Model
from tests.model.terms import Case, down, fold, once, up

EXPLORED = bounded(
    CASES, {"insert, delete, revive, one of them killed": Case({"A": once(up(5), down(10)), "B": once(up(20))})}
)
TEETH = {
    "fence": "fix of a replay killed",
    "reconcile": "insert, delete, revive",
    "guard": "tie of two contents",
    "landing fence": "update withdrawn",
    "markers": "update withdrawn",
    "newer": "update withdrawn",
    "carried markers": "gone, then rewritten again",
    "distrust": "rewritten and back",
    "proof": "edited by hand",
    "carried proof": "grown and edited by hand",
    "carried plan": "grown beside another",
    "bare landing fence": "rewritten and back",
}


@pytest.mark.parametrize("name", EXPLORED)
def test_whatever_the_order_of_steps_the_table_is_the_fold_in_the_end(name: str, record_property: Record) -> None:
    check_right(Model(EXPLORED[name]), record_property)


@pytest.mark.parametrize("part", SWITCHES)
def test_without_any_one_part_of_the_protocol_some_order_of_steps_goes_wrong(part: str) -> None:
    check_wrong(Model(CASES[TEETH[part]], frozenset({part})), SWITCHES[part])


def test_a_load_that_nobody_disturbs_takes_one_way_to_one_end() -> None:
    outcome = Model(Case({"A": once(up(1), up(2), down(1))}, kills=0)).explore()
    assert (outcome.states, outcome.at_rest, outcome.wrong) == (10, 1, [])


def test_at_an_equal_sequence_a_delete_is_newer_than_an_upsert_and_the_greater_hash_newer_than_the_smaller() -> None:
    assert fold(((up(9, 7), down(9)),)) is None
    assert fold(((up(9, 1), up(9, 2)), (down(8),))) == up(9, 2)
