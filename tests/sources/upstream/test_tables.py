"""Tables derived from real Delta tables, through real loads."""

import random
import shutil
from collections import defaultdict
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Changes, Merge, Overwrite, Upstream, derived_asset, incremental_asset
from incload_assets.assets.incremental import table_of
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.log import ChangeLog
from incload_assets.declaration.window import window_of
from incload_assets.load.detection import detect
from incload_assets.load.ranges import load_first_windows
from incload_assets.platform.errors import SourceChanged, SourceMissing
from incload_assets.platform.lake import Lake
from incload_assets.progress.checkpoint import Checkpoint
from incload_assets.progress.progress import source_state
from incload_assets.trial.literal_source import LiteralSource, Record
from tests.support.detection import detected
from tests.support.tables import DAYS, Loaded, day

WEEKS = dg.WeeklyPartitionsDefinition("2025-12-28")


class Order(pa.DataFrameModel):
    id: T.StringType = pa.Field(nullable=False)
    customer: T.StringType = pa.Field(nullable=False)
    amount: T.LongType = pa.Field(nullable=False)
    seq: T.LongType = pa.Field(nullable=False)
    day: T.DateType = pa.Field(nullable=False)


class Customer(pa.DataFrameModel):
    customer: T.StringType = pa.Field(nullable=False)
    city: T.StringType = pa.Field(nullable=False)
    seq: T.LongType = pa.Field(nullable=False)


class Sales(pa.DataFrameModel):
    day: T.DateType = pa.Field(nullable=False)
    city: T.StringType = pa.Field(nullable=False)
    orders: T.LongType = pa.Field(nullable=False)
    amount: T.LongType = pa.Field(nullable=False)


class CitySales(pa.DataFrameModel):
    day: T.DateType = pa.Field(nullable=False)
    city: T.StringType = pa.Field(nullable=False)
    amount: T.LongType = pa.Field(nullable=False)


class Week(pa.DataFrameModel):
    week: T.DateType = pa.Field(nullable=False)
    amount: T.LongType = pa.Field(nullable=False)


def order(id: str, number: int, amount: int, *, customer: str = "ann", seq: int = 1, op: str = "u") -> Record:
    return {"id": id, "customer": customer, "amount": str(amount), "seq": str(seq), "day": day(number), "op": op}


def customer(id: str, city: str, seq: int = 1, op: str = "u") -> Record:
    return {"customer": id, "city": city, "seq": str(seq), "op": op}


@dataclass
class Warehouse:
    """Orders and customers, and the sales derived from them."""

    spark: SparkSession
    lake: Lake
    order_files: dict[str, list[Record]] = field(default_factory=dict)
    customer_files: dict[str, list[Record]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        @incremental_asset(
            partitions_def=DAYS,
            source=LiteralSource(self.order_files),
            contract=Order,
            changes=Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'"),
            write=Merge(partition_by="day"),
        )
        def orders(changes: DataFrame) -> DataFrame:
            return changes

        @incremental_asset(
            partitions_def=DAYS,
            source=LiteralSource(self.customer_files),
            contract=Customer,
            changes=Changes(keys=["customer"], sequence_by=["seq"], delete_when="op = 'd'"),
        )
        def customers(changes: DataFrame) -> DataFrame:
            return changes

        @derived_asset(
            partitions_def=DAYS,
            of={"orders": Upstream(orders, partition="day"), "customers": Upstream(customers)},
            contract=Sales,
            write=Overwrite(partition_by="day"),
            keys=["day", "city"],
        )
        def sales(orders: DataFrame, customers: DataFrame) -> DataFrame:
            known = customers.select("customer", "city")
            city = F.coalesce("city", F.lit("unknown")).alias("city")
            placed = orders.join(known, "customer", "left").groupBy("day", city)
            return placed.agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))

        @derived_asset(
            partitions_def=DAYS,
            of={"orders": Upstream(orders, partition="day"), "customers": Upstream(customers, on="customer")},
            contract=CitySales,
            write=Overwrite(partition_by="day"),
            keys=["day", "city"],
        )
        def by_city(orders: DataFrame, customers: DataFrame) -> DataFrame:
            known = orders.join(customers.select("customer", "city"), "customer")
            return known.groupBy("day", "city").agg(F.sum("amount").alias("amount"))

        @derived_asset(
            partitions_def=WEEKS,
            of={"orders": Upstream(orders, partition="day")},
            contract=Week,
            write=Overwrite(partition_by="week"),
            absent="empty",
        )
        def weeks(orders: DataFrame) -> DataFrame:
            sunday = F.date_sub("day", F.dayofweek("day") - 1)
            return orders.groupBy(sunday.alias("week")).agg(F.sum("amount").alias("amount"))

        self.orders, self.customers = self._loaded(orders, self.order_files), self._loaded(customers, {})
        self.sales, self.by_city = self._loaded(sales, {}), self._loaded(by_city, {})
        self.weeks = self._loaded(weeks, {})

    def _loaded(self, asset: dg.AssetsDefinition, content: dict[str, list[Record]]) -> Loaded:
        table = table_of(asset)
        assert table is not None
        return Loaded(self.spark, table, self.lake, content)

    def order(self, number: int, *records: Record) -> None:
        """One more day of orders arrives, and is loaded."""
        self.order_files.setdefault(day(number), []).extend(records)
        self.orders.load(number)

    def customer(self, number: int, *records: Record) -> None:
        """The same of customers."""
        self.customer_files.setdefault(day(number), []).extend(records)
        self.customers.load(number)

    def asked(self, table: Loaded | None = None) -> list[str]:
        """The windows that the sensor of a table would ask for: those that are not what was landed."""
        of = table or self.sales
        windows = [window_of(of.table.partitions_def, key) for key in of.table.partitions_def.get_partition_keys()[:12]]
        landed = ChangeLog(of.table, self.lake).ingested
        found = detected(of.table.source, of.table.name, windows, landed, lake=self.lake)
        marks = {key: position.fingerprint for key, position in landed.items()}
        return [key for key, position in found.items() if marks.get(key) != position.fingerprint]

    def catch_up(self, table: Loaded | None = None) -> list[str]:
        """Load what is asked for."""
        asked = self.asked(table)
        for key in asked:
            (table or self.sales).load(key)
        return asked

    def look_closer(self, table: Loaded, number: int) -> None:
        """The first load after a change, of a window that the change does not concern."""
        landed = ChangeLog(table.table, self.lake).ingested[day(number)]
        report = table.load(number, checkpoint=Checkpoint(landed.fingerprint, clean=True))
        assert (report.ingested, report.committed) == (False, False)

    def sql(self, statement: str, of: Loaded) -> None:
        """Somebody does something to a table."""
        self.spark.sql(statement.format(self.lake.sql_name(of.uri))).first()


FIRST, SECOND = (date(2026, 1, 1), "Rome", 1, 10), (date(2026, 1, 2), "Oslo", 1, 20)


@pytest.fixture(scope="module")
def opened(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Two customers, and an order of each of two days; sales and sales by city are derived."""
    root = tmp_path_factory.mktemp("opened")
    shop = Warehouse(spark, Lake(root=str(root)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INCLOAD_LAKE", str(root))
        shop.customer(1, customer("ann", "Rome"), customer("bob", "Oslo"))
        shop.order(1, order("o1", 1, 10))
        shop.order(2, order("o2", 2, 20, customer="bob"))
        for derived in (shop.sales, shop.by_city):
            windows = [window_of(DAYS, day(number)) for number in (1, 2, 3)]
            context = LoadContext(spark, derived.table, shop.lake)
            loads = load_first_windows(context, windows, lambda ws: {w.key for w in ws})
            assert [report.window.key for reports in loads for report in reports] == [day(1), day(2)]
        assert shop.sales.rows() == {FIRST, SECOND}
    return shop


@pytest.fixture
def shop(opened: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """A copy of it: Delta tables can be moved."""
    monkeypatch.setenv("INCLOAD_LAKE", str(tmp_path))
    shutil.copytree(opened.lake.root, tmp_path, dirs_exist_ok=True)
    content = deepcopy(opened.order_files), deepcopy(opened.customer_files)
    return Warehouse(opened.spark, Lake(root=str(tmp_path)), *content)


def test_a_late_row_a_delete_and_a_rollback_upstream_ask_for_the_partitions_concerned_and_no_others(
    shop: Warehouse,
) -> None:
    assert shop.asked() == []
    before = shop.lake.version(shop.orders.uri)

    shop.order(3, order("late", 1, 5), order("o3", 3, 30), order("o2", 2, 20, seq=2, op="d"))
    assert shop.catch_up() == [day(1), day(2), day(3)]
    assert shop.sales.rows() == {(date(2026, 1, 1), "Rome", 2, 15), (date(2026, 1, 3), "Rome", 1, 30)}
    assert shop.asked() == [], "a partition that has become empty was loaded empty"

    shop.order(4, order("later", 1, 1))
    assert shop.asked() == [day(1)]
    shop.sql(f"RESTORE TABLE {{}} TO VERSION AS OF {before}", shop.orders)
    assert shop.catch_up() == [day(1), day(2), day(3)]
    assert shop.sales.rows() == {FIRST, SECOND}


def test_a_compaction_upstream_asks_for_nothing_and_a_row_deleted_after_it_is_seen(shop: Warehouse) -> None:
    shop.order(3, order("late", 1, 5), order("later", 1, 1))
    assert shop.catch_up() == [day(1)]
    shop.sql("OPTIMIZE {}", shop.orders)
    assert len([file for file in shop.orders.files() if day(1) in file]) == 1
    assert shop.asked() == []

    shop.sql("ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')", shop.orders)
    shop.sql("DELETE FROM {} WHERE id = 'later'", shop.orders)
    assert shop.catch_up() == [day(1)], "although the same file holds the rest"
    assert shop.sales.rows() == {(date(2026, 1, 1), "Rome", 2, 15), SECOND}


def test_a_changed_customer_asks_for_all_windows_and_those_it_does_not_concern_write_nothing(shop: Warehouse) -> None:
    [untouched] = [file for file in shop.sales.files() if day(2) in file]
    shop.customer(2, customer("ann", "Pisa", seq=2))
    assert shop.catch_up() == [day(1), day(2)]
    assert shop.sales.rows() == {(date(2026, 1, 1), "Pisa", 1, 10), SECOND}
    assert untouched in shop.sales.files()


def test_rows_are_read_at_the_versions_that_were_looked_at(shop: Warehouse) -> None:
    context = LoadContext(shop.spark, shop.sales.table, shop.lake)
    [position] = detect(context, [window_of(DAYS, day(1))]).values()
    shop.order(3, order("late", 1, 5))
    rows = shop.sales.table.source.extract(shop.spark, "sales", position, ("day", "city", "orders", "amount"))
    [row] = rows.select("_payload", "_source.file").collect()
    assert (row[0], row[1]) == ('{"day":"2026-01-01","city":"Rome","orders":1,"amount":10}', "orders@2, customers@1")


def test_a_version_that_is_gone_is_a_source_that_changed(shop: Warehouse) -> None:
    context = LoadContext(shop.spark, shop.sales.table, shop.lake)
    [position] = detect(context, [window_of(DAYS, day(1))]).values()
    tables = {name: {**state, "version": 99} for name, state in position.detail["tables"].items()}
    gone = replace(position, detail={**position.detail, "tables": tables})
    with pytest.raises(SourceChanged, match=r"version upstream \(orders@2: 1 file, customers@1: 1 file\) is gone"):
        shop.sales.table.source.extract(shop.spark, "sales", gone, ("day", "city", "orders", "amount"))


def test_a_week_is_made_of_its_days_and_asked_for_when_one_of_them_changes(shop: Warehouse) -> None:
    shop.order(4, order("o4", 4, 100))
    assert shop.asked(shop.weeks) == ["2025-12-28", day(4)]
    for key in shop.asked(shop.weeks):
        shop.weeks.load(key)
    assert shop.weeks.rows() == {(date(2025, 12, 28), 30), (date(2026, 1, 4), 100)}
    shop.order(5, order("late", 3, 1))
    assert shop.asked(shop.weeks) == ["2025-12-28"]
    assert shop.weeks.load(day(11)).evidence.rows_read == 0, "nothing upstream, and declared empty"


def test_a_table_that_is_not_there_makes_no_window_empty_though_one_without_rows_is_declared_empty(
    shop: Warehouse, tmp_path: Path
) -> None:
    shop.weeks.load("2025-12-28")
    orders, aside = Path(shop.orders.uri), tmp_path / "aside"
    orders.rename(aside)
    assert shop.asked(shop.weeks) == []
    assert {*source_state(shop.weeks.table, shop.lake, datetime(2026, 1, 20, tzinfo=UTC)).positions} == {"2025-12-28"}
    for week in ("2025-12-28", day(4)):
        with pytest.raises(SourceMissing, match=r"weeks: it is derived from orders, not created.* Remedy: load orders"):
            shop.weeks.load(week)
    assert shop.weeks.rows() == {(date(2025, 12, 28), 30)}
    aside.rename(orders)
    assert shop.weeks.load(day(4)).evidence.rows_read == 0
    shop.weeks.load("2025-12-28")
    assert shop.weeks.rows() == {(date(2025, 12, 28), 30)}


def test_of_a_table_looked_up_by_key_only_windows_that_refer_to_a_changed_row_are_made_again(shop: Warehouse) -> None:
    shop.customer(2, customer("ann", "Pisa", seq=2), customer("cyd", "Bonn"))
    assert shop.asked(shop.by_city) == [day(1), day(2)], "only a load can tell"
    shop.look_closer(shop.by_city, 2)
    assert shop.catch_up(shop.by_city) == [day(1)], "the first load has told for all"
    assert shop.by_city.rows() == {(date(2026, 1, 1), "Pisa", 10), (date(2026, 1, 2), "Oslo", 20)}

    shop.order(3, order("o3", 2, 5, customer="cyd"))
    assert shop.catch_up(shop.by_city) == [day(2)]
    shop.customer(3, customer("cyd", "Bonn", seq=2, op="d"))
    assert shop.asked(shop.by_city) == [day(1), day(2)]
    shop.look_closer(shop.by_city, 1)
    assert shop.catch_up(shop.by_city) == [day(2)]
    assert shop.by_city.rows() == {(date(2026, 1, 1), "Pisa", 10), (date(2026, 1, 2), "Oslo", 20)}


def test_a_column_that_a_table_looked_up_by_key_gets_concerns_the_windows_whose_rows_have_a_value_there(
    shop: Warehouse,
) -> None:
    shop.sql("ALTER TABLE {} ADD COLUMNS (street STRING)", shop.customers)
    shop.sql("UPDATE {} SET street = 'Corso' WHERE customer = 'ann'", shop.customers)
    assert shop.asked(shop.by_city) == [day(1), day(2)]
    shop.look_closer(shop.by_city, 2)
    assert shop.asked(shop.by_city) == [day(1)]


def fold(orders: Mapping[str, list[Record]], customers: Mapping[str, list[Record]]) -> set[tuple[Any, ...]]:
    """Newest change of each key, join, sum: in plain Python."""

    def newest(files: Mapping[str, list[Record]], key: str) -> list[Record]:
        changes = sorted((r for rows in files.values() for r in rows), key=lambda r: int(r["seq"] or 0))
        return [r for r in {r[key]: r for r in changes}.values() if r["op"] != "d"]

    cities = {c["customer"]: c["city"] for c in newest(customers, "customer")}
    groups: dict[tuple[date, str | None], int] = defaultdict(int)
    for o in newest(orders, "id"):
        if o["customer"] in cities:
            groups[date.fromisoformat(str(o["day"])), cities[o["customer"]]] += int(str(o["amount"]))
    return {(*group, amount) for group, amount in groups.items()}


@pytest.mark.slow
def test_after_random_loads_in_random_order_sales_by_city_are_what_orders_and_customers_make(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_LAKE", str(tmp_path))
    shop, chance = Warehouse(spark, Lake(root=str(tmp_path))), random.Random(7)
    home = {f"o{n}": (chance.randint(1, 3), chance.choice("abc")) for n in range(8)}
    seq = iter(range(1, 1000))
    shop.customer(1, customer("a", "Rome", next(seq)))
    for step in range(6):
        window = chance.randint(1, 5)
        if step % 3 == 1:
            op = chance.choice("uud")
            shop.customer(window, customer(chance.choice("abc"), chance.choice(["Rome", "Oslo"]), next(seq), op))
        else:
            rows = []
            for id in chance.sample(sorted(home), 4):
                number, who = home[id]
                op = chance.choice("uuud")
                rows.append(order(id, number, chance.randint(1, 9), customer=who, seq=next(seq), op=op))
            shop.order(window, *rows)
        if step == 2:
            shop.catch_up(shop.by_city)
            assert shop.by_city.rows() == fold(shop.order_files, shop.customer_files)
    shop.catch_up(shop.by_city)
    assert shop.by_city.rows() == fold(shop.order_files, shop.customer_files)
