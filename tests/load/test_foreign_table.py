"""A Delta table with rows that no load has made: it is refused, because its rows are in no log."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, FullReload, Merge, Snapshot
from incload_assets.declaration.write import Write
from incload_assets.platform.errors import SchemaMismatch
from tests.support.tables import Loaded, item, make


def put(loaded: Loaded, rows: int) -> None:
    """Write a table as somebody else would."""
    columns = {"id": ["a", "b"], "value": ["1", "2"], "seq": [1, 2]}
    schema = pa.schema([("id", pa.string()), ("value", pa.string()), ("seq", pa.int64())])
    write_deltalake(loaded.uri, pa.table(columns, schema=schema).slice(0, rows))


@pytest.mark.parametrize("write", [Merge(), Append(), FullReload(), Snapshot()], ids=lambda write: type(write).__name__)
def test_its_rows_are_left_as_they_are_and_the_error_says_what_to_do(
    spark: SparkSession, tmp_path: Path, write: Write
) -> None:
    loaded = make(spark, tmp_path, write=write, changes=Changes(keys=["id"], sequence_by=["seq"]))
    put(loaded, 2)
    loaded.content["2026-01-01"] = [item("a", "new", 5)]
    with pytest.raises(SchemaMismatch) as refused:
        loaded.load(1)
    assert "2 rows" in str(refused.value) and "no load" in str(refused.value) and refused.value.remedy
    assert DeltaTable(loaded.uri).version() == 0
    assert loaded.lake.delta(loaded.lake.log_uri(loaded.table.key.path)) is None


def test_an_empty_table_that_somebody_has_created_is_filled(spark: SparkSession, tmp_path: Path) -> None:
    loaded = make(spark, tmp_path)
    put(loaded, 0)
    loaded.content["2026-01-01"] = [item("a", "new", 5)]
    assert loaded.load(1).merged.inserted == 1
