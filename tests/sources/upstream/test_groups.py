"""Derived tables with groups: only groups whose rows upstream have changed are computed again, through real loads."""

import random
import shutil
from collections import defaultdict
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import (
    Changes,
    Fold,
    Merge,
    Overwrite,
    Quarantine,
    Upstream,
    derived_asset,
    incremental_asset,
)
from incload_assets.assets.incremental import table_of
from incload_assets.change_log.log import ChangeLog
from incload_assets.declaration.window import window_of
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.platform.lake import Lake
from incload_assets.progress.checkpoint import Checkpoint
from incload_assets.sources.upstream import groups as groups_of
from incload_assets.trial.literal_source import LiteralSource, Record
from tests.support.tables import DAYS, Loaded


def day(number: int) -> str:
    """The date of a day, counted from the first of January 2026."""
    return f"{date(2026, 1, 1) + timedelta(days=number - 1)}"


MONTHS = dg.MonthlyPartitionsDefinition("2026-01-01")
JANUARY = day(1)


class Visit(pa.DataFrameModel):
    id: T.StringType = pa.Field(nullable=False)
    who: T.StringType = pa.Field(nullable=True)
    spent: T.LongType = pa.Field(nullable=False)
    seq: T.LongType = pa.Field(nullable=False)
    day: T.DateType = pa.Field(nullable=False)


class Person(pa.DataFrameModel):
    who: T.StringType = pa.Field(nullable=False)
    city: T.StringType = pa.Field(nullable=False)
    seq: T.LongType = pa.Field(nullable=False)


class Spent(pa.DataFrameModel):
    month: T.DateType = pa.Field(nullable=False)
    guest: T.StringType = pa.Field(nullable=True)
    city: T.StringType = pa.Field(nullable=True)
    visits: T.LongType = pa.Field(nullable=False)
    spent: T.LongType = pa.Field(nullable=False, ge=0)


class Total(pa.DataFrameModel):
    guest: T.StringType = pa.Field(nullable=False)
    spent: T.LongType = pa.Field(nullable=False)


def visit(id: str, number: int, who: str | None, spent: int, seq: int, op: str = "u") -> Record:
    return {"id": id, "who": who, "spent": str(spent), "seq": str(seq), "day": day(number), "op": op}


def person(who: str, city: str, seq: int, op: str = "u") -> Record:
    return {"who": who, "city": city, "seq": str(seq), "op": op}


@dataclass
class House:
    """Visits of each day and people, and what each guest spent: by the month, and in all."""

    spark: SparkSession
    lake: Lake
    told: list[str] = field(default_factory=list)
    written: dict[str, dict[str, list[Record]]] = field(default_factory=lambda: defaultdict(dict))
    foreign: bool = False
    version: str = "1"
    seq: int = 0

    def __post_init__(self) -> None:
        changes = {"sequence_by": ["seq"], "delete_when": "op = 'd'"}

        @incremental_asset(
            partitions_def=DAYS,
            source=LiteralSource(self.written["visits"]),
            contract=Visit,
            changes=Changes(keys=["id"], **changes),
            write=Merge(partition_by="day"),
        )
        def visits(changes: DataFrame) -> DataFrame:
            return changes

        @incremental_asset(
            partitions_def=DAYS,
            source=LiteralSource(self.written["people"]),
            contract=Person,
            changes=Changes(keys=["who"], **changes),
        )
        def people(changes: DataFrame) -> DataFrame:
            return changes

        of = {"visits": Upstream(visits, partition="day", groups=["who"]), "people": Upstream(people, on="who")}

        @derived_asset(
            partitions_def=MONTHS,
            of=of,
            contract=Spent,
            write=Overwrite(partition_by="month"),
            groups=["guest"],
            quarantine=Quarantine(max_share=0.5),
            code_version=self.version,
        )
        def spent(visits: DataFrame, people: DataFrame) -> DataFrame:
            known = visits.join(people.select("who", "city"), "who", "left").withColumnRenamed("who", "guest")
            if self.foreign:
                known = known.withColumn("guest", F.lit("all"))
            by = [F.trunc("day", "month").alias("month"), "guest", "city"]
            return known.groupBy(*by).agg(F.count("*").alias("visits"), F.sum("spent").alias("spent"))

        @derived_asset(
            partitions_def=MONTHS,
            of={"visits": of["visits"]},
            contract=Total,
            write=Fold(sums=["spent"]),
            keys=["guest"],
            groups=["guest"],
        )
        def totals(visits: DataFrame) -> DataFrame:
            known = visits.filter("who IS NOT NULL").withColumnRenamed("who", "guest")
            return known.groupBy("guest").agg(F.sum("spent").alias("spent"))

        self.visits, self.people = self._loaded(visits, "visits"), self._loaded(people, "people")
        self.spent, self.totals = self._loaded(spent, "spent"), self._loaded(totals, "totals")

    def _loaded(self, asset: dg.AssetsDefinition, name: str) -> Loaded:
        table = table_of(asset)
        assert table is not None
        return Loaded(self.spark, table, self.lake, self.written[name])

    def arrive(self, table: Loaded, number: int, *records: Record) -> None:
        """Changes arrive in a window of a table upstream, and are loaded."""
        table.content.setdefault(day(number), []).extend(records)
        table.load(day(number))

    def load(self, table: Loaded, month: str = JANUARY, **options: Any) -> str:
        """What a load of a derived table says of its groups; '' if it computed all of them without a word."""
        self.told.clear()
        table.load(month, info=self.told.append, **options)
        return "; ".join(line for line in self.told if "groups" in line)

    def versions_of(self, table: Loaded) -> dict[str, str]:
        """The versions upstream that the rows of each guest in the log are made from."""
        return {guest: source["file"] for guest, source in table.log("upsert", "guest", "_source")}

    def newest(self, table: Loaded, key: str) -> list[dict[str, Any]]:
        """What a table upstream has, in plain Python."""
        changes = sorted((r for rows in table.content.values() for r in rows), key=lambda r: int(r["seq"] or 0))
        return [record for record in {r[key]: r for r in changes}.values() if record["op"] != "d"]

    def expected_spent(self) -> set[tuple[Any, ...]]:
        cities = {record["who"]: record["city"] for record in self.newest(self.people, "who")}
        found: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for record in self.newest(self.visits, "id"):
            month, who = f"{record['day'][:7]}-01", record["who"]
            found[month, who, cities.get(who)].append(int(record["spent"]))
        return {(*group, len(values), sum(values)) for group, values in found.items()}

    def expected_totals(self) -> set[tuple[Any, ...]]:
        found: dict[str, int] = defaultdict(int)
        for record in self.newest(self.visits, "id"):
            if record["who"] is not None:
                found[record["who"]] += int(record["spent"])
        return set(found.items())

    def is_right(self) -> None:
        spent = {(f"{month}", *rest) for month, *rest in self.spent.rows()}
        assert (spent, self.totals.rows()) == (self.expected_spent(), self.expected_totals())


@pytest.fixture(scope="module")
def opened(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Two days of visits by ann, bob and somebody unknown; both derived tables are loaded."""
    root = f"{tmp_path_factory.mktemp('opened')}"
    house = House(spark, Lake(root=root))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INCLOAD_LAKE", root)
        house.arrive(house.people, 1, person("ann", "Rome", 1), person("bob", "Oslo", 1))
        house.arrive(house.visits, 1, visit("a1", 1, "ann", 10, 1), visit("n1", 1, None, 7, 1))
        house.arrive(house.visits, 2, visit("b2", 2, "bob", 20, 1), visit("a2", 2, "ann", 5, 1))
        house.load(house.spent)
        house.load(house.totals)
        house.is_right()
    return house


@pytest.fixture
def house(opened: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """A copy of it, in which no window is too small and no change too large for groups."""
    monkeypatch.setenv("INCLOAD_LAKE", str(tmp_path))
    monkeypatch.setattr(groups_of, "LEAST_BYTES", 0)
    monkeypatch.setattr(groups_of, "MOST_CHANGED", 1_000)
    shutil.copytree(opened.lake.root, tmp_path, dirs_exist_ok=True)
    return House(opened.spark, Lake(root=str(tmp_path)), written=deepcopy(opened.written))


def test_only_the_groups_with_changed_rows_are_computed_again(house: House) -> None:
    before = house.versions_of(house.spent)
    house.arrive(house.visits, 3, visit("b2", 2, "bob", 21, 2))
    assert "computed 1 row of changed groups, beside 3 before" in house.load(house.spent)
    assert "computed 1 row of changed groups, beside 2 before" in house.load(house.totals)
    house.is_right()
    now = house.versions_of(house.spent)
    assert {guest for guest in now if now[guest] != before[guest]} == {"bob"}


def test_a_row_that_moves_to_another_group_and_the_last_row_of_a_group_concern_both_groups(house: House) -> None:
    house.arrive(house.visits, 3, visit("b2", 2, "ann", 20, 2))
    assert "computed 1 row" in house.load(house.spent), "bob has none any more"
    house.load(house.totals)
    house.is_right()
    house.arrive(house.visits, 4, visit("n1", 1, None, 7, 2, "d"), visit("b4", 4, "bob", 1, 1))
    assert "computed 1 row" in house.load(house.spent), "of two groups: nobody, who is gone, and bob"
    house.load(house.totals)
    house.is_right()


def test_rows_that_refer_to_a_changed_key_are_of_changed_groups(house: House) -> None:
    house.arrive(house.people, 2, person("ann", "Pisa", 2), person("cyd", "Bonn", 1))
    assert "computed 1 row of changed groups, beside 3 before" in house.load(house.spent)
    house.is_right()
    house.arrive(house.people, 3, person("bob", "Oslo", 2, "d"))
    house.arrive(house.visits, 3, visit("c3", 3, "cyd", 1, 1))
    assert "computed 2 rows" in house.load(house.spent)
    house.is_right() if house.load(house.totals) else pytest.fail("the groups of totals have changed, too")


def test_files_that_were_rewritten_without_a_change_give_no_group(house: House) -> None:
    house.arrive(house.visits, 3, visit("late", 1, "bob", 2, 1))
    house.spark.sql(f"OPTIMIZE {house.lake.sql_name(house.visits.uri)}").first()
    assert "computed 1 row" in house.load(house.spent), "all files are other ones, and one row is new"
    house.load(house.totals)
    house.is_right()


def test_all_groups_are_computed_after_a_change_of_much_of_a_window_and_in_a_small_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups_of, "MOST_CHANGED", 0.25)
    house.arrive(house.visits, 3, visit("b2", 2, "bob", 21, 2))
    assert house.load(house.spent) == "", "a file of two, and the one that it replaced"
    monkeypatch.setattr(groups_of, "MOST_CHANGED", 1_000)
    monkeypatch.setattr(groups_of, "LEAST_BYTES", 10**6)
    assert house.load(house.totals) == ""
    house.is_right()


def test_all_groups_are_computed_by_other_code_and_beside_quarantined_rows(house: House) -> None:
    """Whether too many rows are rejected is a question to the whole window."""
    house.arrive(house.visits, 3, visit("b2", 2, "bob", 21, 2))
    house.version = "2"
    house.__post_init__()
    assert house.load(house.spent) == ""
    house.load(house.totals)
    house.is_right()
    house.arrive(house.visits, 4, visit("c4", 4, "cyd", -1, 1))
    assert "all groups are computed: 1 row of the changed ones not accepted" in house.load(house.spent)
    assert [guest for guest, *_ in house.spent.log("rejected", "guest")] == ["cyd"]
    house.arrive(house.visits, 5, visit("b2", 2, "bob", 22, 3))
    assert house.load(house.spent) == "", "a row is in quarantine"
    house.arrive(house.visits, 6, visit("c4", 4, "cyd", 1, 2))
    assert house.load(house.spent) == ""
    house.arrive(house.visits, 7, visit("c4", 4, "cyd", 2, 3))
    assert "computed 1 row" in house.load(house.spent), "all rows are accepted again"
    house.load(house.totals)
    house.is_right()


def test_all_groups_are_computed_if_a_version_upstream_is_gone(house: House) -> None:
    house.arrive(house.visits, 3, visit("b2", 2, "bob", 21, 2))
    house.spark.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false").first()
    house.spark.sql(f"VACUUM {house.lake.sql_name(house.visits.uri)} RETAIN 0 HOURS").first()
    assert "all groups are computed, as the changed ones were not" in house.load(house.spent)
    house.load(house.totals)
    house.is_right()


def test_all_groups_are_computed_of_a_table_that_was_made_anew(house: House) -> None:
    shutil.rmtree(house.visits.uri)
    shutil.rmtree(house.lake.log_uri(house.visits.table.key.path))
    house.visits.content.clear()
    house.arrive(house.visits, 1, visit("a1", 1, "ann", 11, 1))
    house.arrive(house.visits, 2, visit("b2", 2, "bob", 20, 1))
    house.arrive(house.visits, 3, visit("c3", 3, "cyd", 1, 1))
    assert house.load(house.spent) == "", "versions are of this table alone"
    house.load(house.totals)
    house.is_right()


def test_a_function_that_makes_rows_of_other_groups_is_told_and_its_window_computed(house: House) -> None:
    house.foreign = True
    house.__post_init__()
    house.load(house.spent)
    house.arrive(house.visits, 3, visit("b2", 2, "bob", 21, 2))
    told = house.load(house.spent)
    assert "all groups are computed: 1 row of the changed ones not accepted" in told
    assert {guest for _, guest, *_ in house.spent.rows()} == {"all"}


def test_after_an_undo_and_a_release_the_table_is_what_the_source_has(house: House) -> None:
    house.arrive(house.visits, 3, visit("b2", 2, "bob", 21, 2), visit("c3", 3, "cyd", 1, 1))
    house.load(house.spent)
    house.load(house.totals)
    undo_window(house.spent.context(), window_of(MONTHS, JANUARY), Undo())
    house.arrive(house.visits, 4, visit("a1", 1, "ann", 11, 2))
    house.load(house.spent)
    house.load(house.totals)
    house.is_right()


def test_a_window_whose_log_was_damaged_is_computed_as_a_whole(house: House) -> None:
    log = ChangeLog(house.spent.table, house.lake)
    fingerprint = log.ingested[JANUARY].fingerprint
    house.spark.sql(f"DELETE FROM {house.lake.sql_name(log.uri)} WHERE guest = 'bob'").first()
    house.load(house.spent, checkpoint=Checkpoint(fingerprint, clean=False))
    house.is_right()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_after_random_changes_in_random_order_groups_are_what_whole_windows_are(house: House, seed: int) -> None:
    chance, seq, computed = random.Random(seed), iter(range(10, 10_000)), 0
    guests: Sequence[str | None] = ("ann", "bob", "cyd", None)

    def of(number: int) -> Record:
        """A change of a visit, which is always of the same day: of January, or of February."""
        op = chance.choice("uuud")
        return visit(f"v{number}", 1 + 6 * number, chance.choice(guests), chance.randint(1, 9), next(seq), op)

    for step in range(8):
        window = chance.randint(1, 40)
        if chance.random() < 0.3:
            someone = person(chance.choice(guests[:3]) or "", chance.choice("RO"), next(seq), chance.choice("uud"))
            house.arrive(house.people, window, someone)
        else:
            house.arrive(house.visits, window, *map(of, chance.sample(range(7), chance.randint(1, 3))))
        if chance.random() < 0.2:
            house.spark.sql(f"OPTIMIZE {house.lake.sql_name(house.visits.uri)}").first()
        known = {record["day"] for records in house.visits.content.values() for record in records}
        months = [month for month in (JANUARY, day(32)) if any(f"{of_day}"[:7] == month[:7] for of_day in known)]
        for table in chance.sample([house.spent, house.totals], 2 if step == 7 else chance.randint(0, 2)):
            computed += sum("computed" in house.load(table, month) for month in months)
    house.is_right()
    assert computed, "or nothing was tested"
