"""Skew: one key, partition or bucket that has far more rows than the others is told, and usual data is not."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, History, Merge
from incload_assets.checks.observation import look
from incload_assets.checks.skew import CHECK, Limits, skew
from incload_assets.declaration.layout import BUCKET_BYTES, buckets_for
from incload_assets.declaration.table import Quarantine
from tests.support.tables import Item, Loaded, day, item, make

FEW = Limits(key_rows=10, place_rows=20, places=3)
EVEN = [item(f"key {n % 40}", "v", n) for n in range(80)]
HOT = [item("unknown" if n % 2 else f"key {n}", "v", n) for n in range(80)]
NOW = datetime(2026, 1, 20, tzinfo=UTC)


class Placed(Item):
    """An item of a country."""

    country: T.StringType = pa.Field(nullable=False)


class PersonalPlaced(Item):
    """The same, where the country is personal."""

    country: T.StringType = pa.Field(nullable=False, metadata={"personal": True})


Checked = Callable[[Loaded, Limits], dg.AssetCheckResult]


@pytest.fixture
def checked(tmp_path: Path) -> Checked:
    def found(table: Loaded, limits: Limits) -> dg.AssetCheckResult:
        with dg.DagsterInstance.ephemeral() as instance:
            return skew(look(instance, table.table, table.lake, NOW), limits)

    return found


def in_countries(most: int) -> list[Any]:
    """Items of four countries, where the first has so many."""
    rows = [item(f"key {n}", "v", n) | {"country": "none"} for n in range(most)]
    return rows + [item(f"other {n}", "v", n) | {"country": f"country {n % 3}"} for n in range(12)]


def test_a_key_with_a_large_share_of_a_load_is_told_without_its_value(
    spark: SparkSession, tmp_path: Path, checked: Checked
) -> None:
    table = make(spark, tmp_path, {day(1): EVEN, day(2): HOT})
    even, hot = table.load(1).record, table.load(2).record
    assert (even.largest_key, hot.largest_key) == (2, 40)
    found = checked(table, FEW)
    assert not found.passed
    assert found.description is not None
    assert found.description.startswith("One key has 40 changes of 80 in 2026-01-02. What to do: see which it is, by ")
    assert not any("unknown" in str(value) for name, value in vars(hot).items() if name != "position")
    query = found.description.partition("by SELECT ")[2].partition(" LIMIT 3")[0]
    row = spark.sql(f"SELECT {query} LIMIT 1").first()
    assert row is not None
    assert tuple(row) == ("unknown", 40)
    assert checked(table, Limits()).passed, "a small load is never told"
    table.content[day(2)] = EVEN
    table.load(2)
    assert checked(table, FEW).passed


def test_rejected_rows_are_of_no_key(spark: SparkSession, tmp_path: Path) -> None:
    rows = [item(None, "v", n) for n in range(6)] + [item("a", "v", n) for n in range(40)]
    table = make(spark, tmp_path, {day(1): rows})
    assert (record := table.load(1).record).rejected == 6
    assert (record.largest_key, record.largest_place) == (40, None)
    none = make(spark, tmp_path / "none", {day(1): [item(None, "v", 1)] * 3 + [item("a", "v", 1)]},
                quarantine=Quarantine(max_share=1.0))  # fmt: skip
    assert none.load(1).record.largest_key == 1


def test_a_partition_with_far_more_rows_than_the_others_is_told(
    spark: SparkSession, tmp_path: Path, checked: Checked
) -> None:
    options: dict[str, Any] = {"contract": Placed, "write": Merge(partition_by="country")}
    table = make(spark, tmp_path, {day(1): in_countries(60)}, **options)
    assert table.load(1).record.largest_place == 60
    found = checked(table, FEW)
    assert not found.passed
    assert found.description == (
        "The partition country=none has 60 rows; the median of 4 is 4. What to do: if the value stands for a missing "
        "one, have it corrected at the source; otherwise partition by another column, in a table of another name, or "
        "divide by key: buckets instead of partition_by."
    )
    assert checked(table, Limits(key_rows=10, place_rows=61, places=3)).passed
    personal = make(spark, tmp_path, table.content, **options | {"contract": PersonalPlaced})
    assert "country=***" in str(checked(personal, FEW).description)
    usual = make(spark, tmp_path / "usual", {day(1): in_countries(30)}, **options)
    usual.load(1)
    assert checked(usual, FEW).passed


def test_a_bucket_with_the_versions_of_one_key_is_told(spark: SparkSession, tmp_path: Path, checked: Checked) -> None:
    versions = [item("hot", str(n), n) for n in range(60)] + [item(f"key {n}", "v", 1) for n in range(40)]
    table = make(spark, tmp_path, {day(1): versions}, write=History(buckets=8))
    table.load(1)
    found = checked(table, FEW)
    assert not found.passed
    assert "Bucket " in str(found.description)
    even = make(
        spark, tmp_path / "even", {day(1): [item(f"key {n}", "v", 1) for n in range(100)]}, write=Merge(buckets=4)
    )
    even.load(1)
    assert checked(even, FEW).passed
    large = checked(even, Limits(bucket_bytes=1))
    assert "a load rewrites whole buckets" in str(large.description)


@pytest.mark.parametrize(
    ("size", "number"),
    [(0, None), (2 * BUCKET_BYTES, None), (2 * BUCKET_BYTES + 1, 4), (8 * BUCKET_BYTES, 8), (2**50, 256)],
)
def test_buckets_are_advised_by_size(size: int, number: int | None) -> None:
    assert buckets_for(size) == number


def test_a_table_without_keys_and_partitions_has_no_such_check(tmp_path: Path) -> None:
    none = make(None, tmp_path, write=Append(), changes=Changes())  # type: ignore[arg-type]
    assert not CHECK.applies_to(none.table)
    assert CHECK.applies_to(make(None, tmp_path).table)  # type: ignore[arg-type]
