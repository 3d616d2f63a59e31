"""PostgreSQL, Debezium and Kafka as they are: tables kept from the events are the database's tables.

Random transactions with a snapshot before, an incremental one between, a killed Kafka Connect, a truncate and a new
column; then the topics are loaded in random windows and orders, from Kafka and from files, and every table is compared
with the database's own, read over JDBC. INCLOAD_TEST_EXAMPLES is the number of two thousands of transactions.
"""

import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pandera.pyspark as pa
import pyarrow
import pyspark.sql.types as T
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from incload_assets.assets import Debezium, Files, Merge
from incload_assets.declaration.source import Source
from incload_assets.platform.databases import POSTGRES
from incload_assets.platform.kafka import KafkaCluster
from incload_assets.sources.kafka.kafka import Kafka
from incload_assets.sources.kafka.topic import TopicMetadata
from incload_assets.sources.window_bounds import WindowBounds
from tests.integration.shop_database import TABLES, Shop
from tests.servers.connect import ConnectServer, running_connect
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer
from tests.support.tables import Loaded, day, make
from tests.writes.case import EXAMPLES

pytestmark = pytest.mark.integration

THOUSANDS = 2 * EXAMPLES
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
Rows = list[tuple[Any, ...]]
LAST = range(-20, 0)
"""Orders, and regions of the customer "last", that are inserted at the very end: some in each topic partition."""


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


class Customer(pa.DataFrameModel):
    """As in the database."""

    name: T.StringType = pa.Field(nullable=False)
    region: T.StringType = pa.Field(nullable=False)
    note: T.StringType = pa.Field(nullable=True)
    credit: T.DecimalType(20, 6) = pa.Field(nullable=True)  # type: ignore[valid-type]
    born: T.DateType = pa.Field(nullable=True)
    clock: T.StringType = pa.Field(nullable=True)
    joined: T.TimestampType = pa.Field(nullable=True)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


DECLARED: dict[str, tuple[type, dict[str, Any]]] = {
    "orders": (Order, {"keys": ["id"], "decimals": "precise", "encodings": {"placed_at": "timestamp[ms]"}}),
    "customers": (Customer, {"keys": ["name", "region"], "replica_identity": "full"}),
}


@dataclass(frozen=True)
class Stream:
    """A database, and the messages that say what it holds at the end: partition, offset, value, by table."""

    database: str
    messages: dict[str, list[tuple[int, int, str | None]]]
    topics: dict[str, str]
    random: random.Random


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
        wait_for_offsets(own.server, name)
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


def wait_for_offsets(server: ConnectServer, name: str) -> None:
    """Until it is written down that the connectors stream: before, a killed one would take its snapshot again."""
    for table in DECLARED:
        for _ in range(300):
            if any("lsn_commit" in offset for offset in server.offsets(f"{name}_{table}")):
                break
            sleep(0.1)
        else:
            raise AssertionError(f"the connector of {table} does not stream")


def consumed(kafka: KafkaServer, topic: str) -> Iterator[tuple[int, int, str | None]]:
    """All messages: in each topic partition those of the last rows come last."""
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    deadline, last = monotonic() + 200, set[tuple[int, bytes]]()
    while len(last) < len(LAST):
        assert monotonic() < deadline, f"{topic}: the last rows do not come"
        message = consumer.poll(0.5)
        if message is None:
            continue
        assert not message.error(), message.error()
        key, value = message.key() or b"", message.value()
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        if b'"last"' in key or b'{"id":-' in key:
            last.add((partition, key))
        yield partition, offset, None if value is None else value.decode()
    assert {partition for partition, _ in last} == {0, 1}
    consumer.close()


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
    return comparable(spark.read.format("jdbc").options(**options).load().toArrow())


def comparable(rows: pyarrow.Table) -> Rows:
    """Rows in one order, their values as text, so that database and lake spell them alike."""
    return sorted((_comparable(tuple(row.values())) for row in rows.to_pylist()), key=repr)


def _comparable(row: Sequence[Any]) -> tuple[Any, ...]:

    def text(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC).isoformat(timespec="microseconds")
        if isinstance(value, Decimal):
            return f"{value:f}".rstrip("0").rstrip(".") if "." in f"{value:f}" else f"{value:f}"
        if isinstance(value, str) and value.startswith("{"):
            return text(json.loads(value))
        if isinstance(value, dict):
            return json.dumps(value, sort_keys=True)
        return value if value is None or isinstance(value, int | list | bytes | date) else str(value)

    return tuple(map(text, row))


def loaded(spark: SparkSession, folder: Path, table: str, source: Source, *others: str) -> Loaded:
    contract, options = DECLARED[table]
    events = Debezium(source, table=f"public.{table}", other_tables=others, **options)
    return make(
        spark, folder, source=events, contract=contract, changes=events.changes(), write=Merge(), name=table
    )  # fmt: skip


def check(kept: Loaded, expected: Rows, windows: list[int], records: int) -> None:
    """Load the windows; every record is counted, and the table is the database's."""
    evidence = [kept.load(window).evidence for window in windows]
    assert sum(proof.rows_read for proof in evidence) == records
    assert sum(proof.quarantined for proof in evidence) == 0, kept.log("rejected", "_reasons")[:3]
    delta = kept.lake.delta(kept.uri)
    assert delta is not None and len(expected) > len(LAST)
    found = comparable(delta.to_pyarrow_table(columns=list(kept.table.columns[:-1])))
    surplus, missing = [row for row in found if row not in expected], [row for row in expected if row not in found]
    assert surplus == missing, f"seed {os.environ['INCLOAD_TEST_SEED']}, windows loaded in the order {windows}"
    assert found == expected
    assert bool(kept.log("moved", "cdc_sequence")) == (kept.table.name == "orders")  # customers tell the whole row


def test_tables_kept_from_topics_are_the_databases(
    spark: SparkSession,
    kafka: KafkaServer,
    postgres: PostgresServer,
    stream: Stream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", kafka.servers)
    monkeypatch.setattr("incload_assets.declaration.window.now", lambda: FIRST.replace(month=2))
    for table, windows in {"orders": [1, 2, 3], "customers": [1, 2]}.items():
        kept = loaded(spark, tmp_path, table, Kafka("shop", stream.topics[table]))
        counts = {p: sum(1 for message in stream.messages[table] if message[0] == p) for p in (0, 1)}
        inner = {p: sorted(stream.random.choices(range(n + 1), k=len(windows) - 1)) for p, n in counts.items()}
        ends = [{str(p): [0, *inner[p], n][i] for p, n in counts.items()} for i in range(len(windows) + 1)]
        look = TopicMetadata(table, KafkaCluster.named("shop"), stream.topics[table]).identity
        cuts = {
            FIRST.replace(day=1 + i): {"cluster": look.cluster, "topic": look.topic, "offsets": end}
            for i, end in enumerate(ends)
        }
        WindowBounds(kept.lake, table).at(list(cuts), lambda missing, known, cuts=cuts: cuts)
        stream.random.shuffle(windows)
        expected = content(spark, postgres, stream.database, table)
        check(kept, expected, windows, len(stream.messages[table]))


def test_tables_kept_from_files_are_the_databases(
    spark: SparkSession, postgres: PostgresServer, stream: Stream, tmp_path: Path
) -> None:
    """The files hold the events of all tables, and some windows those of one table only."""
    values = [value for messages in stream.messages.values() for _, _, value in messages]
    windows = [1, 2]
    ends = [0, stream.random.randrange(len(values) + 1), len(values)]
    for window, (begin, end) in zip(windows, pairwise(ends), strict=True):
        path = tmp_path / "landing" / day(window) / "events.json"
        path.parent.mkdir(parents=True)
        path.write_text("".join(f"{value or 'null'}\n" for value in values[begin:end]))
    for table in DECLARED:
        others = [f"public.{other}" for other in DECLARED if other != table]
        kept = loaded(spark, tmp_path, table, Files(f"{tmp_path}/landing/{{window:%Y-%m-%d}}/*.json"), *others)
        stream.random.shuffle(windows)
        check(kept, content(spark, postgres, stream.database, table), windows, len(values))
