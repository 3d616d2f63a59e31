"""The status of a window whose load was undone."""

from dataclasses import replace

from dagster._core.storage.partition_status_cache import AssetPartitionStatus

from incload_assets.change_log.window_records import Hold, WindowRecord
from incload_assets.declaration.source import Position
from incload_assets.declaration.window import now
from incload_assets.progress.progress import _status

BAD, CORRECTED = (Position(fingerprint, {}, "") for fingerprint in ("bad", "corrected"))
HOLD = Hold(fingerprint="bad", actor="somebody", because="", at=now(), undone=2, returned_to=1)
RECORD = WindowRecord(
    landing=3, fingerprint="good", position="{}", summary="", code_version="1", run_id="", landed_at=now(),
    rows_read=1, rejected=0, replaced=0, held=HOLD.as_text(),
)  # fmt: skip
DONE, FAILED = AssetPartitionStatus.MATERIALIZED, AssetPartitionStatus.FAILED


def test_a_window_is_held_only_once_its_undo_is_checkpointed() -> None:
    assert _status(DONE, BAD, "good", RECORD) == "held"
    assert _status(DONE, BAD, "bad", RECORD) == "drifted"
    assert _status(FAILED, BAD, "good", RECORD) == "failed"


def test_a_hold_ends_when_the_source_changes() -> None:
    assert _status(DONE, CORRECTED, "good", RECORD) == "drifted"
    assert _status(DONE, None, "good", RECORD) == "loaded", "the bad file is gone"
    assert _status(DONE, BAD, "bad", replace(RECORD, held=None, fingerprint="bad")) == "loaded"


def test_a_hold_is_stored_as_text_and_says_who_and_why() -> None:
    assert RECORD.hold == HOLD
    assert str(replace(HOLD, because="wrong prices")).endswith("UTC: wrong prices")


def test_a_window_that_is_only_held_is_so_although_its_load_failed() -> None:
    only_held = replace(RECORD, fingerprint="bad", held=replace(HOLD, undone=0).as_text())
    assert _status(FAILED, BAD, "good", only_held) == _status(DONE, BAD, "bad", only_held) == "held"
    assert _status(FAILED, CORRECTED, "good", only_held) == "failed"
