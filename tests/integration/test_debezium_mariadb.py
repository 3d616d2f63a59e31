"""MariaDB, Debezium and Kafka as they are: tables kept from the events are the database's tables.

Random transactions with a snapshot before, an incremental one between, a killed Kafka Connect, a truncate, a new column
and a new file of the binary log; then the topics are loaded in random windows and orders, from Kafka and from files,
and every table is compared with the database's own. INCLOAD_TEST_EXAMPLES is the number of two thousands of
transactions.
"""

import json
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql import SparkSession

from incload_assets.assets import Debezium, Files, Merge, Several
from incload_assets.declaration.source import Source
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
from tests.integration.shop_of_mariadb import TABLES, MariadbShop
from tests.servers.connect import ConnectServer, running_connect
from tests.servers.kafka import KafkaServer
from tests.servers.mariadb import MariadbServer, running_mariadb
from tests.sources.debezium.test_debezium import table as of_orders
from tests.sources.debezium.test_debezium import validated, write
from tests.support.tables import Loaded, day, make

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
    flag: T.IntegerType = pa.Field(nullable=True)
    counted: T.DecimalType(20, 0) = pa.Field(nullable=True)  # type: ignore[valid-type]
    bits: T.BinaryType = pa.Field(nullable=True)
    kind: T.StringType = pa.Field(nullable=True)
    kinds: T.StringType = pa.Field(nullable=True)
    body: T.StringType = pa.Field(nullable=True)
    doc: T.StringType = pa.Field(nullable=True)
    data: T.BinaryType = pa.Field(nullable=True)
    extra: T.IntegerType = pa.Field(nullable=True)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


ENCODINGS = {"changed_at": "timestamp[us]", "counted": "unsigned"}
DECLARED: dict[str, tuple[type, dict[str, Any]]] = {
    "orders": (Order, {"keys": ["id"], "decimals": "precise", "encodings": ENCODINGS}),
    "customers": (Customer, {"keys": ["name", "region"]}),
}


@pytest.fixture(scope="module")
def stream(kafka: KafkaServer, mariadb: MariadbServer) -> Iterator[Stream]:
    """The whole story, told once."""
    chance = random.Random(f"{os.environ['INCLOAD_TEST_SEED']} debezium of mariadb")
    name = f"cdc_{chance.getrandbits(40):x}"
    mariadb.database(name, *TABLES)
    utc = {"autocommit": True, "init_command": "SET time_zone = '+00:00'"}
    with mariadb.connect(name, **utc) as connection, running_connect(kafka) as own:
        shop = MariadbShop(chance, connection)
        shop.run(100)
        start(own.server, mariadb, kafka, name)
        shop.run(300 * THOUSANDS)
        connectors = [f"{name}_{table}" for table in DECLARED]
        wait_for_offsets(own.server, connectors, lambda offset: "server_id" in offset)
        shop.truncate_customers()
        shop.run(100 * THOUSANDS)
        own.kill()
        shop.add_column()
        shop.rotate()
        shop.run(200 * THOUSANDS)
        own.start()
        start(own.server, mariadb, kafka, name)
        shop.run(100 * THOUSANDS)
        for table in DECLARED:
            wanted = {"data-collections": [f"{name}.{table}"], "type": "incremental"}
            signal = f"('{table}-again', 'execute-snapshot', '{json.dumps(wanted)}')"
            mariadb.run(name, f"INSERT INTO signals VALUES {signal}")
        shop.run(200 * THOUSANDS)
        extract = extracted(mariadb, name)
        own.server.restart(connectors[0])
        shop.run(100 * THOUSANDS)
        mariadb.run(
            name,
            *(f"INSERT INTO orders (id, status) VALUES ({number}, 'last')" for number in LAST),
            *(f"INSERT INTO customers (name, region) VALUES ('last', '{number}')" for number in LAST),
        )
        topics = {table: f"{name}_{table}.{name}.{table}" for table in DECLARED}
        messages = {table: list(consumed(kafka, topic)) for table, topic in topics.items()}
        yield Stream(name, messages, topics, chance, extract)


def start(server: ConnectServer, mariadb: MariadbServer, kafka: KafkaServer, name: str) -> None:
    """A connector for each table, one with schemas and one without."""
    for table in DECLARED:
        server.start_debezium_of_mariadb(
            mariadb,
            kafka,
            f"{name}_{table}",
            f"{name}.{table},{name}.signals",
            skipped_operations="none",
            enable_time_adjuster="false",  # else the year 52 is 2052
            signal_data_collection=f"{name}.signals",
            incremental_snapshot_chunk_size="40",
            topic_creation_default_partitions="2",
            value_converter="org.apache.kafka.connect.json.JsonConverter",
            value_converter_schemas_enable="true" if table == "customers" else "false",
        )


def extracted(mariadb: MariadbServer, name: str) -> list[dict[str, Any]]:
    """The orders as of one position of the binary log, which is their sequence."""
    with mariadb.connect(name) as connection, connection.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
        status = {variable.lower(): value for variable, value in cursor.fetchall()}
        cursor.execute("SELECT id, status, amount FROM orders")
        rows = list(cursor.fetchall())
    file, position = status["binlog_snapshot_file"].rpartition(".")[2], status["binlog_snapshot_position"]
    sequence = f"0000/{int(file):010d}/{int(position):020d}/{0:010d}"
    return [{"id": id, "status": of, "amount": f"{amount}" if amount is not None else None, "cdc_sequence": sequence}
            for id, of, amount in rows]  # fmt: skip


def content(mariadb: MariadbServer, name: str, table: str) -> Rows:
    """The database's own rows, comparable; bits as Debezium writes them, the lowest byte first."""
    names = list(DECLARED[table][0].to_schema().columns)[:-1]
    with mariadb.connect(name, init_command="SET time_zone = '+00:00'") as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(names)} FROM {table}")
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    for row in rows:
        if row.get("bits") is not None:
            row["bits"] = row["bits"][::-1]
        if row.get("counted") is not None:
            row["counted"] = Decimal(row["counted"])
        if row.get("clock") is not None:
            row["clock"] = clock(row["clock"])
    return comparable(tuple(row.values()) for row in rows)


def clock(time: timedelta) -> str:
    """A time as MariaDB spells it."""
    micros = abs(time) // timedelta(microseconds=1)
    hours, rest = divmod(micros, 3_600_000_000)
    sign = "-" if time < timedelta(0) else ""
    return f"{sign}{hours:02d}:{rest // 60_000_000:02d}:{rest % 60_000_000 / 10**6:09.6f}"


def loaded(
    spark: SparkSession, folder: Path, stream: Stream, table: str, source: Source, others: tuple[str, ...] = ()
) -> Loaded:
    contract, options = DECLARED[table]
    logs = [f"{stream.database}_{of}/binlog/1" for of in (DECLARED if others else [table])]
    events = Debezium(
        source, table=f"{stream.database}.{table}", connector="mariadb", logs=logs, other_tables=others, **options
    )
    return make(
        spark, folder, source=events, contract=contract, changes=events.changes(), write=Merge(), name=table
    )  # fmt: skip


def test_tables_kept_from_topics_are_the_databases(
    spark: SparkSession,
    kafka: KafkaServer,
    mariadb: MariadbServer,
    stream: Stream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", kafka.servers)
    for table, windows in {"orders": [1, 2, 3], "customers": [1, 2]}.items():
        kept = loaded(spark, tmp_path, stream, table, Kafka("shop", stream.topics[table]))
        cut_topic(stream, kept, windows, monkeypatch)
        stream.random.shuffle(windows)
        check(kept, content(mariadb, stream.database, table), windows, len(stream.messages[table]))


def test_tables_kept_from_files_are_the_databases(
    spark: SparkSession, mariadb: MariadbServer, stream: Stream, tmp_path: Path
) -> None:
    """The files hold the events of all tables, and some windows those of one table only."""
    windows = [1, 2]
    records = write_files(stream, tmp_path, windows)
    for table in DECLARED:
        others = tuple(f"{stream.database}.{other}" for other in DECLARED if other != table)
        source = Files(f"{tmp_path}/landing/{{window:%Y-%m-%d}}/*.json")
        kept = loaded(spark, tmp_path, stream, table, source, others)
        stream.random.shuffle(windows)
        check(kept, content(mariadb, stream.database, table), windows, records)


class OrderInShort(pa.DataFrameModel):
    """Some columns of an order."""

    id: T.LongType = pa.Field(nullable=False)
    status: T.StringType = pa.Field(nullable=False)
    amount: T.DecimalType(12, 2) = pa.Field(nullable=True)  # type: ignore[valid-type]
    cdc_sequence: T.StringType = pa.Field(nullable=False)


def test_an_extract_and_only_the_changes_after_it_are_the_database(
    spark: SparkSession, mariadb: MariadbServer, stream: Stream, tmp_path: Path
) -> None:
    since = stream.extract[0]["cdc_sequence"].rpartition("/")[0]
    later = [message for message in stream.messages["orders"] if message[2] and position(message[2]) >= since]
    assert 0 < len(later) < len(stream.messages["orders"])
    windows = [1, 2]
    write_files(replace(stream, messages={"orders": later}), tmp_path, windows)
    full = tmp_path / "full" / day(1) / "rows.json"
    full.parent.mkdir(parents=True)
    full.write_text("".join(f"{json.dumps(row)}\n" for row in stream.extract))
    events = Debezium(
        Files(f"{tmp_path}/landing/{{window:%Y-%m-%d}}/*.json"), table=f"{stream.database}.orders", keys=["id"],
        connector="mariadb", logs=[f"{stream.database}_orders/binlog/1"], decimals="precise",
    )  # fmt: skip
    extracts = Files(f"{tmp_path}/full/{{window:%Y-%m-%d}}/*.json", absent="empty")
    changes = replace(events.changes(truncates=False), snapshot_when="source_name = 'full'")
    kept = make(
        spark, tmp_path, source=Several({"full": extracts, "changes": events}), contract=OrderInShort, changes=changes,
        write=Merge(), name="orders",
    )  # fmt: skip
    stream.random.shuffle(windows)
    for window in windows:
        kept.load(window)
    assert kept.log("rejected", "_reasons") == []
    assert kept.rows("id", "status", "amount") == set(
        mariadb.rows(stream.database, "SELECT id, status, amount FROM orders")
    )


def position(value: str) -> str:
    """The position of an event without its row, as in a sequence."""
    source = json.loads(value)["source"]
    return f"0000/{int(source['file'].rpartition('.')[2]):010d}/{source['pos']:020d}"


def test_after_a_failover_the_other_servers_log_is_quarantined_until_it_is_declared(
    spark: SparkSession, kafka: KafkaServer, tmp_path: Path
) -> None:
    """The replica has a log of its own, whose files have lower numbers; the connector finds its place by GTID."""
    name, table = f"failover_{random.randrange(10**9)}", "CREATE TABLE orders (id bigint PRIMARY KEY, status text)"
    with (
        running_mariadb("server_id = 21", "log_bin = first") as first,
        running_mariadb("server_id = 22", "log_bin = second", "log_slave_updates") as second,
        running_connect(kafka) as own,
    ):
        for server in (first, second):
            server.run(None, "RESET MASTER")
        second.run(
            None,
            f"CHANGE MASTER TO MASTER_HOST = '{first.host}', MASTER_PORT = {first.port}, MASTER_USER = '{first.user}', "
            f"MASTER_PASSWORD = '{first.password}', MASTER_USE_GTID = slave_pos",
            "START SLAVE",
        )
        first.database("shop", table, "INSERT INTO orders VALUES (1, 'new'), (2, 'new')", "FLUSH BINARY LOGS")
        options = {"skipped_operations": "none", "topic_creation_default_partitions": "1"}
        own.server.start_debezium_of_mariadb(first, kafka, name, "shop.orders", **options)
        wait_for_offsets(own.server, [name], lambda offset: "snapshot" not in offset)
        first.run("shop", "UPDATE orders SET status = 'paid'", "INSERT INTO orders VALUES (3, 'new')")
        of_first = messages(kafka, f"{name}.shop.orders", 5)
        replicated = first.rows("shop", "SELECT @@gtid_binlog_pos")[0][0]
        assert second.rows("mysql", f"SELECT MASTER_GTID_WAIT('{replicated}', 60)") == [(0,)]
        first.stop(kill=True)
        second.run(None, "STOP SLAVE")
        # connector 3.5 refuses a server that has already written transactions of its own
        own.server.start_debezium_of_mariadb(second, kafka, name, "shop.orders", **options)
        second.run("shop", "UPDATE orders SET status = 'sent'", "DELETE FROM orders WHERE id = 2")
        second.run("shop", "INSERT INTO orders VALUES (4, 'new')")
        values = messages(kafka, f"{name}.shop.orders", len(of_first) + 6)
        expected = set(second.rows("shop", "SELECT id, status FROM orders"))
    logs = [f"{name}/first/21", f"{name}/second/21,22"]
    write(tmp_path, 1, *map(json.loads, values))
    assert {json.loads(value)["source"]["file"] for value in values if value != "null"} == {
        "first.000002", "second.000001"
    }  # fmt: skip
    known, before = (
        of_orders(spark, tmp_path, of, connector="mariadb", table="shop.orders", logs=logs[:count])
        for of, count in (("after", 2), ("before", 1))
    )
    reasons = {reason for [*some] in (row[0] for row in validated(before, "_reasons")) for reason in some}
    assert [reason.partition(",")[0] for reason in reasons if "order" in reason] == [
        f"source names the binary log '{name}/second/22'"
    ]
    known.load(1)
    assert known.rows("id", "status") == expected == {(1, "sent"), (3, "sent"), (4, "new")}


def messages(kafka: KafkaServer, topic: str, count: int) -> list[str]:
    """The values of so many messages of a topic, and of what comes with them."""
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": topic, "enable.auto.commit": False})
    found: list[str] = []
    deadline = monotonic() + 120
    while len(found) < count:
        assert monotonic() < deadline, f"{topic}: {len(found)} messages"
        with suppress(KafkaException):  # the topic may not be there yet
            consumer.assign([TopicPartition(topic, 0, len(found))])
            for message in consumer.consume(100, 2):
                if not message.error():
                    found.append((message.value() or b"null").decode())
    consumer.close()
    return found
