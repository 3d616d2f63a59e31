"""Compaction of the log beside loads, explored exhaustively; see :mod:`tests.model.compaction`."""

import pytest

from tests.model.checking import Record, check_right, check_wrong
from tests.model.compaction import COMPACTION_CASES, COMPACTION_SWITCHES, CompactionModel

TEETH = {
    "compaction fence": "rewrite chosen",
    "compaction intent": "rewrite refused",
    "clean": "rewrite refused",
    "keep deletes": "late older change",
    "old only": "newer delete withdrawn later",
    "refusal": "rewrite refused",
    "move of the compaction fence": "rewrite chosen",
}


@pytest.mark.parametrize("name", COMPACTION_CASES)
def test_whatever_the_order_of_steps_table_and_log_agree_in_the_end(name: str, record_property: Record) -> None:
    check_right(CompactionModel(COMPACTION_CASES[name]), record_property)


@pytest.mark.parametrize("part", COMPACTION_SWITCHES)
def test_without_any_one_part_of_compaction_some_order_of_steps_goes_wrong(part: str) -> None:
    check_wrong(CompactionModel(COMPACTION_CASES[TEETH[part]], frozenset({part})), COMPACTION_SWITCHES[part])
