"""The shop as it trades: its clock, its files, and what can come between."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.settings import Settings
from incload_assets.shop import Shop, ShopBusy, opening_date, platform_date
from incload_assets.shop.calendar import PLATFORM_AFTER, midnight
from incload_assets.shop.clock import Clock
from incload_assets.shop.landing import replace_file
from tests.shop.conftest import MONDAY, landed

TABLES = ("orders", "customers", "inventory", "events")
PLATFORM = midnight(MONDAY + PLATFORM_AFTER)
AShop = Callable[..., Shop]


def test_the_same_seed_and_opening_day_give_the_same_bytes(a_shop: AShop, tmp_path: Path) -> None:
    a_shop("one").advance(days=3)
    a_shop("two").advance(days=3)
    assert len(landed(tmp_path / "one")) > 100
    assert landed(tmp_path / "one") == landed(tmp_path / "two")


def test_by_days_or_by_odd_minutes_the_files_and_the_truth_are_the_same(a_shop: AShop, tmp_path: Path) -> None:
    by_days, by_minutes = a_shop("days"), a_shop("minutes")
    by_days.advance(days=4)
    while by_minutes.now < by_days.now:
        by_minutes.advance(until=min(by_minutes.now + timedelta(minutes=173), by_days.now))
    assert landed(tmp_path / "days") == landed(tmp_path / "minutes")
    for table in TABLES:
        assert by_days.expected(table) == by_minutes.expected(table) != {}
        assert by_days.quarantined(table) == by_minutes.quarantined(table) != {}


def test_the_platforms_files_and_truth_are_the_same_by_hours_or_by_odd_minutes(a_shop: AShop, tmp_path: Path) -> None:
    by_hours, by_minutes = a_shop("hours"), a_shop("minutes")
    for home in ("hours", "minutes"):
        Clock(Settings(home=tmp_path / home)).save(PLATFORM)
    by_hours.advance(minutes=12 * 60)
    while by_minutes.now < by_hours.now:
        by_minutes.advance(until=min(by_minutes.now + timedelta(minutes=37), by_hours.now))
    assert landed(tmp_path / "hours") == landed(tmp_path / "minutes")
    for table in ("service_logs", "settings"):
        assert by_hours.expected(table) == by_minutes.expected(table) != {}
    assert by_hours.quarantined("service_logs") == by_minutes.quarantined("service_logs") != {}


def test_a_few_minutes_add_files_to_the_open_day_and_leave_the_earlier_ones_alone(
    a_shop: AShop, tmp_path: Path
) -> None:
    shop = a_shop()
    shop.advance(minutes=20 * 60)
    before = landed(tmp_path / "home")
    advance = shop.advance(minutes=60)
    after = landed(tmp_path / "home")
    assert {file.partition for file in advance.files} == {str(MONDAY)}
    assert {path: after[path] for path in before} == before
    assert set(after) - set(before) == {file.path for file in advance.files} != set()


def test_an_advance_tells_what_it_wrote(a_shop: AShop, tmp_path: Path) -> None:
    advance = a_shop().advance(days=3)
    files = landed(tmp_path / "home")
    lines = sum(content.count(b"\n") for path, content in files.items() if path.startswith("orders/"))
    assert (advance.since, advance.now) == (midnight(MONDAY), midnight(date(2026, 1, 8)))
    assert {file.path: file.size for file in advance.files} == {path: len(data) for path, data in files.items()}
    assert advance.rows["orders"] == lines > 0
    assert advance.troubles["corrected"] == sum(file.rewritten for file in advance.files) == 1


def test_a_crash_before_the_clock_is_saved_costs_nothing(a_shop: AShop, tmp_path: Path) -> None:
    shop = a_shop()
    shop.advance(days=2)
    clock = tmp_path / "home" / "shop" / "clock.json"
    saved = clock.read_bytes()
    shop.advance(days=2)
    written = landed(tmp_path / "home")
    clock.write_bytes(saved)  # what a crash right after the last file leaves behind
    (tmp_path / "home/landing/orders/2026-01-08/orders-1200.json").unlink(missing_ok=True)

    repeated = a_shop().advance(days=2)

    assert repeated.now == midnight(date(2026, 1, 9))
    assert landed(tmp_path / "home") == written


def test_the_shop_never_trades_beyond_the_present(tmp_path: Path) -> None:
    present = datetime(2026, 1, 6, 10, 7, tzinfo=UTC)
    shop = Shop(Settings(home=tmp_path), opened=MONDAY, scale=0.25, present=lambda: present)
    assert shop.advance(days=30).now == present
    assert shop.behind() == timedelta(0)
    assert shop.advance(minutes=5).files == ()
    assert {path.split("/")[1] for path in landed(tmp_path)} == {"2026-01-05", "2026-01-06"}


def test_catching_up_tells_of_each_day_and_ends_at_the_present(tmp_path: Path) -> None:
    present = datetime(2026, 1, 7, 10, 7, tzinfo=UTC)
    shop = Shop(Settings(home=tmp_path), opened=MONDAY, scale=0.25, present=lambda: present)
    steps = [advance.now for advance in shop.catch_up()]
    assert steps == [midnight(date(2026, 1, 6)), midnight(date(2026, 1, 7)), present]


def test_the_next_file_is_due_when_it_says(a_shop: AShop) -> None:
    shop = a_shop()
    shop.advance(minutes=13 * 60 + 7)
    due = shop.next_due()
    assert shop.advance(until=due - timedelta(microseconds=1)).files == ()
    assert shop.advance(until=due).files != ()


def test_the_expected_rows_of_an_earlier_time_can_be_asked_for(a_shop: AShop) -> None:
    shop = a_shop()
    shop.advance(days=1)
    on_the_second_day = shop.expected("orders")
    shop.advance(days=1)
    assert shop.expected("orders", midnight(date(2026, 1, 6))) == on_the_second_day != shop.expected("orders")


@pytest.mark.parametrize(("days", "minutes"), [(-1, 0), (0, -1)])
def test_trading_backwards_is_refused(a_shop: AShop, days: int, minutes: int) -> None:
    with pytest.raises(IncrementalLoadError, match="only trades forward"):
        a_shop().advance(days=days, minutes=minutes)


def test_an_unknown_table_is_refused_with_the_known_ones_named(a_shop: AShop) -> None:
    with pytest.raises(IncrementalLoadError, match=r"'order'.*orders, customers, inventory, events"):
        a_shop().expected("order")


def test_a_shop_opens_a_week_before_today_and_stays_open_since_then(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    today = datetime.now(UTC).date()
    assert opening_date(settings) in (today - timedelta(days=7), datetime.now(UTC).date() - timedelta(days=7))
    (tmp_path / "shop" / "opening.json").write_text('{"opened": "2026-01-05", "seed": 1, "scale": 1.0}')
    assert opening_date(settings) == MONDAY


def test_the_platform_starts_a_week_after_the_opening(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    Shop(settings, opened=MONDAY)
    assert platform_date(settings) == PLATFORM.date()


def test_the_environment_decides_the_opening_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_SHOP_OPENED", "2026-01-05")
    assert opening_date(Settings(home=tmp_path)) == MONDAY
    monkeypatch.setenv("INCLOAD_SHOP_OPENED", "2026-01-06")
    with pytest.raises(IncrementalLoadError, match="opened is 2026-01-06 now and was 2026-01-05"):
        opening_date(Settings(home=tmp_path))
    monkeypatch.setenv("INCLOAD_SHOP_OPENED", "tomorrow")
    with pytest.raises(IncrementalLoadError, match=r"INCLOAD_SHOP_OPENED is 'tomorrow'.*write it as 2026-01-31"):
        opening_date(Settings(home=tmp_path))


def test_a_broken_clock_is_reported_with_its_file(a_shop: AShop, tmp_path: Path) -> None:
    shop = a_shop()
    clock = tmp_path / "home" / "shop" / "clock.json"
    clock.write_text("{")
    with pytest.raises(IncrementalLoadError, match=str(clock)):
        shop.advance(days=1)


def test_while_another_process_advances_the_shop_it_refuses(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    shop = Shop(settings, opened=MONDAY, scale=0.25, patience=timedelta(seconds=0.1))
    with Clock(settings).held(timedelta(seconds=1)), pytest.raises(ShopBusy, match="another process"):
        shop.advance(days=1)
    assert landed(tmp_path) == {}
    assert shop.advance(days=1).now == midnight(date(2026, 1, 6))


def test_two_processes_take_turns_and_write_what_one_would(a_shop: AShop, tmp_path: Path) -> None:
    alone = a_shop("alone")
    alone.advance(days=2)
    program = (
        "import sys; from pathlib import Path; from datetime import date;"
        "from incload_assets.shop import Shop; from incload_assets.platform.settings import Settings;"
        "Shop(Settings(home=Path(sys.argv[1])), opened=date(2026, 1, 5), seed=7, scale=0.25).advance(days=1)"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "both")], env={**os.environ, "PYTHONHASHSEED": str(seed)}
        )
        for seed in (1, 2)
    ]
    assert [process.wait(timeout=100) for process in both] == [0, 0]
    assert Clock(Settings(home=tmp_path / "both")).read() == alone.now
    assert landed(tmp_path / "both") == landed(tmp_path / "alone")


def test_a_reader_sees_each_version_of_a_file_whole_and_no_half_written_one(tmp_path: Path) -> None:
    target = tmp_path / "orders.json"
    replace_file(target, b"0" * 200_000)
    seen: list[bytes] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(target.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for version in range(1, 10):
        replace_file(target, str(version).encode() * 200_000)
    done.set()
    reader.join()
    assert {(len(content), len(set(content))) for content in seen} == {(200_000, 1)}
    assert [file.name for file in tmp_path.iterdir()] == ["orders.json"]


def test_a_landing_area_that_cannot_be_written_is_named_and_the_clock_stands_still(tmp_path: Path) -> None:
    (tmp_path / "landing").write_text("in the way")
    shop = Shop(Settings(home=tmp_path), opened=MONDAY, scale=0.25)
    with pytest.raises(IncrementalLoadError, match=f"cannot write {tmp_path}/landing/assortment_full/2026-01-05/"):
        shop.advance(days=1)
    assert shop.now == midnight(MONDAY)
