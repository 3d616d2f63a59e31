"""PostgreSQL, Debezium and Kafka as they are: tables kept from the events are the database's tables.

Random transactions with a snapshot before, an incremental one between, a killed Kafka Connect, a truncate and a new
column; then the topics are loaded in random windows and orders, from Kafka and from files, and every table is compared
with the database's own, read over JDBC. INCLOAD_TEST_EXAMPLES is the number of two thousands of transactions.
"""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Debezium, Files, Merge
from incload_assets.declaration.source import Source
from incload_assets.platform.databases import POSTGRES
from incload_assets.sources.kafka.kafka import Kafka
from tests.integration.change_streams import (
    LAST,
    THOUSANDS,
    Customer,
    Rows,
    Stream,
    check,
    comparable,
    consumed,
    cut_topic,
    wait_for_offsets,
    write_files,
)
from tests.integration.shop_database import TABLES, Shop
from tests.servers.connect import ConnectServer, running_connect
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer
from tests.support.tables import Loaded, make

pytestmark = pytest.mark.integration


class Order(pa.DataFrameModel):
    """As in the database, with the column that is added."""

    id: T.LongType = pa.Field(nullable=False)
    status: T.StringType = pa.Field(nullable=False)
    amount: T.DecimalType(12, 2) = pa.Field(nullable=True)  # type: ignore[valid-type]
    placed_at: T.TimestampType = pa.Field(nullable=True)
    changed_at: T.TimestampType = pa.Field(nullable=True)
    seen_at: T.TimestampType = pa.Field(nullable=True)
    due: T.DateType = pa.Field(nullable=True)
    body: T.StringType = pa.Field(nullable=True)
    tags: T.ArrayType(T.StringType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    numbers: T.ArrayType(T.LongType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    doc: T.StringType = pa.Field(nullable=True)
    code: T.StringType = pa.Field(nullable=True)
    data: T.BinaryType = pa.Field(nullable=True)
    extra: T.IntegerType = pa.Field(nullable=True)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


DECLARED: dict[str, tuple[type, dict[str, Any]]] = {
    "orders": (Order, {"keys": ["id"], "decimals": "precise", "encodings": {"placed_at": "timestamp[ms]"}}),
    "customers": (Customer, {"keys": ["name", "region"], "replica_identity": "full"}),
}


@pytest.fixture(scope="module")
def stream(kafka: KafkaServer, postgres: PostgresServer) -> Iterator[Stream]:
    """The whole story, told once."""
    chance = random.Random(f"{os.environ['INCLOAD_TEST_SEED']} debezium")
    name = f"cdc_{chance.getrandbits(40):x}"
    postgres.database(name, *TABLES)
    with postgres.connect(name, autocommit=True) as connection, running_connect(kafka) as own:
        shop = Shop(chance, connection)
        shop.run(100)
        start(own.server, postgres, name)
        shop.run(300 * THOUSANDS)
        connectors = [f"{name}_{table}" for table in DECLARED]
        wait_for_offsets(own.server, connectors, lambda offset: "lsn_commit" in offset)
        shop.truncate_customers()
        shop.run(100 * THOUSANDS)
        own.kill()
        shop.add_column()
        shop.run(200 * THOUSANDS)
        own.start()
        start(own.server, postgres, name)
        shop.run(100 * THOUSANDS)
        for table in DECLARED:
            wanted = {"data-collections": [f"public.{table}"], "type": "incremental"}
            signal = (f"{table}-again", "execute-snapshot", json.dumps(wanted))
            connection.execute("INSERT INTO signals VALUES (%s, %s, %s)", signal)
        shop.run(300 * THOUSANDS)
        for number in LAST:
            connection.execute("INSERT INTO orders (id, status) VALUES (%s, 'last')", (number,))
            connection.execute("INSERT INTO customers (name, region) VALUES ('last', %s)", (str(number),))
        topics = {table: f"{name}_{table}.public.{table}" for table in DECLARED}
        messages = {table: list(consumed(kafka, topic)) for table, topic in topics.items()}
    yield Stream(name, messages, topics, chance)
    for table in DECLARED:
        postgres.run(name, f"SELECT pg_drop_replication_slot('{name}_{table}')")


def start(server: ConnectServer, postgres: PostgresServer, name: str) -> None:
    """A connector for each table, one with schemas and one without."""
    for table in DECLARED:
        with_schemas = "true" if table == "customers" else "false"
        server.start_debezium(
            postgres,
            name,
            f"{name}_{table}",
            f"public.{table},public.signals",
            skipped_operations="none",
            signal_data_collection="public.signals",
            incremental_snapshot_chunk_size="40",
            topic_creation_default_partitions="2",
            value_converter="org.apache.kafka.connect.json.JsonConverter",
            value_converter_schemas_enable=with_schemas,
        )


def content(spark: SparkSession, postgres: PostgresServer, name: str, table: str) -> Rows:
    """The database's own rows, comparable, over JDBC; times of day as text, for its driver cuts their microseconds."""
    names = ", ".join(DECLARED[table][0].to_schema().columns).removesuffix(", cdc_sequence")
    names = names.replace("clock", "to_char(clock, 'HH24:MI:SS.US') AS clock")
    options = {
        "url": f"jdbc:postgresql://{postgres.host}:{postgres.port}/{name}",
        "driver": POSTGRES.driver,
        "user": postgres.user,
        "password": postgres.password,
        "preferTimestampNTZ": "true",
        "query": f"SELECT {names} FROM {table}",
    }
    rows = spark.read.format("jdbc").options(**options).load().toArrow().to_pylist()
    return comparable(tuple(row.values()) for row in rows)


def loaded(spark: SparkSession, folder: Path, table: str, source: Source, *others: str) -> Loaded:
    contract, options = DECLARED[table]
    events = Debezium(source, table=f"public.{table}", other_tables=others, **options)
    return make(
        spark, folder, source=events, contract=contract, changes=events.changes(), write=Merge(), name=table
    )  # fmt: skip


def check_moves(kept: Loaded) -> None:
    """Rows of orders that got a new key had values that their events lacked; customers tell the whole row."""
    assert bool(kept.log("moved", "cdc_sequence")) == (kept.table.name == "orders")


def test_tables_kept_from_topics_are_the_databases(
    spark: SparkSession,
    kafka: KafkaServer,
    postgres: PostgresServer,
    stream: Stream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", kafka.servers)
    for table, windows in {"orders": [1, 2, 3], "customers": [1, 2]}.items():
        kept = loaded(spark, tmp_path, table, Kafka("shop", stream.topics[table]))
        cut_topic(stream, kept, windows, monkeypatch)
        stream.random.shuffle(windows)
        check(kept, content(spark, postgres, stream.database, table), windows, len(stream.messages[table]))
        check_moves(kept)


def test_tables_kept_from_files_are_the_databases(
    spark: SparkSession, postgres: PostgresServer, stream: Stream, tmp_path: Path
) -> None:
    """The files hold the events of all tables, and some windows those of one table only."""
    windows = [1, 2]
    records = write_files(stream, tmp_path, windows)
    for table in DECLARED:
        others = [f"public.{other}" for other in DECLARED if other != table]
        kept = loaded(spark, tmp_path, table, Files(f"{tmp_path}/landing/{{window:%Y-%m-%d}}/*.json"), *others)
        stream.random.shuffle(windows)
        check(kept, content(spark, postgres, stream.database, table), windows, records)
        check_moves(kept)
