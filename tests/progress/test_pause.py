"""A pause is in force from its entry to its end, or until somebody resumes the table."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import pytest

from incload_assets.declaration.window import now
from incload_assets.platform.errors import IncrementalLoadError, TablePaused
from incload_assets.platform.lake import Lake
from incload_assets.progress import pause as module
from incload_assets.progress.audit import AuditEntry, chain_of, record
from incload_assets.progress.pause import expect_not_paused, parse_since, parse_until, pause, pause_of, pauses, resume

HOUR = timedelta(hours=1)
AT = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    yield Lake(str(tmp_path))


def test_a_table_is_paused_until_the_time_or_until_it_is_resumed(lake: Lake) -> None:
    assert pause_of(lake, "orders") is None
    until = now() + HOUR
    made = pause(lake, "orders", until, " the shop is being migrated ", actor="ada")
    assert pause_of(lake, "orders") == made
    assert str(made).startswith("paused by ada since 20") and str(made).endswith("UTC: the shop is being migrated")
    assert pause_of(lake, "customers") is None
    assert pauses(lake, until - timedelta(seconds=1)).keys() == {"orders"} and pauses(lake, until) == {}
    with pytest.raises(TablePaused, match=r"paused by ada .*incload resume orders"):
        expect_not_paused(lake, "orders")

    longer = pause(lake, "orders", until + HOUR, "it takes longer", actor="grace")
    assert pause_of(lake, "orders", until) == longer
    assert resume(lake, "orders", actor="ada") == longer
    assert pause_of(lake, "orders") is None
    expect_not_paused(lake, "orders")
    assert [(e.action, e.actor) for e in chain_of(lake).entries] == [
        ("pause", "ada"), ("pause", "grace"), ("resume", "ada"),
    ]  # fmt: skip


def test_rows_of_the_audit_are_read_only_after_it_was_written_to(lake: Lake) -> None:
    pause(lake, "orders", now() + HOUR, "why")
    with mock.patch.object(module, "_read", wraps=module._read) as read:
        assert [bool(pause_of(lake, "orders")) for _ in range(3)] == [True] * 3
        assert read.call_count == 1
        record(lake, AuditEntry(action="resume", table="orders"))  # another process
        assert pause_of(lake, "orders") is None
        assert read.call_count == 2


def test_what_is_no_pause_is_refused_with_the_reason(lake: Lake) -> None:
    for until, because, said in (
        (now() - HOUR, "why", "has passed"),
        (now() + HOUR, "  ", "no reason is given"),
    ):
        with pytest.raises(IncrementalLoadError, match=said):
            pause(lake, "orders", until, because)
    with pytest.raises(IncrementalLoadError, match="orders is not paused"):
        resume(lake, "orders")
    assert chain_of(lake).entries == []


@pytest.mark.parametrize(
    ("text", "hours"),
    [("30min", 0.5), ("2h", 2), ("3d", 72), ("1w", 168), ("2026-01-06", 12), ("2026-01-05T15:00+01:00", 2)],
)
def test_a_time_or_a_duration_says_until_when(text: str, hours: float) -> None:
    assert parse_until(text, AT) == AT + hours * HOUR


def test_other_texts_are_refused_and_a_duration_may_count_back() -> None:
    for text in ("tomorrow", "2", "2 hours", "99999999w", ""):
        with pytest.raises(IncrementalLoadError, match="neither a time nor a duration"):
            parse_until(text, AT)
    assert parse_since("2h", AT) == AT - 2 * HOUR
