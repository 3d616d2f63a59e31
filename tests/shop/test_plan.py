"""What the generator sends, without writing it."""

from collections import Counter
from datetime import date, datetime, timedelta
from functools import cache
from itertools import pairwise

import pytest

from incload_assets.shop.calendar import PLATFORM_AFTER, Calendar, midnight
from incload_assets.shop.feed import Delivery, Record, RecordFeed
from incload_assets.shop.plan import FEEDS, TradingPlan
from tests.shop.conftest import MONDAY

TABLES = list(FEEDS)
STREAMS = {table: feed for table, feed in FEEDS.items() if isinstance(feed, RecordFeed)}
EXPORTS = ["settings"]
PLATFORM = MONDAY + PLATFORM_AFTER
TEN_DAYS = (midnight(MONDAY), midnight(MONDAY + timedelta(days=10)))


@cache  # of log lines there are thousands
def deliveries(table: str, *, seed: int = 20, days: int = 10) -> list[Delivery]:
    plan = TradingPlan(Calendar(MONDAY, seed, 1.0))
    return plan.due(midnight(MONDAY), midnight(MONDAY + timedelta(days=days)), [table])


COMMON = {"late", "out of order", "duplicate", "NULL key", "value outside the set"}
TROUBLES = {
    "orders": COMMON
    | {"update after delete", "unknown field", "malformed", "wrong type", "NULL sequence", "corrected"},
    "customers": COMMON | {"malformed", "wrong type", "pattern", "corrected"},
    "inventory": COMMON | {"unknown field", "out of range", "pattern", "corrected"},
    "events": COMMON | {"unknown field", "malformed", "wrong type", "out of range"},
    "articles": {"late", "duplicate", "malformed", "no sequence", "new key"},
    "assortment_full": set(),
    "assortment_changes": {"late", "duplicate", "value outside the set"},
    "service_logs": {"late", "duplicate", "malformed", "wrong type"},
    "settings": {"plain secret", "wrong type"},
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
        assert file.window.date() < file.due.date()
        assert [record.trouble for record in file.records].count("corrected") == 1
    shorter = [len(former[file.path].records) - len(file.records) for file in rewritten]
    assert set(shorter) <= {0, 1} and 1 in shorter


@pytest.mark.parametrize("table", ["events", "service_logs"])
def test_user_events_and_log_lines_are_never_rewritten(table: str) -> None:
    assert not any(file.rewritten for file in deliveries(table, days=14))


@pytest.mark.parametrize("table", STREAMS)
def test_each_record_is_in_exactly_one_file(table: str) -> None:
    calendar, end = Calendar(MONDAY, 20, 1.0), midnight(MONDAY + timedelta(days=9))
    sent = [record for file in deliveries(table) if not file.rewritten for record in file.records]
    began = [record for day in calendar.days(MONDAY, end.date()) for record in STREAMS[table].born(calendar, day)]

    def identities(records: list[Record]) -> Counter[str]:
        return Counter(repr(record) for record in records if record.arrives < end)

    assert identities(sent) == identities(began)


@pytest.mark.parametrize("table", STREAMS)
def test_an_open_window_never_holds_too_large_a_share_of_bad_records(table: str) -> None:
    read: Counter[datetime] = Counter()
    bad: Counter[datetime] = Counter()
    for file in deliveries(table, days=14):
        if not file.rewritten:
            read[file.window] += len(file.records)
            bad[file.window] += sum(record.row is None for record in file.records)
            assert bad[file.window] <= 0.1 * read[file.window]
    assert sum(bad.values()) > 0


@pytest.mark.parametrize("table", STREAMS)
def test_a_weekday_brings_as_many_records_as_the_shop_is_said_to_have_and_a_sunday_fewer(table: str) -> None:
    least, most = (5_000, 7_000) if table == "service_logs" else (40, 150)
    counts = Counter(
        (file.due - timedelta(microseconds=1)).date()
        for file in deliveries(table, days=14)
        if not file.rewritten
        for _ in file.records
    )
    weekdays = [counts[MONDAY + timedelta(days=n)] for n in (8, 9, 10, 11)]
    assert all(least <= count <= most for count in weekdays)
    if table not in ("customers", "articles"):  # whose changes trail the first one by days
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
    assert TradingPlan(Calendar(MONDAY, 20, 1.0)).due(midnight(date(2025, 12, 1)), midnight(MONDAY)) == []


def test_deliveries_do_not_depend_on_what_was_asked_for_before() -> None:
    asked_before, fresh = TradingPlan(Calendar(MONDAY, 20, 0.25)), TradingPlan(Calendar(MONDAY, 20, 0.25))
    asked_before.due(*TEN_DAYS)
    day = (midnight(MONDAY + timedelta(days=8)), midnight(MONDAY + timedelta(days=9)))
    assert asked_before.due(*day) == fresh.due(*day)


def test_another_seed_is_another_shop() -> None:
    assert deliveries("orders", seed=1)[0].content() != deliveries("orders", seed=2)[0].content()


def test_the_platform_has_a_log_file_for_each_minute_in_folders_of_an_hour_and_nothing_before_its_first_day() -> None:
    files = deliveries("service_logs", days=8)
    assert [files[0].path, files[-1].path] == [
        "service_logs/2026-01-12T00/log-00.json.gz",
        "service_logs/2026-01-12T23/log-59.json.gz",
    ]
    assert (files[0].due, len(files)) == (midnight(PLATFORM) + timedelta(minutes=1), 24 * 60)
    assert {file.partition for file in files} == {f"2026-01-12-{hour:02}:00" for hour in range(24)}


def test_some_log_lines_arrive_in_the_folder_of_the_hour_after_theirs() -> None:
    hours = {
        file.window - record.row["logged_hour"]
        for file in deliveries("service_logs")
        for record in file.records
        if record.row
    }
    assert hours == {timedelta(0), timedelta(hours=1)}


@pytest.mark.parametrize("table", EXPORTS)
def test_an_export_is_one_file_a_day_that_is_written_again_within_the_day(table: str) -> None:
    files = deliveries(table)
    days = [PLATFORM + timedelta(days=number) for number in range(3)]
    assert list(dict.fromkeys(file.path for file in files)) == [f"{table}/{day}.json" for day in days]
    assert all(file.due.date() == file.window.date() for file in files)
    assert [file.window.date() for file in files if not file.rewritten] == days
    assert len({file.due for file in files}) == len(files) > 3 * 5


@pytest.mark.parametrize("scale", [0.05, 0.25, 1.0, 3.0])
@pytest.mark.parametrize("table", EXPORTS)
def test_a_broken_export_is_followed_by_a_good_one_that_says_what_it_should_have_said(table: str, scale: float) -> None:
    files = TradingPlan(Calendar(MONDAY, 20, scale)).due(*TEN_DAYS, [table])
    broken = [n for n, file in enumerate(files) if any(record.row is None for record in file.records)]
    assert len(broken) == 3
    for number in broken:
        wrong, right = files[number], files[number + 1]
        assert wrong.path == right.path and wrong.due < right.due
        [difference] = [(a, b) for a, b in zip(wrong.records, right.records, strict=True) if a.fields != b.fields]
        assert difference[0].row is None and difference[1].row is not None


def test_settings_change_appear_and_are_removed_and_an_unchanged_one_is_as_before() -> None:
    good = [
        {record.fields["name"]: record.row for record in file.records}
        for file in deliveries("settings")
        if all(record.row for record in file.records)
    ]
    kinds: Counter[str] = Counter()
    for before, after in pairwise(good):
        kinds["added"] += len(after.keys() - before.keys())
        kinds["removed"] += len(before.keys() - after.keys())
        kinds["changed"] += sum(before[name] != after[name] for name in before.keys() & after.keys())
    assert kinds.keys() == {"added", "removed", "changed"} and all(3 <= count <= 40 for count in kinds.values())


def test_a_secret_is_exported_as_a_keyed_hash_alone() -> None:
    for file in deliveries("settings"):
        for record in file.records:
            if record.row and record.fields["is_secret"]:
                assert record.fields["value"] == record.row["secret_hash"]
                assert record.row["value"] is None and record.row["secret_hash"].startswith("hmac-sha256:")
