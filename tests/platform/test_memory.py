"""When Python searches for garbage."""

import gc

import pytest

from incload_assets.platform.memory import unsearched


@pytest.mark.parametrize("enabled", [True, False])
def test_python_does_not_search_for_garbage_in_the_block_and_does_afterwards_as_before(enabled: bool) -> None:
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(ValueError), unsearched():
            assert not gc.isenabled()
            raise ValueError
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_objects_that_stay_are_passed_over_by_later_searches() -> None:
    gc.unfreeze()
    with unsearched(stays=True):
        made = [[] for _ in range(1000)]
    try:
        assert gc.get_freeze_count() >= len(made)
    finally:
        gc.unfreeze()
