"""A person is erased from tables of databases: no file has a mark of hers, and the source cannot bring her back.

Each test loads through Dagster, and first proves that the search finds the marks that are there.
"""

import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Debezium, Kafka, QueryByTime
from incload_assets.platform.kafka import KafkaCluster
from incload_assets.platform.settings import Settings
from incload_assets.sources.kafka.topic import TopicMetadata
from incload_assets.sources.window_bounds import WindowBounds
from tests.integration.erasure_orders import (
    FIRST,
    ChangedOrder,
    DatedOrder,
    clock,
    folder,
    hers,
    instance,
    of_another,
    orders_of,
    others,
    rows,
    torn,
)
from tests.integration.erasure_proof import MARK, PERSON, Proof
from tests.servers.connect import ConnectServer
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer
from tests.support.tables import day

__all__ = ["clock", "folder", "instance"]
pytestmark = pytest.mark.integration


def inserted(order: dict[str, Any], **more: Any) -> str:
    """The statement that inserts an order."""
    doc = json.dumps({"phone": order["value"]})
    values = [*{**order, "doc": doc, **more}.items()]
    names, given = ", ".join(name for name, _ in values), ", ".join(f"'{value}'" for _, value in values)
    return f"INSERT INTO items ({names}) VALUES ({given})"


ITEMS = "CREATE TABLE items (id text PRIMARY KEY, person bigint, value text, state text, note text, doc jsonb"
"""The contracts do not declare the note."""
TAKEN_OVER = f"person = {PERSON}, value = 'taken over {MARK}'"


def test_a_person_is_erased_whose_rows_are_events_of_debezium(
    spark: SparkSession,
    spark_settings: Settings,
    kafka: KafkaServer,
    postgres: PostgresServer,
    connect: ConnectServer,
    folder: Path,
    instance: dg.DagsterInstance,
    clock: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = f"erasure_{uuid.uuid4().hex[:8]}"
    topic = f"{database}.public.items"
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", kafka.servers)
    events = Debezium(Kafka("shop", topic), table="public.items", keys=["id"])
    orders = orders_of(source=events, contract=ChangedOrder, changes=events.changes())
    proof = Proof(folder, instance, spark_settings, spark, orders)
    bounds = WindowBounds(proof.kept.lake, "orders")

    def wait_for(messages: int) -> None:
        until = monotonic() + 60
        while topic not in kafka.admin.list_topics(timeout=30).topics or kafka.end(topic, 0) < messages:
            assert monotonic() < until, f"{topic} has less than {messages} messages"
            sleep(0.1)

    def window_ends(number: int, messages: int) -> None:
        """A window ends behind so many messages of the topic."""
        wait_for(messages)
        look = TopicMetadata("orders", KafkaCluster.named("shop"), topic).identity
        end = {"cluster": look.cluster, "topic": look.topic, "offsets": {"0": messages}}
        bounds.at([FIRST + timedelta(number)], lambda missing, known: dict.fromkeys(missing, end))

    postgres.database(database, f"{ITEMS})", inserted(hers("a", "first"), note=MARK), inserted(of_another("b")))
    with connect.debezium(postgres, database, database, "public.items"):
        window_ends(0, 0)
        window_ends(1, 2)
        postgres.run(
            database,
            inserted(hers("c", "only"), note=MARK),
            inserted(hers("d", state=f"state {MARK}")),
            f"UPDATE items SET {TAKEN_OVER} WHERE id = 'b'",
            inserted(of_another("g")),
            f"UPDATE items SET value = 'changed {MARK}' WHERE id = 'a-{MARK}'",
        )
        wait_for(7)
        kafka.send(topic, [(0, None, torn("e"), 0)])
        window_ends(2, 8)
        clock(2)  # a check stores the bounds of all windows that have ended
        proof.load(1, 2)
        expected = {f"table.{column}" for column in ("id", "person", "value", "doc")}
        proof.erase(expected | {"upsert._rescued", "rejected._payload"})
        assert rows(proof) == others("b", "g")
        # a change, a new key, a delete that has nothing but the key, a new row
        postgres.run(
            database,
            f"UPDATE items SET value = 'again {MARK}' WHERE id = 'a-{MARK}'",
            f"UPDATE items SET id = 'k-{MARK}' WHERE id = 'd-{MARK}'",
            f"DELETE FROM items WHERE id = 'c-{MARK}'",
            inserted(hers("h", "new"), note=MARK),
            inserted(of_another("j")),
        )
        window_ends(3, 16)
        clock(3)
    proof.load(3)
    proof.undo(3)
    assert proof.marked() == set()
    assert proof.load_again(1, 2, 3) == [1, 5, 5]
    assert proof.rebuild() == [day(1), day(2), day(3)]
    assert rows(proof) == others("b", "g", "j")
    assert proof.marked() == set()


def test_a_person_is_erased_whose_rows_are_of_a_table_of_postgresql(
    spark: SparkSession,
    spark_settings: Settings,
    postgres: PostgresServer,
    folder: Path,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = f"erasure_{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_URL", postgres.database(database))
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_USER", postgres.user)
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_PASSWORD", postgres.password)
    orders = orders_of(
        source=QueryByTime("shop", "public.items", modified="changed"),
        contract=DatedOrder,
        changes=Changes(keys=["id"], sequence_by=["changed"], delete_when="op = 'd'"),
    )
    proof = Proof(folder, instance, spark_settings, spark, orders)
    postgres.run(
        database,
        f"{ITEMS}, op text, changed timestamptz)",
        inserted(hers("a", "first"), note=MARK, changed=f"{day(1)} 10:00Z"),
        inserted(of_another("b"), changed=f"{day(1)} 11:00Z"),
    )
    proof.load(1)
    postgres.run(
        database,
        inserted(hers("c", "only"), changed=f"{day(1)} 12:00Z"),
        inserted(hers("d", state=f"state {MARK}"), changed=f"{day(1)} 13:00Z"),
    )
    proof.load(1)
    postgres.run(
        database,
        f"UPDATE items SET {TAKEN_OVER}, changed = '{day(2)} 10:00Z' WHERE id = 'b'",
        inserted(of_another("g"), changed=f"{day(2)} 11:00Z"),
    )
    proof.load(2)
    expected = {f"{place}.{column}" for place in ("table", "_former") for column in ("id", "person", "value", "doc")}
    proof.erase(expected | {"upsert.person", "rejected._payload"})
    assert rows(proof) == others("b", "g")
    # a change, a new row, a row that is marked as deleted and names nobody any more
    postgres.run(
        database,
        f"UPDATE items SET value = 'again {MARK}', changed = '{day(3)} 10:00Z' WHERE id = 'a-{MARK}'",
        f"UPDATE items SET op = 'd', person = NULL, changed = '{day(3)} 11:00Z' WHERE id = 'c-{MARK}'",
        f"DELETE FROM items WHERE id = 'd-{MARK}'",
        inserted(hers("h", "new"), changed=f"{day(3)} 12:00Z"),
        inserted(of_another("j"), changed=f"{day(3)} 13:00Z"),
    )
    proof.load(3)
    proof.undo(1)
    assert proof.marked() == set()
    assert proof.load_again(1, 2, 3) == [0, 1, 3]
    assert proof.rebuild() == [day(1), day(2), day(3)]
    assert rows(proof) == others("b", "g", "j")
    assert proof.marked() == set()
