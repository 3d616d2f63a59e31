"""The plain fold that the loaded tables are compared with."""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from incload_assets.shop.calendar import midnight
from incload_assets.shop.feed import Delivery, Record
from incload_assets.shop.orders import ORDERS
from incload_assets.shop.settings import SETTINGS
from incload_assets.shop.truth import truth

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def row(order_id: int, minute: int, status: str) -> dict[str, Any]:
    return {"order_id": order_id, "status": status, "updated_at": NOON.replace(minute=minute)}


def record(order_id: int, minute: int, status: str, **more: Any) -> Record:
    return Record(arrives=NOON, fields={}, row=row(order_id, minute, status), **more)


def file(name: str, *records: Record, minute: int = 0) -> Delivery:
    due = NOON.replace(minute=minute)
    return Delivery(feed=ORDERS, window=midnight(date(2026, 1, 5)), name=name, due=due, records=records)


def test_the_latest_change_of_each_key_holds_whatever_the_order_of_arrival() -> None:
    files = [file("a", record(1, 3, "sent"), record(1, 1, "new")), file("b", record(1, 2, "paid"), record(2, 1, "new"))]
    expected = {(1,): row(1, 3, "sent"), (2,): row(2, 1, "new")}
    assert truth(ORDERS, files).rows == expected
    assert truth(ORDERS, files[::-1]).rows == expected


def test_a_deleted_row_is_gone_and_an_older_update_does_not_bring_it_back() -> None:
    files = [file("a", record(1, 1, "new"), record(1, 3, "new", delete=True)), file("b", record(1, 2, "paid"))]
    assert truth(ORDERS, files).rows == {}


def test_of_a_rewritten_file_only_the_newest_version_counts() -> None:
    former = file("a", record(1, 1, "new"), record(2, 1, "new"))
    rewritten = replace(file("a", record(1, 1, "paid"), minute=30), rewritten=True)
    assert truth(ORDERS, [rewritten, former]).rows == {(1,): row(1, 1, "paid")}


def test_bad_records_are_counted_in_the_window_of_their_file_and_leave_the_rows_alone() -> None:
    bad = replace(record(1, 9, "teleported"), row=None)
    found = truth(ORDERS, [file("a", record(1, 1, "new"), bad, bad)])
    assert found.rows == {(1,): row(1, 1, "new")}
    assert found.quarantined == {"2026-01-05": 2}


def test_two_different_changes_with_one_sequence_are_refused_as_nobody_could_say_which_is_right() -> None:
    with pytest.raises(AssertionError, match="two different changes"):
        truth(ORDERS, [file("a", record(1, 1, "new"), record(1, 1, "paid"))])


def export(day: int, minute: int, *records: Record) -> Delivery:
    window = midnight(date(2026, 1, day))
    return Delivery(feed=SETTINGS, window=window, name=str(day), due=window.replace(minute=minute), records=records)


def setting(name: str) -> Record:
    return Record(arrives=NOON, fields={}, row={"name": name})


def test_of_complete_extracts_the_newest_counts_and_what_it_lacks_is_gone() -> None:
    files = [export(6, 1, setting("b")), export(5, 2, setting("a"), setting("b")), export(5, 1, setting("c"))]
    assert truth(SETTINGS, files).rows == {("b",): {"name": "b"}}
    assert truth(SETTINGS, files[:0]).rows == {}


def test_a_broken_extract_says_nothing_and_nothing_of_it_is_quarantined() -> None:
    wrong = export(5, 2, setting("b"), replace(setting("c"), row=None))
    found = truth(SETTINGS, [export(5, 1, setting("a")), wrong])
    assert (found.rows, found.quarantined) == ({("a",): {"name": "a"}}, {})
