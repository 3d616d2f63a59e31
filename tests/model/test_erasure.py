"""Erasure of a data subject beside loads, explored exhaustively; see :mod:`tests.model.erasure`."""

from dataclasses import replace

import pytest

from tests.model.checking import Record, bounded, check_right, check_wrong
from tests.model.erasure import ERASURE_CASES, ERASURE_SWITCHES, SUBJECT, ErasureModel
from tests.model.terms import Case, down, up

EXPLORED = bounded(ERASURE_CASES, {"delete goes by a rewrite": Case({"A": ((down(5, SUBJECT),), (up(1),))}, kills=1)})
TEETH = {
    "barrier": "only change",
    "deny first": "only change",
    "list after barrier": "only change",
    "fold": "comes by a rewrite",
    "erasing": "delete in a window",
    "unsettled": "delete goes by a rewrite",
    "carry": "older change comes by a rewrite",
    "as merged": "beside a rewrite",
    "call off": "goes by a rewrite",
    "sweep": "goes by a rewrite",
    "list first": "only change",
    "second barrier": "only change",
    "table barrier": "newest change of a window",
}


@pytest.mark.parametrize("name", EXPLORED)
def test_whatever_the_order_of_steps_nothing_of_the_subject_stays_or_comes_back(
    name: str, record_property: Record
) -> None:
    check_right(ErasureModel(EXPLORED[name]), record_property)


@pytest.mark.parametrize("part", ERASURE_SWITCHES)
def test_without_any_one_part_of_erasure_some_order_of_steps_goes_wrong(part: str) -> None:
    kills = 1 if part in ("erasing", "call off") else 0
    case = replace(ERASURE_CASES[TEETH[part]], kills=kills)
    check_wrong(ErasureModel(case, frozenset({part})), ERASURE_SWITCHES[part])
