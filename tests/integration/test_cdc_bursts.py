"""Bursts of changes in PostgreSQL, by way of Debezium and Kafka, loaded while they go on.

Each burst inserts some hundreds of rows in one transaction, changes all of them in another, gives some of them new
keys, takes some away and brings half of these back, and then updates one row again and again until two loads have run.
INCLOAD_TEST_EXAMPLES is the number of five hundreds of rows.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from time import monotonic
from uuid import uuid4

import pandera.pyspark as pa
import psycopg
import pyspark.sql.types as T
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql import SparkSession

from incload_assets.assets import Debezium, Kafka, Merge
from incload_assets.load.load import LoadReport
from tests.servers.connect import ConnectServer
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer
from tests.support.tables import Loaded, make
from tests.writes.case import EXAMPLES

pytestmark = pytest.mark.integration

ROWS = 500 * EXAMPLES
BURSTS = (1, 2)
"""Each on a day of its own."""
APART = 100_000_000
"""From the keys of one burst to those of the next."""


class Reading(pa.DataFrameModel):
    """As in the database."""

    id: T.LongType = pa.Field(nullable=False)
    value: T.StringType = pa.Field(nullable=True)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


def burst(connection: psycopg.Connection[tuple[object, ...]], number: int, seen: Event) -> int:
    """The transactions of a burst, until it was seen half done.

    Returns:
        How often its last row was updated.
    """
    first, last = number * APART, number * APART + ROWS - 1
    for statement in (
        f"INSERT INTO readings SELECT id, 'new' FROM generate_series({first}, {last}) id",
        f"UPDATE readings SET value = 'changed ' || id % 10 WHERE id >= {first}",
        f"UPDATE readings SET id = id + {ROWS} WHERE id >= {first} AND id % 20 = 3",
        f"DELETE FROM readings WHERE id >= {first} AND id % 7 = 2",
        f"INSERT INTO readings SELECT id, 'back' FROM generate_series({first}, {last}) id WHERE id % 14 = 2 "
        "ON CONFLICT DO NOTHING",
        f"UPDATE readings SET value = NULL WHERE id < {first} AND id % 50 = 1",
    ):
        connection.execute(statement.encode())
    updates = 0
    while not (seen.wait(1 if updates >= ROWS else 0) and updates >= ROWS):
        with connection.transaction(), connection.pipeline():
            for n in range(100):
                connection.execute("UPDATE readings SET value = %s WHERE id = %s", (f"hot {updates + n}", first))
        updates += 100
    connection.execute("INSERT INTO readings VALUES (%s, 'the end')", (-number,))
    return updates


@pytest.fixture
def readings(
    spark: SparkSession, postgres: PostgresServer, kafka: KafkaServer, connect: ConnectServer, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Loaded, psycopg.Connection[tuple[object, ...]], str]]:  # fmt: skip
    """A table kept from the events, the database, and the topic between them."""
    name = f"burst_{uuid4().hex[:10]}"
    postgres.database(name, "CREATE TABLE readings (id bigint PRIMARY KEY, value text)")
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", kafka.servers)
    topic = f"{name}.public.readings"
    with (
        connect.debezium(postgres, name, name, "public.readings"),
        postgres.connect(name, autocommit=True) as connection,
    ):
        connection.execute("INSERT INTO readings VALUES (0, 'first')")
        ends(kafka, topic, at_least=1)
        events = Debezium(Kafka("shop", topic), table="public.readings", keys=["id"])
        kept = make(
            spark, tmp_path, source=events, contract=Reading, changes=events.changes(), write=Merge(), name="readings"
        )  # fmt: skip
        yield kept, connection, topic


def ends(kafka: KafkaServer, topic: str, *, at_least: int = 0) -> int:
    """How many messages the topic has, when it has so many."""
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": topic})
    deadline = monotonic() + 60
    while True:
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        except KafkaException:  # it is not there yet
            end = -1
        if end >= at_least:
            consumer.close()
            return int(end)
        assert monotonic() < deadline, f"{topic} has {end} messages, not {at_least}"


def test_bursts_loaded_while_they_go_on_give_the_databases_table(
    readings: tuple[Loaded, psycopg.Connection[tuple[object, ...]], str],
    kafka: KafkaServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept, connection, topic = readings
    today = datetime(2026, 1, 1, 12, tzinfo=UTC)
    monkeypatch.setattr("incload_assets.declaration.window.now", lambda: today)
    reports: dict[int, LoadReport] = {}
    with ThreadPoolExecutor(1) as other:
        for number in BURSTS:
            today, seen, so_far = today.replace(day=number), Event(), ends(kafka, topic)
            going_on, half_done = other.submit(burst, connection, number, seen), 0
            ends(kafka, topic, at_least=so_far + 1)  # a window without messages waits for them
            deadline = monotonic() + 240
            try:
                while (-number, "the end") not in kept_rows(kept):
                    assert monotonic() < deadline, "the end of the burst does not come"
                    reports[number] = kept.load(number)
                    half_done += not going_on.done()
                    if half_done >= 2:
                        seen.set()
            finally:
                seen.set()
            assert going_on.result() >= ROWS
            assert half_done >= 2
            expected = set(connection.execute("SELECT id, value FROM readings").fetchall())
            assert kept_rows(kept) == expected
            today = today.replace(day=number + 1)
            assert kept.load(number).evidence.rows_read == reports[number].evidence.rows_read
        assert sum(report.evidence.rows_read for report in reports.values()) == ends(kafka, topic)
        assert [report.evidence.quarantined for report in reports.values()] == [0] * len(BURSTS)
        for number in reversed(BURSTS):
            again = kept.replay(kept.load(number))
            assert not again.ingested
            assert not again.committed
        assert kept_rows(kept) == expected
    assert sum(str(value).startswith("hot") for _, value in expected) == len(BURSTS)


def kept_rows(kept: Loaded) -> set[tuple[object, ...]]:
    """What the table holds, if it is there."""
    return kept.rows("id", "value") if kept.lake.delta(kept.uri) else set()
