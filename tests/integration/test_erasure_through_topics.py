"""A person is erased from tables of a topic: no file has a mark of hers, and the source cannot bring her back.

Each test loads through Dagster, and first proves that the search finds the marks that are there.
"""

import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Kafka
from incload_assets.ingest import gains
from incload_assets.platform.settings import Settings
from tests.integration.erasure_orders import (
    FIRST,
    HashedKafkaOrder,
    KafkaOrder,
    clock,
    folder,
    hers,
    instance,
    of_another,
    orders_of,
    torn,
)
from tests.integration.erasure_proof import MARK, Proof
from tests.servers.kafka import KafkaServer, Message
from tests.support.tables import day

__all__ = ["clock", "folder", "instance"]
pytestmark = pytest.mark.integration


def message(days: float, value: dict[str, Any] | str | None, key: str = "") -> Message:
    """A message so many days after the first window begins; its key is an object with the order's id."""
    at = round((FIRST + timedelta(days)).timestamp() * 1000)
    if isinstance(value, dict):
        key, value = value["id"], json.dumps(value)
    return 0, json.dumps({"id": key}), value, at


@pytest.mark.parametrize("is_hashed", [False, True], ids=["in clear", "hashed"])
def test_a_person_is_erased_whose_rows_are_messages_of_a_topic(
    is_hashed: bool,
    spark: SparkSession,
    spark_settings: Settings,
    kafka: KafkaServer,
    folder: Path,
    instance: dg.DagsterInstance,
    clock: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", kafka.servers)
    kafka.create(topic)
    orders = orders_of(
        source=Kafka("shop", topic),
        contract=HashedKafkaOrder if is_hashed else KafkaOrder,
        changes=Changes(keys=["id"], sequence_by=["kafka_offset"], delete_when="kafka_tombstone = 'true'"),
    )
    proof = Proof(folder, instance, spark_settings, spark, orders)
    kafka.send(topic, [message(0.1, hers("a", "first")), message(0.2, of_another("b"))])
    clock(0.5)  # a window that has not ended is loaded twice, and as a whole has a former landing
    monkeypatch.setattr(gains, "MOST_FILES", 0)
    proof.load(1)
    known = {id: person for id, person in proof.kept.rows("id", "person")}
    more = [known[f"a-{MARK}"]] if is_hashed else []
    kafka.send(
        topic,
        [
            message(0.6, hers("c", "only", note=MARK, nested={"phone": MARK, "undeclared": MARK})),
            message(0.7, hers("d", state=f"state {MARK}")),
            message(0.8, torn("e"), f"e-{MARK}"),
            message(1.1, hers("f", "taken over", id="b")),
            message(1.2, of_another("g")),
        ],
    )
    clock(1.9)
    proof.load(1, 2)
    expected = {f"{place}.{column}" for place in ("table", "upsert") for column in ("id", "person", "value", "nested")}
    proof.erase(expected | {"rejected._payload", "_former.person"}, *more)
    assert proof.kept.rows("id", "person") == {("b", known["b"]), ("g", known["b"])}
    # the topic has the person again, and what it had stays in it
    clock(2.9)
    kafka.send(
        topic,
        [
            message(2.1, hers("a", "again")),
            message(2.2, hers("h", "new", note=MARK)),
            message(2.3, torn("i"), f"i-{MARK}"),
            message(2.4, None, f"c-{MARK}"),
            message(2.5, of_another("j")),
        ],
    )
    proof.load(3)
    proof.undo(1)
    assert proof.marked(*more) == set()
    assert proof.load_again(1, 2, 3) == (
        [3, 1, 3] if is_hashed else [4, 1, 4]
    )  # protected tables keep no text of torn records
    for number in (1, 2, 3):
        proof.replay(number)
    assert proof.rebuild() == [day(1), day(2), day(3)]
    assert proof.kept.rows("id", "person") == {(name, known["b"]) for name in "bgj"}
    assert proof.marked(*more) == set()
