"""Delta's state of the table is worked out beside the source's reading, and a load is the same without."""

from pathlib import Path
from time import monotonic, sleep

import pytest
from pyspark.sql import SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.load import load as loading
from tests.support.tables import day, item, make


def test_the_table_is_looked_at_once_a_landing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    look = loading._compute_state

    def looked(load: LoadContext) -> None:
        look(load)
        looks.append(load.uri)

    monkeypatch.setattr(loading, "_compute_state", looked)
    table = make(spark, tmp_path, {day(1): [item("1", "a", 1)]})
    report = table.load(1)
    end = monotonic() + 60
    while not looks and monotonic() < end:
        sleep(0.05)
    assert looks == [table.uri]
    table.replay(report)
    assert len(looks) == 1  # nothing was landed


def test_a_look_that_fails_is_no_matter_for_the_load(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, look = make(spark, tmp_path, {day(1): [item("1", "a", 1)]}), loading._compute_state
    nowhere = make(spark, tmp_path / "nowhere", name="nothing")
    away = LoadContext(spark, nowhere.table, nowhere.lake)
    monkeypatch.setattr(loading, "_compute_state", lambda _: look(away))
    table.load(1)
    assert table.rows() == {("1", "a", 1)}
