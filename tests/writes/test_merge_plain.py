"""Merge: values handed on within a batch, and repetitions, on literal rows."""

from pathlib import Path

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Quarantine
from tests.support.tables import Item, day, item, make


class Account(Item):
    """An item whose value no other key has."""

    class Config:
        """Of the model."""

        unique = ["value"]  # noqa: RUF012 - pandera reads it


class Measurement(pa.DataFrameModel):
    """Identified by an instant."""

    at: T.TimestampType = pa.Field(nullable=False)
    value: T.StringType = pa.Field(nullable=True)
    seq: T.LongType = pa.Field(nullable=True)

    class Config:
        """Of the model."""

        unique = ["value"]  # noqa: RUF012 - pandera reads it


def test_a_unique_value_may_change_hands_within_a_batch_but_not_stand_under_two_keys(
    spark: SparkSession, tmp_path: Path
) -> None:
    changes = [
        item("handed on", "x", 1),
        item("handed on", "y", 2),
        item("taken over", "x", 3),
        item("deleted", "z", 1),
        item("deleted", None, 2, "d"),
        item("freed", "z", 1),
        item("twin 1", "same", 1),
        item("twin 2", "same", 2),
        item("twin 2", "same", 2),
    ]
    table = make(spark, tmp_path, {day(1): changes}, contract=Account, quarantine=Quarantine(max_share=0.5))
    table.load(1)
    assert table.rows() == {("handed on", "y", 2), ("taken over", "x", 3), ("freed", "z", 1)}
    reason = ["value: the same value under two keys, but it is unique"]
    assert table.log("rejected", "id", "_reasons") == [("twin 1", reason), ("twin 2", reason), ("twin 2", reason)]


def test_rows_edited_under_the_same_sequence_are_put_right_even_by_a_load_that_knows_of_no_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    changes = [item(str(number), "right", 1) for number in range(8)]  # the hash of one in two grows by the edit
    table = make(spark, tmp_path, {day(1): changes})
    table.load(1)
    spark.sql(f"UPDATE {table.lake.sql_name(table.uri)} SET value = 'edited'").first()

    table.load(1)

    assert table.rows() == {(str(number), "right", 1) for number in range(8)}


def test_keys_a_microsecond_apart_are_two_keys_to_a_unique_value(spark: SparkSession, tmp_path: Path) -> None:
    stamps = ["2026-01-01T00:00:00.123456Z", "2026-01-01T00:00:00.123457Z"]
    table = make(
        spark,
        tmp_path,
        {day(1): [{"at": stamp, "value": "same", "seq": "1"} for stamp in stamps]},
        contract=Measurement,
        changes=Changes(keys="at", sequence_by="seq"),
        quarantine=Quarantine(max_share=1),
    )
    assert table.load(1).evidence.quarantined == 2
    assert table.rows() == set()


def test_a_row_equal_in_sequence_and_content_writes_nothing_and_an_unchanged_value_keeps_its_sequence(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(1): [item("k", "A", 10)],
        day(2): [item("k", "A", 10)],
        day(3): [item("k", "A", 20)],
        day(4): [item("k", "B", 15)],
    }
    table = make(spark, tmp_path, content)
    table.load(1)
    files = table.files()
    repeated = table.load(2)
    assert table.files() == files
    assert (repeated.evidence.applied, repeated.merged.inserted, repeated.merged.updated) == (1, 0, 0)
    table.load(3)
    assert table.load(4).evidence.stale == 1
    assert table.rows() == {("k", "A", 20)}
