"""Old entries of the audit are removed, and what is left is still one chain that shows where it was altered."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from incload_assets.declaration import window as windows
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.progress import audit as module
from incload_assets.progress.audit import Altered, AuditEntry, AuditExpired, audit_uri, chain_of, expire_audit, record

START = datetime(2026, 1, 1, tzinfo=UTC)
SINCE_DAY_3 = START + timedelta(days=2, hours=12)
"""Entries 1 to 3 are older."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with six entries, one a day."""
    lake = Lake(str(tmp_path))
    for number in range(6):
        written(lake, number, AuditEntry(action="load", table="orders", actor=f"actor {number + 1}"))
    return lake


def written(lake: Lake, day: float, entry: AuditEntry) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "now", lambda: START + timedelta(days=day))
        record(lake, entry)


def opened(lake: Lake) -> DeltaTable:
    delta = lake.delta(audit_uri(lake))
    assert delta is not None
    return delta


def numbers(lake: Lake) -> list[int]:
    return [entry.number for entry in chain_of(lake).entries]


def test_old_entries_go_and_the_rest_is_a_chain_to_which_others_are_added(lake: Lake) -> None:
    assert expire_audit(lake, START) == AuditExpired(before=6, after=6)
    assert expire_audit(lake, SINCE_DAY_3) == AuditExpired(before=6, after=4, removed=3)
    assert numbers(lake) == [4, 5, 6, 7] and chain_of(lake).altered is None
    assert expire_audit(lake, SINCE_DAY_3) == AuditExpired(before=4, after=4)
    record(lake, AuditEntry(action="pause", table="orders"))
    assert expire_audit(lake, SINCE_DAY_3 + timedelta(days=2)) == AuditExpired(before=5, after=4, removed=2)
    assert numbers(lake) == [6, 7, 8, 9] and chain_of(lake).altered is None


def test_anchors_alone_are_no_reason_for_another_one(lake: Lake) -> None:
    later = windows.now() + timedelta(days=1)
    assert expire_audit(lake, later).after == 1
    assert expire_audit(lake, later) == AuditExpired(before=1, after=1)
    assert numbers(lake) == [7] and chain_of(lake).altered is None


def test_a_removal_that_was_killed_between_its_steps_is_completed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(module, "_removed", lambda *_: False)
        assert expire_audit(lake, SINCE_DAY_3) == AuditExpired(before=6, after=7)
    assert chain_of(lake).altered is None
    assert expire_audit(lake, START) == AuditExpired(before=7, after=4, removed=3)
    assert numbers(lake) == [4, 5, 6, 7] and chain_of(lake).altered is None


def test_a_removal_that_loses_against_another_writer_is_left_to_the_next_night(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise CommitFailedError("another writer was first")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "delete", lost)
        assert expire_audit(lake, SINCE_DAY_3).removed == 0
    assert expire_audit(lake, SINCE_DAY_3).removed == 3


@pytest.mark.parametrize(("also", "first"), [(4, 4), (5, 5), (7, 1)])
def test_more_than_an_anchor_covers_is_missed(lake: Lake, also: int, first: int) -> None:
    expire_audit(lake, SINCE_DAY_3)
    opened(lake).delete(f"number = {also}")
    altered = chain_of(lake).altered
    assert altered is not None and altered.number == first
    with pytest.raises(IncrementalLoadError, match="the audit was altered from entry"):
        expire_audit(lake, SINCE_DAY_3 + timedelta(days=2))


def test_entries_that_are_removed_without_an_anchor_are_missed(lake: Lake) -> None:
    opened(lake).delete("number <= 2")
    assert chain_of(lake).altered == Altered(1, "it and the entries up to 2 are missing")


def test_the_bytes_of_removed_entries_leave_the_data_files(lake: Lake, tmp_path: Path) -> None:
    def holding(text: str) -> list[Path]:
        return [file for file in tmp_path.rglob("*.parquet") if text.encode() in file.read_bytes()]

    assert holding("actor 2") and holding("actor 5")
    expire_audit(lake, SINCE_DAY_3)
    done = expire_audit(lake, SINCE_DAY_3, files_kept=timedelta(0))
    assert done.files > 0
    data = [file for file in holding("actor 2") if "_delta_log" not in file.parts]
    assert data == [] and holding("actor 5")
