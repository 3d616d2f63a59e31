"""Undo beside loads, explored exhaustively; see :mod:`tests.model.undo`."""

from dataclasses import replace

import pytest

from tests.model.checking import Record, bounded, check_right, check_wrong
from tests.model.terms import Case, up
from tests.model.undo import UNDO_CASES, UNDO_SWITCHES, UndoModel

EXPLORED = bounded(
    UNDO_CASES,
    {
        "bad first load": replace(UNDO_CASES["bad first load"], kills=0),
        "bad rewrite": Case({"A": ((up(5),), (up(9),))}, kills=1),
        "undone, then corrected": Case({"A": ((up(9),), (up(3),))}, kills=1),
    },
)
TWICE = bounded(
    {"undone twice": UNDO_CASES["loaded by hand after it"]},
    {"undone twice": replace(UNDO_CASES["loaded by hand after it"], kills=0)},
)
TEETH = {"refusal": "loaded by hand after it", "completion": "bad first load"}


@pytest.mark.parametrize("name", EXPLORED)
def test_whatever_the_order_of_steps_an_undo_lasts_until_its_source_changes(name: str, record_property: Record) -> None:
    check_right(UndoModel(EXPLORED[name]), record_property)


def test_two_people_may_undo_at_once(record_property: Record) -> None:
    check_right(UndoModel(TWICE["undone twice"], undos=2), record_property)


@pytest.mark.parametrize("part", UNDO_SWITCHES)
def test_without_any_one_part_of_undo_some_order_of_steps_goes_wrong(part: str) -> None:
    check_wrong(UndoModel(UNDO_CASES[TEETH[part]], frozenset({part})), UNDO_SWITCHES[part])
