"""Undo beside loads, explored exhaustively; see :mod:`tests.model.undo`."""

import pytest

from tests.model.checking import Record, check_right, check_wrong
from tests.model.undo import UNDO_CASES, UNDO_SWITCHES, UndoModel

TEETH = {"refusal": "loaded by hand after it", "completion": "bad first load"}


@pytest.mark.parametrize("name", UNDO_CASES)
def test_whatever_the_order_of_steps_an_undo_lasts_until_its_source_changes(name: str, record_property: Record) -> None:
    check_right(UndoModel(UNDO_CASES[name]), record_property)


def test_two_people_may_undo_at_once(record_property: Record) -> None:
    check_right(UndoModel(UNDO_CASES["loaded by hand after it"], undos=2), record_property)


@pytest.mark.parametrize("part", UNDO_SWITCHES)
def test_without_any_one_part_of_undo_some_order_of_steps_goes_wrong(part: str) -> None:
    check_wrong(UndoModel(UNDO_CASES[TEETH[part]], frozenset({part})), UNDO_SWITCHES[part])
