"""Loads keep an entry of each table in Spark's catalog, and never touch what is not theirs."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import dagster as dg
import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from incload_assets.load.catalog_entry import entry_name
from incload_assets.platform.settings import Settings
from tests.support.guest_table import House, guest, house, key


@pytest.fixture
def schema(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A schema that does not exist yet, and is gone afterwards."""
    name = f"guests_{uuid4().hex[:8]}"
    monkeypatch.setenv("INCLOAD_CATALOG", f"spark_catalog.{name}")
    yield f"spark_catalog.{name}"
    spark.sql(f"DROP SCHEMA IF EXISTS spark_catalog.{name} CASCADE")


@pytest.fixture
def guests(tmp_path: Path, spark_settings: Settings, schema: str) -> Iterator[House]:
    """Two days of guests, which a catalog is to name."""
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("a", day=1))
        h.deliver(2, guest("b", day=2))
        yield h


def warnings(h: House, number: int) -> list[str]:
    """Load a day; what its run warns of the catalog."""
    result = h.run(h.loads, partition=key(number))
    assert result.success
    told = h.instance.all_logs(result.run_id)
    return [entry.user_message for entry in told if entry.level == 30 and "catalog" in entry.user_message]


def test_a_loaded_table_is_in_the_catalog_with_its_columns_and_its_description(
    guests: House, schema: str, spark: SparkSession
) -> None:
    assert warnings(guests, 1) == []
    assert spark.sql(f"SELECT id, room FROM {schema}.guests").collect() == [("a", 1)]
    about = guests.asset.descriptions_by_key[guests.table.key]
    detail = f"DESCRIBE DETAIL {schema}.guests"
    assert spark.sql(detail).select("description").collect() == [(about,)]
    [metadata] = guests.asset.metadata_by_key.values()
    assert metadata["dagster/table_name"] == f"{schema}.guests"
    spark.sql(f"ALTER TABLE delta.`{guests.lake.table_uri(guests.table.key.path)}` ADD COLUMN added STRING")
    version = spark.sql(f"DESCRIBE HISTORY {schema}.guests").count()
    assert warnings(guests, 2) == []
    assert spark.sql(f"SELECT id, added FROM {schema}.guests ORDER BY id").collect() == [("a", None), ("b", None)]
    assert spark.sql(f"DESCRIBE HISTORY {schema}.guests").count() == version + 1  # the load, and no description again


def test_an_entry_that_is_another_table_is_left_alone_and_the_load_says_so(
    guests: House, schema: str, spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql(f"CREATE SCHEMA {schema}")
    spark.sql(f"CREATE TABLE {schema}.guests (other INT) USING delta LOCATION '{tmp_path / 'other'}'")
    [told] = warnings(guests, 1)
    assert f"guests: the catalog's {schema}.guests is another table or a view, at file:{tmp_path / 'other'}" in told
    assert spark.sql(f"SELECT * FROM {schema}.guests").columns == ["other"]
    spark.sql(f"DROP TABLE {schema}.guests")
    spark.sql(f"CREATE VIEW {schema}.guests AS SELECT 1 AS one")
    [told] = warnings(guests, 2)
    assert f"{schema}.guests is another table or a view, at no place" in told
    assert spark.sql(f"SELECT * FROM {schema}.guests").columns == ["one"]


def test_a_catalog_that_refuses_stops_no_load_and_the_next_load_tries_again(
    guests: House, schema: str, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.setenv("INCLOAD_CATALOG", "nowhere.at_all")
    [told] = warnings(guests, 1)
    assert told.startswith("guests: the catalog has no entry nowhere.at_all.guests: ") and "Remedy: correct" in told
    monkeypatch.setenv("INCLOAD_CATALOG", schema)
    assert warnings(guests, 2) == []
    assert spark.sql(f"SELECT * FROM {schema}.guests").count() == 2


@pytest.mark.parametrize(
    ("catalog", "environment", "path", "name"),
    [
        ("main", "", ["retail", "orders"], "main.retail.orders"),
        ("main", "", ["orders"], "main.default.orders"),
        ("main", "dev-1", ["eu", "retail", "orders"], "main.eu_retail_dev_1.orders"),
        ("main.lake", "", ["retail", "orders"], "main.lake.retail_orders"),
        ("main.lake", "dev", ["orders"], "main.lake_dev.orders"),
    ],
)
def test_an_entry_is_named_after_the_asset_key_and_its_schema_after_the_environment(
    catalog: str, environment: str, path: list[str], name: str
) -> None:
    parts = entry_name(Settings(catalog=catalog, environment=environment), path)
    assert parts is not None and ".".join(parts) == name
    assert entry_name(Settings(), dg.AssetKey(path).path) is None


@pytest.mark.parametrize("catalog", ["a.b.c", "a;b", "a.", "`a`", " "])
def test_a_name_that_is_no_catalog_is_refused_at_once(catalog: str) -> None:
    with pytest.raises(ValidationError, match=r"INCLOAD_CATALOG is a catalog, or catalog\.schema"):
        Settings(catalog=catalog)
