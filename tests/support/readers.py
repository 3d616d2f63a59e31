"""What others than Spark read in a table.

DuckDB's own reader of Delta tables is downloaded when it is first used. So it reads the data files that deltalake
lists, which is where it could differ; which files these are, and of which partition, deltalake says.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incload_assets.platform.lake import data_files


def held(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> Counter[str]:
    """Rows as something that can be counted and compared."""
    names = sorted(names)
    return Counter(repr([row.get(name) for name in names]) for row in rows)


def of_spark(spark: SparkSession, uri: str) -> pa.Table:
    """The whole table as Spark reads it."""
    return spark.read.format("delta").load(uri).toArrow()


def check_alike(spark: SparkSession, uri: str) -> None:
    """Make sure that a table is to deltalake, pyarrow and DuckDB what it is to Spark; instants to the microsecond.

    Raises:
        AssertionError: One of them reads something else.
    """
    delta = DeltaTable(uri)
    read = of_spark(spark, uri)
    right = _in_utc(read, read.schema)
    stored = [name for name in right.schema.names if name not in delta.metadata().partition_columns]
    files = [f"{uri}/{unquote(path)}" for path in data_files(delta)["path"].to_pylist()]
    check_deltalake(uri, right)
    readers: Mapping[str, Callable[[str], pa.Table]] = {"pyarrow": _by_pyarrow, "duckdb": _by_duckdb}
    for name, reader in readers.items():
        found = sum((held(_in_utc(reader(file), right.schema).to_pylist(), stored) for file in files), Counter[str]())
        assert found == held(right.to_pylist(), stored), f"{name} reads {uri} otherwise"


def check_deltalake(uri: str, right: pa.Table) -> None:
    """Make sure that a table is to deltalake what it is to Spark.

    Raises:
        AssertionError: It is something else.
    """
    found = held(DeltaTable(uri).to_pyarrow_table().to_pylist(), right.schema.names)
    assert found == held(right.to_pylist(), right.schema.names), f"deltalake reads {uri} otherwise"


def _by_pyarrow(file: str) -> pa.Table:
    return pq.read_table(file, partitioning=None)


def _by_duckdb(file: str) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows = connection.sql("SELECT * FROM read_parquet(?, hive_partitioning = false)", params=[file])
        return rows.to_arrow_table()


def _in_utc(rows: pa.Table, right: pa.Schema) -> pa.Table:
    """Instants in one zone: each reader names it otherwise, and none where they are INT96."""
    for index, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and right.field(field.name).type.tz:
            rows = rows.set_column(index, field.name, rows[index].cast(pa.timestamp("us", "UTC")))
    return rows
