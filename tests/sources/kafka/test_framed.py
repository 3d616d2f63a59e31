"""Messages framed for a schema registry, against a real broker: what is refused, and what is read if declared."""

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Debezium, Kafka, Masked, Quarantine, Several
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.source import Source
from incload_assets.load.ranges import load_first_windows
from incload_assets.load.replay import replay_window
from incload_assets.platform.errors import ContractViolation, DeclarationError, SourceUnreadable
from tests.servers.kafka import KafkaServer
from tests.support.tables import Item, Loaded, day, declared, make

pytestmark = pytest.mark.integration

AVRO = b"\x00\x00\x00\x00\x07\x02\x0e\x06abc"
"""As KafkaAvroSerializer writes a record of two small numbers and a text, by the schema with the id 7."""


def ms(number: int) -> int:
    return round(datetime(2026, 1, number, 12, tzinfo=UTC).timestamp() * 1000)


def framed(value: Any) -> bytes:
    """A value as KafkaJsonSchemaSerializer writes it, by the schema with the id 7."""
    return b"\x00\x00\x00\x00\x07" + json.dumps(value).encode()


class Order(Item):
    """With the order that Kafka gives."""

    kafka_offset: T.LongType = pa.Field(nullable=False)


BY_OFFSET = Changes(keys=["id"], sequence_by=["kafka_offset"], delete_when="kafka_tombstone = 'true'")


@pytest.fixture
def topic(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A topic of the test's own with two partitions, and a present after its windows."""
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", kafka.servers)
    monkeypatch.setattr("incload_assets.declaration.window.now", lambda: datetime(2026, 1, 31, tzinfo=UTC))
    name = f"framed-{uuid.uuid4().hex[:8]}"
    kafka.create(name, 2)
    yield name


def table(spark: SparkSession, folder: Path, source: Source, contract: type = Order, **options: Any) -> Loaded:
    return make(spark, folder, **{"source": source, "contract": contract, "changes": BY_OFFSET} | options)


@pytest.mark.parametrize("max_share", [0.2, 1])
def test_a_topic_of_avro_is_refused_with_its_place_and_what_to_do(
    spark: SparkSession, kafka: KafkaServer, topic: str, tmp_path: Path, max_share: float
) -> None:
    kafka.send(topic, [(1, None, AVRO, ms(1)), (1, None, AVRO, ms(2)), (1, None, AVRO, ms(2))])
    orders = table(spark, tmp_path, Kafka("shop", topic), quarantine=Quarantine(max_share=max_share))
    with pytest.raises(SourceUnreadable) as caught:
        orders.load(2)
    assert str(caught.value) == (
        f"items {day(2)}: 2 messages of topic '{topic}' of the Kafka cluster 'shop' are framed for a schema registry, "
        "the first at offset 1 of partition 1: a zero byte and the id of a schema, and then no JSON. Rule: messages "
        "are JSON unless another format is declared, and Protobuf is not read. Remedy: if they are Avro, declare "
        'Kafka(..., format="avro", registry="NAME") and set INCLOAD_REGISTRY_<NAME>_URL; if they are Protobuf, have '
        "the producer write Avro or JSON."
    )
    windows = [orders.table.window_of(day(number)) for number in (1, 2)]
    load = LoadContext(spark, orders.table, orders.lake)
    loaded = load_first_windows(load, windows, lambda asked: [window.key for window in asked])
    assert [report for together in loaded for report in together] == [], "nor is it part of a range"
    assert orders.log("rejected", "_reasons") == []


def test_json_with_frames_is_refused_unless_that_is_declared(
    spark: SparkSession, kafka: KafkaServer, topic: str, tmp_path: Path
) -> None:
    kafka.send(topic, [(0, None, framed({"id": "a", "value": "1"}), ms(1)), (0, None, AVRO, ms(1))])
    rule = (
        r"the first at offset 0 of partition 0: a zero byte and the id of a schema, and then JSON\. Rule: messages are "
    )
    kafka.send(topic, [(0, None, framed({"id": "b"}), ms(1))])
    with pytest.raises(
        SourceUnreadable, match=rule + r"JSON, and frames .* Remedy: declare Kafka\(\.\.\., framed=\"json\"\)"
    ):
        table(spark, tmp_path / "refused", Kafka("shop", topic)).load(1)
    read = table(spark, tmp_path, Kafka("shop", topic, framed="json"), quarantine=Quarantine(max_share=0.5))
    read.load(1)
    assert read.rows("id", "value", "kafka_offset") == {("a", "1", 0), ("b", None, 2)}
    assert [reason.partition(";")[0] for ([reason],) in read.log("rejected", "_reasons")] == [
        "not JSON: begins with a zero byte, as Avro and Protobuf of a schema registry"
    ]


def test_one_stray_message_goes_to_quarantine(
    spark: SparkSession, kafka: KafkaServer, topic: str, tmp_path: Path
) -> None:
    kafka.send(topic, [(0, None, json.dumps({"id": f"{number}"}), ms(1)) for number in range(9)])
    kafka.send(topic, [(0, None, AVRO, ms(1))])
    orders = table(spark, tmp_path, Kafka("shop", topic))
    assert orders.load(1).record.rejected == 1
    kafka.send(topic, [(0, None, "{", ms(2))])
    with pytest.raises(ContractViolation, match="not valid JSON"):
        orders.load(2)


def test_framed_messages_are_read_as_the_same_without_frames(
    spark: SparkSession, kafka: KafkaServer, topic: str, tmp_path: Path
) -> None:
    kafka.send(
        topic,
        [
            (0, framed({"id": "a"}), framed({"id": "a", "value": "1", "more": 1.10}), ms(1)),
            (0, framed({"id": "b"}), json.dumps({"id": "b", "value": "2"}), ms(1)),
            (0, framed({"id": "c"}), framed({"id": "c", "value": "3"}), ms(1)),
            (0, framed({"id": "c"}), None, ms(1)),
            (0, "d", framed({"id": "d", "seq": "soon"}), ms(1)),
            (0, "e", framed({"id": "e"})[:-1], ms(1)),
        ],
    )
    source = Kafka("shop", topic, framed="json")
    orders = table(spark, tmp_path, source, quarantine=Quarantine(max_share=0.5))
    orders.load(1)
    assert orders.rows("id", "value", "kafka_offset") == {("a", "1", 0), ("b", "2", 1)}
    assert orders.log("upsert", "id", "_rescued")[0] == ("a", '{"more":1.1}')
    rejected = sorted(orders.log("rejected", "_reasons", "_payload"))
    assert rejected == [
        (["not valid JSON"], '{"id": "e"'),
        (["seq: 'soon' is not bigint"], '{"id": "d", "seq": "soon"}'),
    ]  # fmt: skip

    class Looser(Order):
        seq: T.StringType = pa.Field(nullable=True)

    kept = table(spark, tmp_path / "other", source, Looser, quarantine=Quarantine(max_share=0.5))
    kept.load(1)
    assert ("d", "soon") in kept.rows("id", "seq"), "payloads are kept without frames, as they are read"
    replay_window(LoadContext(spark, orders.table, orders.lake), orders.table.window_of(day(1)))
    assert sorted(orders.log("rejected", "_reasons", "_payload")) == rejected


def test_a_key_that_only_begins_as_a_frame_is_no_key_without_its_beginning(
    spark: SparkSession, kafka: KafkaServer, topic: str, tmp_path: Path
) -> None:
    number = (0x313233).to_bytes(8, "big")  # as LongSerializer writes it; what follows five bytes reads 123
    kafka.send(
        topic,
        [
            (0, number, framed({"value": "1"}), ms(1)),
            (0, b"plain", framed({"value": "2"}), ms(1)),
            (0, framed({"id": "c"}), framed({"id": "c"}), ms(1)),
        ],
    )
    source = Kafka("shop", topic, key="id", framed="json")
    orders = table(spark, tmp_path, source, quarantine=Quarantine(max_share=0.5))
    orders.load(1)
    assert orders.rows("id", "value") == {("plain", "2"), ("c", None)}
    assert [reasons for (reasons,) in orders.log("rejected", "_reasons")] == [
        ["the key of the message begins with a zero byte, and no JSON object follows the frame of a schema registry"]
    ]


def test_the_refusal_reaches_tables_of_protected_columns_and_of_several_sources(
    spark: SparkSession, kafka: KafkaServer, topic: str, tmp_path: Path
) -> None:
    class Hidden(Order):
        value: T.StringType = pa.Field(nullable=True, metadata={"personal": Masked()})

    kafka.send(topic, [(0, None, AVRO, ms(1))])
    hidden = table(spark, tmp_path / "hidden", Kafka("shop", topic), Hidden)
    with pytest.raises(SourceUnreadable, match=r"1 messages of topic .* the first at offset 0 of partition 0: "):
        hidden.load(1)
    both = Several({"one": Kafka("shop", topic), "two": Kafka("shop", f"{topic}-2")})
    kafka.create(f"{topic}-2")
    kafka.send(f"{topic}-2", [(0, None, AVRO, ms(1))] * 2)
    several = table(spark, tmp_path / "several", both)
    with pytest.raises(SourceUnreadable, match=rf"messages of topic '{topic}(-2)?' .* partition 0: "):
        several.load(1)


def envelope(op: str, id: int, status: str | None, lsn: int) -> dict[str, Any]:
    """An event of Debezium as JsonSchemaConverter writes it, whose schema is in the registry."""
    row = {"id": id, "status": status}
    source = {"connector": "postgresql", "schema": "public", "table": "orders", "lsn": lsn, "ts_ms": ms(1),
              "sequence": f'["{lsn - 1}","{lsn}"]', "snapshot": "false", "txId": lsn}  # fmt: skip
    return {"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row, "source": source}


class CdcOrder(pa.DataFrameModel):
    """An order as the database has it."""

    id: T.LongType = pa.Field(nullable=False)
    status: T.StringType = pa.Field(nullable=True)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


def test_events_of_debezium_are_read_with_frames_and_refused_without_the_declaration(
    spark: SparkSession, kafka: KafkaServer, topic: str, tmp_path: Path
) -> None:
    events = [envelope("c", 1, "new", 10), envelope("c", 2, "new", 20), envelope("u", 1, "paid", 30),
              envelope("d", 2, "new", 40)]  # fmt: skip
    kafka.send(topic, [(0, framed({"id": 1}), framed(event), ms(1)) for event in events])
    kafka.send(topic, [(0, framed({"id": 2}), None, ms(1))])
    source = Debezium(Kafka("shop", topic, framed="json"), table="public.orders", keys=["id"])
    orders = table(spark, tmp_path, source, CdcOrder, changes=source.changes())
    orders.load(1)
    assert orders.rows("id", "status") == {(1, "paid")}
    plain = Debezium(Kafka("shop", topic), table="public.orders", keys=["id"])
    refused = table(spark, tmp_path / "refused", plain, CdcOrder, changes=plain.changes())
    with pytest.raises(
        SourceUnreadable, match=r'4 messages of topic .* and then JSON\. .* Kafka\(\.\.\., framed="json"\)'
    ):
        refused.load(1)


def test_the_option_is_checked_and_only_tables_that_have_it_are_validated_again() -> None:
    assert repr(Kafka("shop", "orders")) == "Kafka(cluster='shop', topic='orders', key=None, absent='wait')"
    assert repr(Kafka("shop", "orders", framed="json")).endswith("absent='wait', framed='json')")
    assert Kafka("shop", "orders") != Kafka("shop", "orders", framed="json")
    with pytest.raises(DeclarationError, match=r"items: source: framed is 'avro'\. Rule: it is 'json', or None\."):
        declared(source=Kafka("shop", "orders", framed="avro"), contract=Item)  # type: ignore[arg-type]
