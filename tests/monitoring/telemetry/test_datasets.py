"""Names of datasets, by OpenLineage's conventions."""

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame

from incload_assets.assets import Append, Changes, Files, Kafka, QueryById, Source, incremental_asset
from incload_assets.assets.incremental import table_of
from incload_assets.monitoring.telemetry.datasets import DatasetName, source_datasets, table_dataset
from incload_assets.platform.lake import Lake


class Row(pa.DataFrameModel):
    """A row."""

    id: T.LongType = pa.Field(nullable=False)


def names(source: Source) -> list[tuple[str, str]]:
    @incremental_asset(
        partitions_def=dg.DailyPartitionsDefinition("2026-01-01"),
        source=source,
        contract=Row,
        changes=Changes(keys=["id"]),
        write=Append(),
        code_version="1",
        key_prefix="bank",
    )
    def rows(changes: DataFrame) -> DataFrame:
        return changes

    table = table_of(rows)
    assert table is not None
    assert table_dataset(table, Lake("/data/lake")) == DatasetName("file", "/data/lake/bank/rows")
    return [(found.namespace, found.name) for found in source_datasets(table, Lake("/data/lake"))]


def test_files_are_the_folder_of_all_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", "s3://landing/in")
    assert names(Files("{landing}/rows/{window:%Y-%m-%d}/*.json")) == [("s3://landing", "in/rows")]
    assert names(Files("/data/rows/all-{window:%Y-%m-%d}.csv")) == [("file", "/data/rows")]


def test_a_database_table_is_named_by_its_server_and_without_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    source = QueryById("bank", "rows", id="id")
    assert names(source) == [("postgres://bank:5432", "bank.public.rows")]
    monkeypatch.setenv("INCLOAD_DATABASE_BANK_URL", "postgresql://db.example:5433/books")
    monkeypatch.setenv("INCLOAD_DATABASE_BANK_USER", "reader")
    monkeypatch.setenv("INCLOAD_DATABASE_BANK_PASSWORD", "secret")
    assert names(source) == [("postgres://db.example:5433", "books.public.rows")]
    monkeypatch.setenv("INCLOAD_DATABASE_BANK_URL", "mariadb://db.example/books")
    assert names(source) == [("mysql://db.example:3306", "books.rows")]
    assert names(QueryById("bank", "other.rows", id="id")) == [("mysql://db.example:3306", "other.rows")]


def test_a_topic_is_named_by_the_first_server(monkeypatch: pytest.MonkeyPatch) -> None:
    assert names(Kafka("bank", "rows")) == [("kafka://bank:9092", "rows")]
    monkeypatch.setenv("INCLOAD_KAFKA_BANK_SERVERS", "one.example:9093,two.example:9093")
    assert names(Kafka("bank", "rows")) == [("kafka://one.example:9093", "rows")]
