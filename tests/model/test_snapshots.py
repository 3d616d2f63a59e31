"""Tables of snapshots, explored exhaustively; see :mod:`tests.model.snapshots`."""

import pytest

from tests.model.checking import Record, check_right, check_wrong
from tests.model.protocol import PROOFS, SWITCHES
from tests.model.snapshots import NEEDLESS, SNAPSHOT_CASES, SnapshotModel

TEETH = {
    "fence": "newest rewritten",
    "landing fence": "newest rewritten",
    "distrust": "rewritten and back",
    "bare landing fence": "rewritten and back",
}


@pytest.mark.parametrize("name", SNAPSHOT_CASES)
def test_in_the_end_the_table_is_the_newest_snapshot_and_never_less_once_that_is_loaded(
    name: str, record_property: Record
) -> None:
    assert check_right(SnapshotModel(SNAPSHOT_CASES[name]), record_property).exposed == 0


@pytest.mark.parametrize("part", TEETH)
def test_without_any_one_part_of_the_protocol_some_order_of_steps_goes_wrong(part: str) -> None:
    check_wrong(SnapshotModel(SNAPSHOT_CASES[TEETH[part]], frozenset({part})), SWITCHES[part])


def test_without_the_fence_of_the_scope_a_forgotten_merge_of_an_older_window_is_seen_for_a_while(
    record_property: Record,
) -> None:
    model = SnapshotModel(SNAPSHOT_CASES["key gone in the second"], frozenset({"scope fence"}))
    assert check_right(model, record_property).exposed > 0


def test_without_the_fence_of_the_scope_snapshots_need_reconciliation() -> None:
    model = SnapshotModel(SNAPSHOT_CASES["there, gone, there again"], frozenset({"scope fence", "reconcile"}))
    check_wrong(model, SWITCHES["reconcile"])


@pytest.mark.parametrize("name", SNAPSHOT_CASES)
def test_with_it_they_need_neither_that_nor_guard_nor_markers(name: str, record_property: Record) -> None:
    assert check_right(SnapshotModel(SNAPSHOT_CASES[name], NEEDLESS), record_property).exposed == 0


def test_the_parts_that_matter_are_those_with_teeth() -> None:
    assert TEETH.keys() | NEEDLESS | PROOFS == SWITCHES.keys(), "nobody edits a table of these cases by hand"
