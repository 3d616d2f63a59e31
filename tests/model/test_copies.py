"""A copy in chunks, explored exhaustively; see :mod:`tests.model.copies`."""

import pytest

from tests.model.checking import Record, check_right, check_wrong
from tests.model.copies import COPY_CASES, COPY_SWITCHES, CopyModel

TEETH = {
    "kept": "changed where it is",
    "whole": "moved to the other chunk",
    "proof": "moved to the other chunk",
    "oldest": "a row is dated back",
    "position": "changed again and again",
}


@pytest.mark.parametrize("name", COPY_CASES)
def test_whatever_the_order_of_steps_the_table_is_what_the_source_holds_in_the_end(
    name: str, record_property: Record
) -> None:
    check_right(CopyModel(COPY_CASES[name]), record_property)


@pytest.mark.parametrize("part", TEETH)
def test_without_any_one_part_of_a_copy_some_order_of_steps_goes_wrong(part: str) -> None:
    check_wrong(CopyModel(COPY_CASES[TEETH[part]], frozenset({part})), COPY_SWITCHES[part])


def test_the_parts_of_a_copy_are_those_with_teeth() -> None:
    assert TEETH.keys() == COPY_SWITCHES.keys()
