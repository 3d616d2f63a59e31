"""Declaring derived tables, and what Dagster makes of them."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import Changes, Files, Fold, Merge, Overwrite, Upstream, derived_asset, incremental_asset
from incload_assets.assets.incremental import table_of
from incload_assets.automation.window_requests import look
from incload_assets.code_location import incremental_definitions
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import SparkResource
from incload_assets.progress.observed import SENSOR
from tests.support.tables import DAYS, DatedItem, Item, StampedItem, day

HOURS = dg.HourlyPartitionsDefinition("2026-01-01-00:00")


def loaded(contract: type, write: Merge, name: str) -> dg.AssetsDefinition:
    @incremental_asset(
        partitions_def=DAYS,
        source=Files("{landing}/items/{window:%Y-%m-%d}/*.json"),
        contract=contract,
        changes=Changes(keys=["id"], sequence_by=["seq"]),
        write=write,
        name=name,
    )
    def items(changes: DataFrame) -> DataFrame:
        return changes

    return items


DATED = loaded(DatedItem, Merge(partition_by="day"), "dated")
STAMPED = loaded(StampedItem, Merge(partition_by="at"), "stamped")
STATE = loaded(Item, Merge(), "state")


def both(a: DataFrame, b: DataFrame) -> DataFrame:
    return a


def by_value(items: DataFrame) -> DataFrame:
    """Some rows."""
    return items


def derive(function: Callable[..., DataFrame] = by_value, **options: Any) -> dg.AssetsDefinition:
    declared: dict[str, Any] = {
        "partitions_def": DAYS,
        "of": {"items": Upstream(DATED, partition="day")},
        "contract": DatedItem,
        "write": Overwrite(partition_by="day"),
    }
    return derived_asset(**declared | options)(function)


def test_a_derived_table_is_an_incremental_one_with_its_tables_upstream() -> None:
    asset = derive(
        of={"items": Upstream(DATED, partition="day"), "state": Upstream(STATE)},
        function=lambda items, state: items,
        name="joined",
    )
    definitions = incremental_definitions([DATED, STATE, asset], Settings())
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()
    assert graph.get(dg.AssetKey("joined")).parent_keys == {DATED.key, STATE.key}
    watched = definitions.get_repository_def().get_sensor_def(SENSOR).asset_selection
    assert watched is not None and watched.resolve(graph) == {DATED.key, STATE.key, asset.key}
    assert derive().backfill_policy == DATED.backfill_policy
    assert derive().descriptions_by_key[dg.AssetKey("by_value")] == "Some rows."


def test_other_code_is_another_version() -> None:
    def others(items: DataFrame) -> DataFrame:
        return items.distinct()

    versions = [getattr(table_of(derive(function=f, name="one")), "code_version", None) for f in (by_value, others)]
    assert len(set(versions)) == 2
    assert versions[0] == getattr(table_of(derive(name="one")), "code_version", None)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"of": {"items": Upstream(DATED, partition="date")}}, r"'date', and dated is partitioned by 'day'"),
        ({"of": {"items": Upstream(STATE, partition="id")}}, r"partition is 'id', and state is not partitioned"),
        ({"of": {"items": Upstream(STATE)}}, r"none of items has a partition"),
        ({"of": {}}, r"its function takes \(items\), and of names no tables"),
        ({"of": {"rows": Upstream(DATED, partition="day")}}, r"its function takes \(items\), and of names rows"),
        ({"of": {"items": Upstream(by_value)}}, r"of\['items'\] is <function by_value"),
        ({"name": "dated"}, r"of\['items'\] is the table dated itself"),
        (
            {"function": both, "of": {"a": Upstream(DATED, "day"), "b": Upstream(DATED, "day")}},
            r"of names dated twice, as 'a' and as 'b'",
        ),
        (
            {"partitions_def": HOURS, "contract": StampedItem, "write": Overwrite(partition_by="at")},
            r"of\['items'\].partition names 'day' of type date, and the first window is \[2026-01-01T00:00",
        ),
        ({"partitions_def": dg.StaticPartitionsDefinition(["a"])}, r"partitions_def is StaticPartitionsDefinition"),
        (
            {"function": both, "of": {"a": Upstream(DATED, "day"), "b": Upstream(STATE, on="day")}},
            r"of\['b'\].on is 'day', and state does not have it",
        ),
        (
            {"function": both, "of": {"a": Upstream(DATED, "day"), "b": Upstream(STAMPED, "at", on="id")}},
            r"of\['b'\] has partition 'at' and on 'id'",
        ),
        ({"groups": ["who"]}, r"groups names 'who', which DatedItem does not have"),
        ({"groups": "id"}, r"groups is 'id'"),
        ({"groups": ["value"], "keys": ["id"]}, r"groups is value; the table's keys are id"),
        (
            {"function": both, "of": {"a": Upstream(DATED, "day"), "b": Upstream(STAMPED, "at")}, "groups": ["day"]},
            r"groups names 'day' of type date, in b the column 'day'; stamped does not have it",
        ),
        (
            {"of": {"items": Upstream(DATED, "day", groups=["seq"])}, "groups": ["id"]},
            r"'id' of type string, in items the column 'seq'; dated has it as bigint",
        ),
        (
            {"of": {"items": Upstream(DATED, "day", groups=["id"])}},
            r"groups names 0 columns, and of\['items'\].groups 1",
        ),
        (
            {"function": both, "of": {"a": Upstream(DATED, "day"), "b": Upstream(STATE, groups=["id"])}},
            r"of\['b'\].groups is \['id'\], and it has no partition",
        ),
        ({"absent": "never"}, r"absent is 'never'"),
        ({"write": Overwrite()}, r"write is Overwrite\(\) without partition_by"),
        ({"write": Fold(sums=["value"]), "keys": ["id"]}, r"write.sums names 'value' of type string"),
        ({"write": Fold(sums=["count"]), "keys": ["id"]}, r"write.sums names 'count', which DatedItem does not have"),
        ({"write": Fold(sums=["seq"], maxes=["seq"]), "keys": ["id"]}, r"'seq', which is also in write.sums"),
        ({"write": Fold(sums=["seq"]), "keys": ["id"]}, r"nothing declares how 'value', 'day' is folded"),
        ({"write": Fold(partition_by="day"), "keys": ["id"]}, r"write.partition_by is 'day', but a fold has none"),
        ({"write": Fold(sums=["seq"], maxes=["day", "value"])}, r"changes.keys is empty"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_refused_with_what_to_write(options: dict[str, Any], told: str) -> None:
    with pytest.raises(DeclarationError, match=told) as refused:
        derive(**options)
    assert refused.value.remedy


def test_hours_of_a_timestamp_and_weeks_of_a_date_are_windows() -> None:
    by_hour = {"items": Upstream(STAMPED, partition="at")}
    derive(of=by_hour, partitions_def=HOURS, contract=StampedItem, write=Overwrite(partition_by="at"))
    derive(of=by_hour, contract=StampedItem, write=Overwrite(partition_by="at"))
    derive(partitions_def=dg.WeeklyPartitionsDefinition("2026-01-04"))


class Odd(pa.DataFrameModel):
    """A column that is no number."""

    id: T.StringType = pa.Field(nullable=False)
    ratio: T.DoubleType = pa.Field(nullable=True)


def test_a_sum_of_doubles_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"'ratio' of type double.*depends on the order"):
        derive(contract=Odd, write=Fold(sums=["ratio"]), keys=["id"])


class Daily(pa.DataFrameModel):
    """How many items a day has."""

    day: T.DateType = pa.Field(nullable=False)
    items: T.LongType = pa.Field(nullable=False)


@pytest.mark.slow
def test_the_sensor_asks_for_what_changed_upstream_and_a_range_is_one_run(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))

    def count(items: DataFrame) -> DataFrame:
        return items.groupBy("day").agg(F.count("*").alias("items"))

    asset = derive(count, of={"items": Upstream(DATED, partition="day")}, contract=Daily, name="daily")
    daily, lake = table_of(asset), Lake.of(Settings())
    assert daily is not None

    def deliver(number: int, *items: tuple[str, int]) -> None:
        file = tmp_path / "landing" / "items" / day(number) / f"{len(items)}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"id": id, "value": "a", "seq": 1, "day": day(of)} for id, of in items]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    with dg.DagsterInstance.ephemeral() as instance:

        def load(of: dg.AssetsDefinition, first: int, last: int) -> None:
            tags = {"dagster/asset_partition_range_start": day(first), "dagster/asset_partition_range_end": day(last)}
            spark = SparkResource(spark=spark_settings.spark, home=str(spark_settings.home))
            given = {"spark": spark, "lake": lake}
            resources = {name: dg.ResourceDefinition.hardcoded_resource(value) for name, value in given.items()}
            assert dg.materialize([of], instance=instance, resources=resources, tags=tags).success

        def asked() -> list[str]:
            return [ask.partition for ask in look(instance, daily, lake, datetime(2026, 1, 5, tzinfo=UTC))[1].asks]

        for number in (1, 2, 3):
            deliver(number, (f"i{number}", number))
        load(DATED, 1, 3)
        assert asked() == [day(1), day(2), day(3)]
        load(asset, 1, 3)
        assert asked() == []
        deliver(3, ("i3", 3), ("late", 1))
        load(DATED, 3, 3)
        assert asked() == [day(1)]
