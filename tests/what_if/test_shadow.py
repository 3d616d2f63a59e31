"""A shadow is what this code makes of the same log, beside the table."""

from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Merge
from incload_assets.change_log.context import LoadContext
from incload_assets.restore.adopt import adopt
from incload_assets.what_if.shadow import Shadow, drop, shadow
from tests.support.tables import GoodItem, Item, Loaded, day, item, make


def of(table: Loaded) -> Shadow:
    return shadow(table.context())


def test_the_same_code_makes_the_same_table_and_other_code_is_told_by_key_and_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(2): [item("a", "x", 1), item("b", "x", 1), item("c", "bad", 1)],
        day(3): [item("b", "y", 2), item("d", "z", 1), item("e", "z", 1, op="d")],
    }
    table = make(spark, tmp_path, content)
    spark.createDataFrame([("old", "x", 1), ("e", "x", 0)], table.table.schema).write.format("delta").save(table.uri)
    adopt(LoadContext(spark, table.table, table.lake))
    for number in (2, 3):
        table.load(number)
    before = table.versions()

    same = of(table)
    assert same.comparison.equal and same.comparison.rows == (5, 5)
    assert (same.same_code, list(same.validated), same.as_logged) == (3, [], {})

    def louder(changes: DataFrame) -> DataFrame:
        return changes.withColumn("value", F.upper("value"))

    content[day(3)][1] = item("d", "other", 1)  # a load would read something else now
    changed = make(spark, tmp_path, content, contract=GoodItem, function=louder, code_version="2")
    found = of(changed)
    assert (list(found.validated), found.rejected) == ([day(2)], (0, 0))
    assert found.as_logged == {day(3): "the source holds something else now; a load would read that"}
    assert (found.comparison.only_table, found.comparison.only_shadow, found.comparison.different) == (0, 0, 2)
    assert found.comparison.by_column == {"value": 2}
    assert sorted(found.comparison.samples) == ['id="a": value "x" → "X"', 'id="c": value "bad" → "BAD"']
    assert "2 different" in "\n".join(found.lines("items"))

    strict = make(spark, tmp_path, content, contract=GoodItem, code_version="3")
    found = of(strict)
    assert found.rejected == (0, 1) and found.comparison.only_table == 1
    assert list(found.comparison.samples) == ['id="c": only in the table']

    soft = make(spark, tmp_path, content, contract=Item, write=Merge(soft_delete="gone"))
    found = of(soft)
    assert (found.comparison.only_shadow, found.comparison.columns) == (1, ([], ["gone"]))
    assert table.versions() == before

    assert drop(LoadContext(spark, table.table, table.lake))
    assert not drop(LoadContext(spark, table.table, replace(table.lake)))
