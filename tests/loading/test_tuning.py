"""Sessions are set for what a load reads, and set back."""

from pathlib import Path

from pyspark.sql import SparkSession

from incload_assets.loading.tuning import SMALL, SMALL_CHANGE_BYTES, tune_landing
from tests.loading.tables import make


def test_after_a_small_load_a_large_one_has_the_settings_of_the_server(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.cloneSession()
    own = {name: session.conf.get(name) for name in SMALL}
    assert own["spark.sql.shuffle.partitions"] not in (SMALL["spark.sql.shuffle.partitions"], "200")
    loaded = make(session, tmp_path, {"2026-01-01": []})
    loaded.load(1)
    assert {name: session.conf.get(name) for name in SMALL} == SMALL
    log = loaded.lake.delta(loaded.lake.log_uri(loaded.table.key.path))
    assert log is not None
    tune_landing(session, log, [], SMALL_CHANGE_BYTES + 1)
    assert {name: session.conf.get(name) for name in SMALL} == own
