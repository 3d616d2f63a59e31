"""The sample tables, loaded by the engine, hold what the shop knows to be right."""

import importlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incload_assets.loading.asset import table_of
from incload_assets.loading.load import load_window
from incload_assets.loading.window import window_of
from incload_assets.shop import Shop
from incload_assets.shop.plan import FEEDS
from resources.lake import Lake
from resources.settings import Settings
from tests.shop.conftest import MONDAY

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


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
