"""Conflicts: what several sources of one table tell of a key at the same position."""

from pathlib import Path

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, Merge, Several
from incload_assets.checks.conflicts import conflicts
from incload_assets.checks.definitions import checks_for
from incload_assets.trial.literal_source import LiteralSource, Record
from tests.sources.test_several import Prioritized
from tests.support.tables import Loaded, day, item, make

AT_ONCE = Changes(keys="id", sequence_by=["seq", "source_priority"], delete_when="op = 'd'")


class Private(Prioritized):
    """An item whose key nobody may see."""

    id: T.StringType = pa.Field(nullable=False, metadata={"personal": True})


def table_of(spark: SparkSession, folder: Path, contract: type = Prioritized) -> Loaded:
    erp: dict[str, list[Record]] = {
        day(1): [item("same", "v", 1), item("differs", "of erp", 1), item("later", "v", 1), item("gone", "v", 1)]
    }
    web: dict[str, list[Record]] = {
        day(1): [item("same", "v", 1), item("differs", "of web", 1), item("later", "w", 2), item("gone", None, 1, "d")]
    }
    source = Several({"erp": LiteralSource(erp), "web": LiteralSource(web)})
    return make(spark, folder, source=source, contract=contract, changes=AT_ONCE)


def test_what_sources_tell_differently_at_one_position_is_counted_and_shown(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = table_of(spark, tmp_path)
    assert conflicts(spark, table.table, table.lake).description == "Nothing was loaded yet."
    table.load(1)
    assert table.rows("id", "value") == {("same", "v"), ("differs", "of erp"), ("later", "w"), ("gone", "v")}
    found = conflicts(spark, table.table, table.lake)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert found.metadata["conflicts"].value == 2
    sample = found.metadata["sample"]
    assert isinstance(sample, dg.TableMetadataValue)
    assert [dict(record.data) for record in sample.records] == [
        {"id": "differs", "seq": "1", "sources": "erp, web"},
        {"id": "gone", "seq": "1", "sources": "erp, web"},
    ]
    hidden = table_of(spark, tmp_path / "private", Private)
    hidden.load(1)
    assert "differs" not in str(conflicts(spark, hidden.table, hidden.lake))


def test_only_a_table_with_several_sources_is_asked_for_conflicts(spark: SparkSession, tmp_path: Path) -> None:
    def names(table: Loaded) -> set[str]:
        return {key.name for check in checks_for(table.table) for key in check.check_keys}

    one = make(spark, tmp_path, {}, name="one")
    events = make(spark, tmp_path, source=table_of(spark, tmp_path).table.source, write=Append(), changes=Changes())
    assert names(events) == names(one) - {"uniqueness", "skew"}
    assert names(table_of(spark, tmp_path)) - names(one) == {"conflicts"}


def test_telling_different_columns_is_no_contradiction(spark: SparkSession, tmp_path: Path) -> None:
    class Stocked(Prioritized):
        stock: T.StringType = pa.Field(nullable=True)

    gone: Record = {"id": "gone", "seq": "1", "op": "d"}
    shop: dict[str, list[Record]] = {day(1): [{"id": "k", "seq": "1", "value": "9.99"}, {**gone, "value": "was"}]}
    house: dict[str, list[Record]] = {day(1): [{"id": "k", "seq": "1", "stock": "3"}, gone]}
    source = Several({"shop": LiteralSource(shop), "house": LiteralSource(house)})
    table = make(spark, tmp_path, source=source, contract=Stocked, write=Merge(partial=True), changes=AT_ONCE)
    table.load(1)
    assert conflicts(spark, table.table, table.lake).passed
    house[day(1)] = [{"id": "k", "seq": "1", "stock": "3", "value": "10"}]
    table.load(1)
    assert not conflicts(spark, table.table, table.lake).passed
