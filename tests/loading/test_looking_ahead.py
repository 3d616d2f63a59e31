"""Delta's states are worked out beside the source's reading, and a load is the same without."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.loading import looking_ahead
from incload_assets.loading.context import Context
from tests.loading.tables import day, item, make


def test_table_and_log_are_looked_at_once_a_landing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, look = [], looking_ahead._look
    monkeypatch.setattr(looking_ahead, "_look", lambda *of: (look(*of), looks.append(of[1:])))
    table = make(spark, tmp_path, {day(1): [item("1", "a", 1)]})
    report = table.load(1)
    assert looks == [(table.lake.log_uri(["items"]), "_window"), (table.uri, "id")]
    table.replay(report)
    assert len(looks) == 2  # nothing was landed


def test_a_look_that_fails_is_no_matter_for_the_load(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, look = make(spark, tmp_path, {day(1): [item("1", "a", 1)]}), looking_ahead._look
    monkeypatch.setattr(looking_ahead, "_look", lambda context, *_: look(context, f"{tmp_path}/nowhere", "id"))
    table.load(1)
    assert table.rows() == {("1", "a", 1)}


def test_an_error_of_the_landing_is_raised_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path)
    with (
        pytest.raises(ZeroDivisionError),
        looking_ahead.looking_ahead(Context(spark, table.table, table.lake)),
    ):
        raise ZeroDivisionError
