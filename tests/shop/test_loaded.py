"""The sample tables, loaded by the engine, hold what the shop knows to be right."""

import importlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets.incremental import table_of
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.log import ChangeLog
from incload_assets.contract.protection import Masked
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import known_windows, window_of
from incload_assets.load.load import load_window
from incload_assets.platform.errors import ContractViolation
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.shop import Shop
from incload_assets.shop.calendar import PLATFORM_AFTER, Calendar, midnight
from incload_assets.shop.clock import Clock
from incload_assets.shop.plan import FEEDS, TradingPlan
from incload_assets.shop.settings import SETTINGS
from tests.shop.conftest import MONDAY
from tests.support.detection import detected
from tests.support.sampling import NIGHT
from tests.writes.case import SEED

Row = dict[str, Any]
DAILY = dg.DailyPartitionsDefinition(MONDAY.isoformat())
HOURLY = dg.HourlyPartitionsDefinition(f"{MONDAY}-00:00")
PLATFORM = midnight(MONDAY + PLATFORM_AFTER)
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A quarter of the usual shop, in the home folder of the test."""
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    monkeypatch.setenv("INCLOAD_SHOP_OPENED", MONDAY.isoformat())
    return Shop(Settings(), scale=0.25)


def sample(name: str) -> Table:
    """A sample table, imported late: importing it opens the shop of the home folder."""
    table = table_of(getattr(importlib.import_module(f"incload_assets.tables.retail.{name}"), name))
    assert table is not None
    by_hour = isinstance(table.partitions_def, dg.HourlyPartitionsDefinition)
    # its own partitions are those of the shop that was there at its first import
    return replace(table, partitions_def=HOURLY if by_hour else DAILY)


def arrive(shop: Shop, name: str, until: datetime) -> list[str]:
    """The partitions whose files arrive until then, oldest first."""
    return sorted({file.partition for file in shop.advance(until=until).files if file.table == name})


def load(spark: SparkSession, table: Table, partition: str) -> None:
    load_window(LoadContext(spark, table, Lake.of(Settings())), window_of(table.partitions_def, partition))


def rows_of(table: Table) -> list[Row]:
    lake = Lake.of(Settings())
    delta = lake.delta(lake.table_uri([table.name]))
    assert delta is not None
    rows, held = delta.to_pyarrow_dataset().to_table().to_pylist(), table.write.open_rows
    return [{c: _utc(row[c]) for c in table.columns} for row in rows if held is None or row[held]]


def by_key(rows: Iterable[Row], keys: Iterable[str]) -> dict[tuple[Any, ...], Row]:
    """The rows, none of which shares its key."""
    rows, keys = list(rows), list(keys)
    found = {tuple(row[key] for key in keys): row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.slow
@pytest.mark.integration
def masked(row: Row, table: Table) -> Row:
    """A row as the table may keep it."""
    kept = dict(row)
    for name, protection in table.contract.protections.items():
        assert isinstance(protection, Masked)
        if row[name] is not None:
            kept[name] = f"****{row[name][-protection.keep :]}"
    return kept


@pytest.mark.parametrize(
    ("name", "start", "steps"),
    [
        ("orders", midnight(MONDAY), (2 * DAY, DAY)),
        ("customers", midnight(MONDAY), (3 * DAY, DAY)),
        ("inventory", midnight(MONDAY), (DAY, DAY)),
        ("events", midnight(MONDAY), (DAY, DAY)),
        ("articles", midnight(MONDAY), (2 * DAY, DAY)),
        ("service_logs", PLATFORM, (45 * MINUTE, 10 * MINUTE)),
    ],
)
def test_a_loaded_sample_table_equals_what_the_shop_did(
    name: str, start: datetime, steps: tuple[timedelta, ...], spark: SparkSession, shop: Shop
) -> None:
    """The last day of orders and customers rewrites an earlier file; the hour of the logs is loaded while it grows."""
    table, lake = sample(name), Lake.of(Settings())
    Clock(Settings()).save(start)
    for step in steps:
        for partition in arrive(shop, name, shop.now + step):
            load(spark, table, partition)

    log = spark.read.format("delta").load(lake.log_uri([name]))
    rejected = log.where("_kind = 'rejected'").groupBy("_window").count().head(10)
    expected = {key: masked(row, table) for key, row in shop.expected(name).items()}
    assert by_key(rows_of(table), FEEDS[name].keys) == expected
    assert {row["_window"]: row["count"] for row in rejected} == shop.quarantined(name) != {}


@pytest.mark.slow
@pytest.mark.integration
def test_settings_are_those_of_the_last_good_export_and_a_broken_one_changes_nothing(
    spark: SparkSession, shop: Shop
) -> None:
    table, second_day = sample("settings"), PLATFORM + DAY
    exports = SETTINGS.exports(Calendar(MONDAY, 20, 0.25), second_day.date())
    [broken] = [number for number, export in enumerate(exports) if export.records[0].row is None]
    partition = str(second_day.date())
    Clock(Settings()).save(PLATFORM)
    for day in arrive(shop, "settings", second_day):
        load(spark, table, day)
    first = by_key(rows_of(table), SETTINGS.keys)
    assert first == shop.expected("settings")

    assert arrive(shop, "settings", exports[broken].due) == [partition]
    with pytest.raises(ContractViolation, match=r"settings \S+: 1 of \d+ rows .*secret_hash: \*\*\*") as stopped:
        load(spark, table, partition)
    assert str(exports[broken].records[0].fields["value"]) not in str(stopped.value)
    assert by_key(rows_of(table), SETTINGS.keys) == first

    assert arrive(shop, "settings", exports[-1].due) == [partition]
    load(spark, table, partition)
    last = by_key(rows_of(table), SETTINGS.keys)
    assert last == shop.expected("settings")
    assert first.keys() - last.keys()


@pytest.mark.slow
@pytest.mark.integration
def test_what_a_change_was_lost_for_the_next_full_extract_puts_right(spark: SparkSession, shop: Shop) -> None:
    table, plan = sample("assortment"), TradingPlan(Calendar(MONDAY, 20, 0.25))
    for step in (2 * DAY, 2 * DAY):
        files = shop.advance(until=shop.now + step).files
        for partition in sorted({file.partition for file in files if file.table.startswith("assortment_")}):
            load(spark, table, partition)
        sent = plan.due(midnight(MONDAY), shop.now, ["assortment_full", "assortment_changes"])
        full = max((d for d in sent if d.feed.table == "assortment_full"), key=lambda delivery: delivery.due)
        expected = by_key((dict(record.row or {}) for record in full.records), ["store", "sku"])
        as_of = full.records[0].row["as_of"] if full.records[0].row else None
        changes = [(r.row, r.delete) for d in sent if d.feed.table == "assortment_changes" for r in d.records if r.row]
        for row, gone in sorted(changes, key=lambda change: change[0]["as_of"]):
            if row["as_of"] > as_of:
                expected.pop((row["store"], row["sku"]), None)
                expected |= {} if gone else {(row["store"], row["sku"]): dict(row)}
        assert by_key(rows_of(table), ["store", "sku"]) == expected


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


def health(lines: Iterable[Row]) -> dict[tuple[Any, ...], Row]:
    """Per hour and service, in plain Python."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for line in lines:
        groups[line["logged_hour"], line["service"]].append(line)
    return {
        (hour, service): {
            "logged_hour": hour,
            "service": service,
            "requests": len(group),
            "errors": sum(line["status"] >= 500 for line in group),
            "latency_p95_ms": percentile([line["latency_ms"] for line in group], 0.95),
        }
        for (hour, service), group in groups.items()
    }


def percentile(values: Iterable[int], share: float) -> float:
    """Between the two nearest of the ordered values."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return pytest.approx(below + (above - below) * (place - math.floor(place)))  # type: ignore[no-any-return]


def features(orders: Iterable[Row], events: Iterable[Row]) -> dict[tuple[Any, ...], Row]:
    """Per customer and day, in plain Python."""
    placed: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for order in orders:
        placed[order["customer_id"], order["order_date"]].append(order)
    last = {(event["user_id"], event["event_date"]): event for event in events}
    return {
        (customer, day): {
            "customer_id": customer,
            "feature_date": day,
            "orders": len(placed.get((customer, day), ())),
            "currencies": len({order["currency"] for order in placed.get((customer, day), ())}),
            "largest_order": max((order["amount"] for order in placed.get((customer, day), ())), default=None),
            "last_event": last.get((customer, day), {}).get("event_type"),
            "last_event_at": last.get((customer, day), {}).get("occurred_at"),
        }
        for customer, day in placed.keys() | last.keys()
    }


DERIVED = [
    ("daily_sales", ("orders",), sales, midnight(MONDAY), (2 * DAY, DAY)),
    ("customer_features", ("orders", "events"), features, midnight(MONDAY), (DAY,)),
    ("stock_levels", ("inventory",), stock, midnight(MONDAY), (2 * DAY, DAY)),
    ("service_health", ("service_logs",), health, PLATFORM, (HOUR, HOUR)),
]
"""With what they are made of, what they then are, and when they are loaded. By day every other one has its turn."""


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize(("name", "of", "fold", "start", "steps"), DERIVED if NIGHT else DERIVED[SEED % 2 :: 2])
def test_a_derived_sample_table_is_what_its_source_tables_make(
    name: str,
    of: tuple[str, ...],
    fold: Callable[..., dict[tuple[Any, ...], Row]],
    start: datetime,
    steps: tuple[timedelta, ...],
    spark: SparkSession,
    shop: Shop,
) -> None:
    """The last step asks again for the earlier windows that its late rows concern."""
    upstream, derived, lake = [sample(table) for table in of], sample(name), Lake.of(Settings())
    Clock(Settings()).save(start)
    for step in steps:
        arrived = shop.advance(until=shop.now + step).files
        for table in upstream:
            for partition in sorted({file.partition for file in arrived if file.table == table.name}):
                load(spark, table, partition)
        landed = ChangeLog(derived, lake).ingested
        marks = {key: position.fingerprint for key, position in landed.items()}
        keys = derived.partitions_def.get_partition_keys(current_time=start + 7 * DAY)
        windows = [window for window in known_windows(derived.partitions_def, keys) if window.start >= start]
        found = detected(derived.source, name, windows, landed, lake=lake)
        for window in windows:
            if window.key in found and found[window.key].fingerprint != marks.get(window.key):
                load_window(LoadContext(spark, derived, lake), window)

    identity = (*derived.changes.keys, *derived.changes.sequence_by)
    assert by_key(rows_of(derived), identity) == fold(*(shop.expected(table).values() for table in of))


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
