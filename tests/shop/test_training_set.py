"""Training sets of the sample's features: what was served, and nothing that was known only later."""

from datetime import date, datetime
from typing import Any

import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.window import now
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.shop import Shop
from incload_assets.shop.calendar import midnight
from incload_assets.shop.clock import Clock
from incload_assets.tables.retail.customer_features import training_set
from incload_assets.writes.as_of import rows_as_of
from tests.shop.conftest import MONDAY
from tests.shop.test_loaded import DAY, load, sample, shop
from tests.support.detection import detected

__all__ = ["shop"]

Served = dict[int, tuple[date, int, str | None]]
LABELS = T.StructType([T.StructField("customer_id", T.LongType()), T.StructField("labelled_at", T.TimestampType())])


@pytest.mark.slow
@pytest.mark.integration
def test_a_training_set_has_the_features_that_were_served_at_the_time_of_each_label(
    spark: SparkSession, shop: Shop
) -> None:
    """Of two days; what comes later, and late orders of the first, do not change what was served before."""
    upstream, derived, lake = [sample("orders"), sample("events")], sample("customer_features"), Lake.of(Settings())
    Clock(Settings()).save(midnight(MONDAY))

    def features() -> DataFrame:
        return LoadContext(spark, derived, lake).newest_rows()

    served: dict[datetime, Served] = {}
    for step in (DAY, DAY / 2, DAY / 2):
        arrived = shop.advance(until=shop.now + step).files
        for table in upstream:
            for partition in sorted({file.partition for file in arrived if file.table == table.name}):
                load(spark, table, partition)
        windows = [sample_window for sample_window in derived.known_windows([str(MONDAY), str(MONDAY + DAY)])]
        for window in windows:
            if window.key in detected(derived.source, derived.name, windows, {}, lake=lake):
                load(spark, derived, window.key)
        told = rows_as_of(spark, derived, lake, valid=(at := now())).collect()
        served[at] = {row["customer_id"]: _features(row) for row in told}
    assert len({str(sorted(each.items())) for each in served.values()}) == len(served)
    labels = spark.createDataFrame([(key, at) for at, each in served.items() for key in each], LABELS)
    made = training_set(labels, features()).collect()
    found: dict[datetime, Served] = {at: {} for at in served}
    for row in made:
        found[row["labelled_at"].astimezone(midnight(MONDAY).tzinfo)][row["customer_id"]] = _features(row)
    assert found == served
    before = spark.createDataFrame([(key, midnight(MONDAY)) for key in served[at]], LABELS)
    assert {row["orders"] for row in training_set(before, features()).collect()} == {None}


def _features(row: Any) -> tuple[date, int, str | None]:
    return row["feature_date"], row["orders"], row["last_event"]
