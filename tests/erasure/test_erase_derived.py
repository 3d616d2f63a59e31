"""A person is erased from several tables at once, and from what is derived from them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Changes, FullReload, Merge, Overwrite, Upstream, derived_asset, incremental_asset
from incload_assets.assets.incremental import table_of
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.subject import Subject
from incload_assets.declaration.table import Quarantine
from incload_assets.erasure.erase import Eraser
from incload_assets.erasure.erasure import Erasure, fingerprints_of
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.platform.lake import Lake
from incload_assets.sources.files.files import Files
from tests.erasure.test_erase import ANNA, BERT, CONTENT, LATE, MARK, key, order, remains, without_anna, write
from tests.erasure.test_erase_kinds import Placed, each
from tests.support.tables import DAYS, Loaded, day

__all__ = ["key"]

PERSON = Subject("person", by="person")


class Guest(pa.DataFrameModel):
    """A person."""

    person: T.StringType = pa.Field(nullable=False)
    name: T.StringType = pa.Field(nullable=True)
    seq: T.LongType = pa.Field(nullable=False)


class PerPerson(pa.DataFrameModel):
    """What a person ordered on a day."""

    day: T.DateType = pa.Field(nullable=False)
    person: T.StringType = pa.Field(nullable=False)
    last: T.StringType = pa.Field(nullable=True)


class PerDay(pa.DataFrameModel):
    """What was ordered on a day."""

    day: T.DateType = pa.Field(nullable=False)
    orders: T.LongType = pa.Field(nullable=False)


def placed(rows: list[Any]) -> list[Any]:
    """The records, each with the day of its key."""
    return each(rows, lambda row: row | {"day": day(1 if row["id"] in "abcdzh" else 2 if row["id"] in "ef" else 3)})


class Shop:
    """Orders and guests, what is derived from the orders, and what is derived from that."""

    def __init__(self, spark: SparkSession, folder: Path, area: str, patch: pytest.MonkeyPatch) -> None:
        self.spark, self.root, self.patch = spark, str(folder / f"lake-{area}"), patch

        @incremental_asset(
            partitions_def=DAYS,
            source=Files(str(folder / area / "orders" / "{window:%Y-%m-%d}.json")),
            contract=Placed,
            changes=Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'"),
            write=Merge(partition_by="day"),
            quarantine=Quarantine(max_share=0.9),
            subject=PERSON,
        )
        def orders(changes: DataFrame) -> DataFrame:
            return changes

        @incremental_asset(
            partitions_def=DAYS,
            source=Files(str(folder / area / "guests" / "{window:%Y-%m-%d}.json")),
            contract=Guest,
            changes=Changes(keys=["person"], sequence_by=["seq"]),
            subject=PERSON,
        )
        def guests(changes: DataFrame) -> DataFrame:
            return changes

        of_orders = {"orders": Upstream(orders, partition="day")}

        @derived_asset(
            partitions_def=DAYS,
            of=of_orders,
            contract=PerPerson,
            write=Overwrite(partition_by="day"),
            keys=["day", "person"],
            absent="empty",
            subject=PERSON,
        )
        def per_person(orders: DataFrame) -> DataFrame:
            return orders.groupBy("day", "person").agg(F.max("value").alias("last"))

        @derived_asset(
            partitions_def=DAYS,
            of=of_orders,
            contract=Placed,
            write=FullReload(max_shrink=1.0),
            keys=["id"],
            absent="empty",
            subject=PERSON,
        )
        def newest(orders: DataFrame) -> DataFrame:
            return orders

        @derived_asset(
            partitions_def=DAYS,
            of=of_orders,
            contract=PerDay,
            write=Overwrite(partition_by="day"),
            absent="empty",
        )
        def per_day(orders: DataFrame) -> DataFrame:
            return orders.groupBy("day").agg(F.count("*").alias("orders"))

        @derived_asset(
            partitions_def=DAYS,
            of={"per_day": Upstream(per_day, partition="day")},
            contract=PerDay,
            write=Overwrite(partition_by="day"),
            absent="empty",
        )
        def twice(per_day: DataFrame) -> DataFrame:
            return per_day.withColumn("orders", F.col("orders") * 2)

        self.tables = [self._loaded(each) for each in (orders, guests, per_person, newest, per_day, twice)]

    def _loaded(self, asset: dg.AssetsDefinition) -> Loaded:
        table = table_of(asset)
        assert table is not None
        return Loaded(self.spark, table, Lake(self.root), {})

    @contextmanager
    def open(self) -> Iterator[None]:
        with self.patch.context() as patched:
            patched.setenv("INCLOAD_LAKE", self.root)
            yield

    def load(self) -> None:
        """Everything is loaded, or loaded again, as its sensors would ask for."""
        with self.open():
            for table in self.tables:
                for number in (1, 2) if table.table.name != "guests" else (1,):
                    table.load(number)

    def erase(self) -> Erasure:
        tables = [each.table for each in self.tables]
        found = fingerprints_of(tables, "person", ANNA)
        with self.open(), dg.instance_for_test() as instance:
            return Eraser(self.spark, Lake(self.root), tables, "person", found).erase(instance)

    def rows(self) -> dict[str, set[tuple[Any, ...]]]:
        return {each.table.name: each.rows() for each in self.tables}


def test_a_person_is_gone_from_all_tables_and_what_is_derived_without_a_subject_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {number: placed(CONTENT[number]) for number in (1, 2)}
    guests = [{"person": who, "name": name, "seq": 1} for who, name in ((ANNA, f"Anna {MARK}"), (BERT, "Bert"))]
    write(tmp_path / "all/orders", content), write(tmp_path / "all/guests", {1: guests})
    write(tmp_path / "oracle/orders", {number: without_anna(rows) for number, rows in content.items()})
    write(tmp_path / "oracle/guests", {1: guests[1:]})
    shop, oracle = (Shop(spark, tmp_path, area, monkeypatch) for area in ("all", "oracle"))
    shop.load(), oracle.load()
    made = shop.erase()
    assert made.is_proven, [*made.lines()]
    assert {name: rows.rows for name, rows in made.tables.items()} == {
        "orders": 3,
        "guests": 1,
        "per_person": 2,
        "newest": 1,
    }
    for name, above in (("per_day", "orders"), ("twice", "per_day")):
        assert any(one.startswith(f"{name}, which is derived from {above} and declares no ") for one in made.unreached)
    assert remains(shop.root) == []
    shop.load()
    assert shop.rows() == oracle.rows()
    [per_person] = [each for each in shop.tables if each.table.name == "per_person"]
    with shop.open():
        window = per_person.table.window_of(day(1))
        undo_window(LoadContext(spark, per_person.table, per_person.lake), window, Undo())
        assert per_person.rows() == oracle.rows()["per_person"]
        per_person.load(1, if_held="release")
    late = placed([*LATE])
    write(tmp_path / "all/orders", {1: [*content[1], *late], 2: [*content[2], order("e", ANNA, 41, day=day(2))]})
    write(tmp_path / "oracle/orders", {1: [*without_anna(content[1]), late[1]]})
    write(tmp_path / "all/guests", {1: [*guests, guests[0] | {"seq": 2}]})
    shop.load(), oracle.load()
    assert shop.rows() == oracle.rows()
    assert remains(shop.root) == []
