"""The sample tables, loaded by the engine, hold what the shop knows to be right."""

import importlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incload_assets.loading.asset import table_of
from incload_assets.loading.change_log import ChangeLog
from incload_assets.loading.load import load_window
from incload_assets.loading.window import window_of
from incload_assets.shop import Shop
from incload_assets.shop.plan import FEEDS
from resources.lake import Lake
from resources.settings import Settings
from tests.shop.conftest import MONDAY

Row = dict[str, Any]
DAILY = dg.DailyPartitionsDefinition(MONDAY.isoformat())


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize(("name", "days"), [("orders", 3), ("customers", 4), ("inventory", 2), ("events", 2)])
def test_a_loaded_sample_table_equals_what_the_shop_did(
    name: str, days: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last day of orders and customers rewrites an earlier file."""
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    monkeypatch.setenv("INCLOAD_SHOP_OPENED", MONDAY.isoformat())
    shop = Shop(Settings(), scale=0.25)
    # imported late: importing the sample tables opens the shop of the home folder

    asset = getattr(importlib.import_module(f"incload_assets.tables.retail.{name}"), name)
    table = table_of(asset)
    assert table is not None
    lake = Lake.of(Settings())
    for step in (days - 1, 1):
        windows = {str(file.window) for file in shop.advance(days=step).files if file.table == name}
        for key in sorted(windows):
            load_window(spark, table, lake, window_of(DAILY, key))

    delta = lake.delta(lake.table_uri([name]))
    assert delta is not None
    rows = [{c: _utc(row[c]) for c in table.columns} for row in delta.to_pyarrow_dataset().to_table().to_pylist()]
    log = spark.read.format("delta").load(lake.log_uri([name]))
    rejected = log.where("_kind = 'rejected'").groupBy("_window").count().head(days + 1)

    assert len(rows) == len({tuple(row[key] for key in FEEDS[name].keys) for row in rows})
    assert {tuple(row[key] for key in FEEDS[name].keys): row for row in rows} == shop.expected(name)
    assert {row["_window"]: row["count"] for row in rejected} == shop.quarantined(name) != {}


def sales(orders: Iterable[Row]) -> dict[tuple[Any, ...], Row]:
    """Per day and currency, in plain Python."""
    found: dict[tuple[Any, ...], Row] = {}
    for order in orders:
        key = {name: order[name] for name in ("order_date", "currency")}
        row = found.setdefault(tuple(key.values()), {**key, "orders": 0, "cancelled": 0, "amount": Decimal("0.00")})
        stands = order["status"] != "cancelled"
        row["orders" if stands else "cancelled"] += 1
        row["amount"] += order["amount"] if stands else 0
    return found


def stock(movements: Iterable[Row]) -> dict[tuple[Any, ...], Row]:
    """Per article and warehouse, in plain Python."""
    found: dict[tuple[Any, ...], Row] = {}
    for move in movements:
        key = {name: move[name] for name in ("sku", "warehouse")}
        row = found.setdefault(
            tuple(key.values()), {**key, "quantity": 0, "movements": 0, "last_moved_at": move["moved_at"]}
        )
        row["quantity"] += move["quantity"]
        row["movements"] += 1
        row["last_moved_at"] = max(row["last_moved_at"], move["moved_at"])
    return found


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "of", "keys", "fold"),
    [
        ("daily_sales", "orders", ("order_date", "currency"), sales),
        ("stock_levels", "inventory", ("sku", "warehouse"), stock),
    ],
)
def test_a_derived_sample_table_is_what_its_source_table_makes(
    name: str,
    of: str,
    keys: tuple[str, ...],
    fold: Callable[[Iterable[Row]], dict[tuple[Any, ...], Row]],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two days, then a third, which asks again for the earlier ones that its late rows concern."""
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    monkeypatch.setenv("INCLOAD_SHOP_OPENED", MONDAY.isoformat())
    shop, lake = Shop(Settings(), scale=0.25), Lake.of(Settings())
    upstream, derived = (
        table_of(getattr(importlib.import_module(f"incload_assets.tables.retail.{table}"), table))
        for table in (of, name)
    )
    assert upstream is not None and derived is not None
    derived = replace(derived, partitions_def=DAILY)  # its own are those of the shop that was there at its import
    windows = [window_of(DAILY, (MONDAY + timedelta(days=number)).isoformat()) for number in range(7)]
    for days in (2, 1):
        for key in sorted({str(file.window) for file in shop.advance(days=days).files if file.table == of}):
            load_window(spark, upstream, lake, window_of(DAILY, key))
        landed = ChangeLog(derived, lake).landed
        marks = {key: position.fingerprint for key, position in landed.items()}
        found = derived.source.detect(name, windows, landed, lake=lake)
        for window in windows:
            if window.key in found and found[window.key].fingerprint != marks.get(window.key):
                load_window(spark, derived, lake, window)

    delta = lake.delta(lake.table_uri([name]))
    assert delta is not None
    rows = [{c: _utc(row[c]) for c in derived.columns} for row in delta.to_pyarrow_dataset().to_table().to_pylist()]
    assert {tuple(row[key] for key in keys): row for row in rows} == fold(shop.expected(of).values())
    assert len(rows) == len({tuple(row[key] for key in keys) for row in rows})


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
