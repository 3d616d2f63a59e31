"""Work that must be alone with a table claims it: other work is refused, and its own repetition takes over."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from incload_assets.declaration.window import now
from incload_assets.platform.lake import Lake
from incload_assets.progress.audit import chain_of
from incload_assets.progress.claims import claim, claimed_by_others, end_claim
from incload_assets.progress.pause import Pause, pause, pause_of, resume

HOUR = timedelta(hours=1)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def claimed(lake: Lake, holder: str, table: str = "orders") -> Pause | None:
    return claim(lake, table, now() + HOUR, f"{holder} works", holder=holder, actor="ada")


def test_a_claimed_table_is_paused_and_refused_to_other_work_until_the_claim_ends(lake: Lake) -> None:
    one = claimed(lake, "one")
    assert one is not None and pause_of(lake, "orders") == one
    assert claimed(lake, "two") is None and claimed_by_others(lake, "orders", "two") == one
    assert claimed(lake, "two", "customers") is not None
    assert end_claim(lake, one, "done") and pause_of(lake, "orders") is None
    assert claimed(lake, "two") is not None
    assert [entry.action for entry in chain_of(lake).entries] == ["pause", "pause", "resume", "pause"]


def test_repeated_work_takes_its_claim_over_and_the_former_end_does_not_end_it(lake: Lake) -> None:
    died, again = claimed(lake, "one"), claimed(lake, "one")
    assert died is not None and again is not None and died.number < again.number
    assert not end_claim(lake, died, "done")
    assert pause_of(lake, "orders") == again
    assert end_claim(lake, again, "done") and pause_of(lake, "orders") is None


def test_a_persons_pause_and_a_claim_stand_beside_each_other_whichever_came_first(lake: Lake) -> None:
    before = pause(lake, "orders", now() + HOUR, "migration")
    one = claimed(lake, "one")
    assert one is not None and end_claim(lake, one, "done")
    assert pause_of(lake, "orders") == before
    one = claimed(lake, "one")
    after = pause(lake, "orders", now() + HOUR, "migration goes on")
    assert one is not None and end_claim(lake, one, "done")
    assert pause_of(lake, "orders") == after


def test_a_resume_ends_the_claim_of_work_that_has_died(lake: Lake) -> None:
    died = claimed(lake, "one")
    assert resume(lake, "orders") == died and pause_of(lake, "orders") is None
    assert claimed(lake, "two") is not None


def test_of_several_claims_at_once_one_is_granted(lake: Lake) -> None:
    pause(lake, "customers", now() + HOUR, "the audit is there")
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda number: claimed(lake, f"work {number}"), range(4))]
    assert sum(one is not None for one in found) == 1
