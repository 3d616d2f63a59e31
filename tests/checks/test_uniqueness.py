"""Uniqueness: across all partitions of the whole table."""

from pathlib import Path

import dagster as dg
from pyspark.sql import SparkSession

from incload_assets.checks.uniqueness import uniqueness
from incload_assets.platform.settings import Settings
from tests.support.guest_table import guest, house, key


def test_a_key_in_two_partitions_and_a_value_under_two_keys_are_found(
    tmp_path: Path, spark: SparkSession, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        assert uniqueness(spark, h.table, h.lake).description == "The table does not exist yet."
        h.deliver(1, guest("1", "Ada", day=1), guest("2", "Emmy", day=1))
        assert h.load(1) == [True]
        fine = uniqueness(spark, h.table, h.lake)
        assert (fine.passed, fine.description) == (True, "2 rows, no key twice.")
        h.deliver(2, guest("1", "Grace", day=2), guest("3", "Emmy", day=2))
        assert h.load(2) == [True]
        broken = uniqueness(spark, h.table, h.lake)
        assert (broken.passed, broken.severity) == (False, dg.AssetCheckSeverity.ERROR)
        numbers = ("rows", "key_repeated", "key_rows_affected", "unique_repeated", "unique_rows_affected")
        assert [broken.metadata[name].value for name in numbers] == [4, 1, 2, 1, 2]
        assert broken.description is not None
        assert broken.description.startswith("Not unique: 1 value of (id) in 2 rows; 1 value of (name) in 2 rows.")
        places = f"{key(1)}, {key(2)}"
        samples = [broken.metadata["key_sample"], broken.metadata["unique_sample"]]
        assert [[dict(r.data) for r in s.records] for s in samples if isinstance(s, dg.TableMetadataValue)] == [
            [{"id": "1", "rows": 2, "values of day": places}],
            [{"name": "***", "rows": 2, "values of day": places}],
        ]
