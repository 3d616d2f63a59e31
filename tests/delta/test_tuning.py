"""Sessions are set for what a load reads, and set back."""

from pathlib import Path

from incload_assets.delta.tuning import (
    SMALL,
    SMALL_CHANGE_BYTES,
    SMALL_CHANGE_ROWS,
    SMALL_CHANGE_TEXT,
    UNSORTED,
    tune_ingest,
    tune_merge,
)
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from tests.support.tables import day, item, make


def test_after_a_small_load_a_large_one_has_the_settings_of_the_server(spark_url: str, tmp_path: Path) -> None:
    with open_session(Settings(spark=spark_url)) as spark:
        own = {name: spark.conf.get(name) for name in (*SMALL, *UNSORTED)}
        assert own["spark.sql.shuffle.partitions"] not in (SMALL["spark.sql.shuffle.partitions"], "200")  # Spark's own
        loaded = make(spark, tmp_path, {day(1): [item("1", "a", 1)], day(2): [item("1", "b", 2)]})
        loaded.load(1)
        assert {name: spark.conf.get(name) for name in own} == own | SMALL
        log = loaded.lake.delta(loaded.lake.log_uri(loaded.table.key.path))
        assert log is not None
        tune_ingest(spark, log, [], SMALL_CHANGE_BYTES + 1)
        assert {name: spark.conf.get(name) for name in own} == own
        for many, long in ((SMALL_CHANGE_ROWS + 1, 0), (1, SMALL_CHANGE_TEXT + 1)):
            tune_merge(spark, many, long)
            assert {name: spark.conf.get(name) for name in own} == own
        tune_merge(spark, SMALL_CHANGE_ROWS, SMALL_CHANGE_TEXT)
        assert {name: spark.conf.get(name) for name in own} == own | UNSORTED
        loaded.load(2)
        assert {name: spark.conf.get(name) for name in own} == own | SMALL


def test_what_a_merge_names_in_its_session_is_nameless_afterwards(spark_url: str, tmp_path: Path) -> None:
    with open_session(Settings(spark=spark_url)) as spark:
        loaded = make(spark, tmp_path, {day(1): [item("1", "a", 1)]})
        assert loaded.load(1).merged.inserted == 1
        assert spark.catalog.listTables() == []
