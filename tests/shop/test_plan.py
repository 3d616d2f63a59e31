"""What the generator sends, without writing it."""

from collections import Counter
from datetime import date, datetime, timedelta

import pytest

from incload_assets.shop.calendar import Calendar, midnight
from incload_assets.shop.feed import Delivery, Record
from incload_assets.shop.plan import FEEDS, Plan
from tests.shop.conftest import MONDAY

TABLES = list(FEEDS)
TEN_DAYS = (midnight(MONDAY), midnight(MONDAY + timedelta(days=10)))


def deliveries(table: str, *, seed: int = 20, days: int = 10) -> list[Delivery]:
    plan = Plan(Calendar(MONDAY, seed, 1.0))
    return plan.due(midnight(MONDAY), midnight(MONDAY + timedelta(days=days)), [table])


COMMON = {"late", "out of order", "duplicate", "NULL key", "value outside the set"}
TROUBLES = {
    "orders": COMMON
    | {"update after delete", "unknown field", "malformed", "wrong type", "NULL sequence", "corrected"},
    "customers": COMMON | {"malformed", "wrong type", "pattern", "corrected"},
    "inventory": COMMON | {"unknown field", "out of range", "pattern", "corrected"},
    "events": COMMON | {"unknown field", "malformed", "wrong type", "out of range"},
}


@pytest.mark.parametrize("seed", [1, 20, 33])
@pytest.mark.parametrize("table", TABLES)
def test_every_kind_of_trouble_turns_up_within_ten_days(table: str, seed: int) -> None:
    kinds = {record.trouble for file in deliveries(table, seed=seed) for record in file.records}
    assert kinds == TROUBLES[table] | {None}


@pytest.mark.parametrize("seed", [1, 20, 33])
@pytest.mark.parametrize("table", ["orders", "customers"])
def test_rows_are_inserted_updated_and_deleted_within_ten_days(table: str, seed: int) -> None:
    key = FEEDS[table].keys[0]
    good = [record for file in deliveries(table, seed=seed) for record in file.records if record.row]
    changes = Counter(
        (record.row or {})[key] for record in good if not (record.delete or record.trouble == "duplicate")
    )
    deleted = {(record.row or {})[key] for record in good if record.delete}
    assert deleted & set(changes)
    assert max(changes.values()) > 1


@pytest.mark.parametrize("table", ["orders", "customers", "inventory"])
def test_an_older_file_is_rewritten_corrected_and_sometimes_shorter(table: str) -> None:
    files = deliveries(table)
    rewritten = [file for file in files if file.rewritten]
    former = {file.path: file for file in files if not file.rewritten}
    assert rewritten
    for file in rewritten:
        assert file.due > former[file.path].due
        assert file.window < file.due.date()
        assert [record.trouble for record in file.records].count("corrected") == 1
    shorter = [len(former[file.path].records) - len(file.records) for file in rewritten]
    assert set(shorter) <= {0, 1} and 1 in shorter


def test_user_events_are_never_rewritten() -> None:
    assert not any(file.rewritten for file in deliveries("events", days=30))


@pytest.mark.parametrize("table", TABLES)
def test_each_record_is_in_exactly_one_file(table: str) -> None:
    calendar, end = Calendar(MONDAY, 20, 1.0), midnight(MONDAY + timedelta(days=20))
    sent = [record for file in deliveries(table, days=40) if not file.rewritten for record in file.records]
    began = [record for day in calendar.days(MONDAY, end.date()) for record in FEEDS[table].born(calendar, day)]

    def identities(records: list[Record]) -> Counter[str]:
        return Counter(repr(record) for record in records if record.arrives < end)

    assert identities(sent) == identities(began)


@pytest.mark.parametrize("table", TABLES)
def test_an_open_window_never_holds_too_large_a_share_of_bad_records(table: str) -> None:
    read: Counter[date] = Counter()
    bad: Counter[date] = Counter()
    for file in deliveries(table, days=15):
        if not file.rewritten:
            read[file.window] += len(file.records)
            bad[file.window] += sum(record.row is None for record in file.records)
            assert bad[file.window] <= 0.1 * read[file.window]
    assert sum(bad.values()) > 0


@pytest.mark.parametrize("table", TABLES)
def test_a_weekday_brings_forty_to_a_hundred_and_fifty_records_and_a_sunday_fewer(table: str) -> None:
    counts = Counter(
        (file.due - timedelta(microseconds=1)).date()
        for file in deliveries(table, days=14)
        if not file.rewritten
        for _ in file.records
    )
    weekdays = [counts[MONDAY + timedelta(days=n)] for n in (8, 9, 10, 11)]
    assert all(40 <= count <= 150 for count in weekdays)
    if table != "customers":  # whose changes trail their registration by days
        assert counts[MONDAY + timedelta(days=13)] < 0.8 * min(weekdays)


def test_written_times_mean_the_instants_of_the_rows_and_come_from_several_time_zones() -> None:
    offsets = set()
    for file in deliveries("orders"):
        for record in file.records:
            if record.row and record.raw is None:
                for column in ("ordered_at", "updated_at"):
                    written = datetime.fromisoformat(record.fields[column])
                    assert written == record.row[column]
                    offsets.add(written.utcoffset())
    assert len(offsets) == 5


def test_the_order_date_of_an_order_is_the_same_in_all_its_changes_deletes_included() -> None:
    dates: dict[int, set[date]] = {}
    for file in deliveries("orders"):
        for record in file.records:
            if record.row:
                dates.setdefault(record.row["order_id"], set()).add(record.row["order_date"])
    assert {len(found) for found in dates.values()} == {1}


def test_nothing_is_due_before_the_opening() -> None:
    assert Plan(Calendar(MONDAY, 20, 1.0)).due(midnight(date(2025, 12, 1)), midnight(MONDAY)) == []


def test_deliveries_do_not_depend_on_what_was_asked_for_before() -> None:
    asked_before, fresh = Plan(Calendar(MONDAY, 20, 0.25)), Plan(Calendar(MONDAY, 20, 0.25))
    asked_before.due(*TEN_DAYS)
    day = (midnight(MONDAY + timedelta(days=8)), midnight(MONDAY + timedelta(days=9)))
    assert asked_before.due(*day) == fresh.due(*day)


def test_another_seed_is_another_shop() -> None:
    assert deliveries("orders", seed=1)[0].content() != deliveries("orders", seed=2)[0].content()
