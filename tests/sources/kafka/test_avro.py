"""Avro messages, against a real broker and a real registry: values, evolution of writers, and what is refused."""

import base64
import json
import math
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Changes, Debezium, Kafka, Quarantine
from incload_assets.change_log.context import LoadContext
from incload_assets.load.replay import replay_window
from incload_assets.platform import schema_registry
from incload_assets.platform.errors import ContractViolation, DeclarationError, SourceUnavailable, SourceUnreadable
from incload_assets.sources.files.avro_schema import WrongSchema, adapted
from incload_assets.sources.kafka.avro import UNDECODED, Writers, json_of_avro
from incload_assets.sources.kafka.errors import kafka_error
from incload_assets.sources.kafka.kafka import Kafka as KafkaSource
from tests.servers.kafka import KafkaServer
from tests.servers.registry import Registry
from tests.sources.case_avro import encoded
from tests.support.tables import Item, Loaded, day, declared, make

pytestmark = pytest.mark.integration

NUMBER = 7
FRAME = b"\x00\x00\x00\x00\x07"


def ms(number: int) -> int:
    return round(datetime(2026, 1, number, 12, tzinfo=UTC).timestamp() * 1000)


def record(*fields: tuple[Any, ...], name: str = "Order", **more: Any) -> dict[str, Any]:
    """A schema with fields of a name, a type and aliases."""
    members = [{"name": one, "type": kind, **({"aliases": [*aliases]} if aliases else {})}
               for one, kind, *aliases in fields]  # fmt: skip
    return {"type": "record", "name": name, "namespace": "org.example", "fields": members, **more}


class Order(Item):
    """With the order that Kafka gives."""

    kafka_offset: T.LongType = pa.Field(nullable=False)


BY_OFFSET = Changes(keys=["id"], sequence_by=["kafka_offset"], delete_when="kafka_tombstone = 'true'")
ITEM = record(("id", "string"), ("value", ["null", "string"]), ("seq", ["null", "int"]))


@pytest.fixture
def topic(kafka: KafkaServer, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A topic of the test's own, a registry, and a present after the topic's windows."""
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", kafka.servers)
    monkeypatch.setenv("INCLOAD_REGISTRY_MAIN_URL", registry.url)
    monkeypatch.setattr("incload_assets.declaration.window.now", lambda: datetime(2026, 1, 31, tzinfo=UTC))
    schema_registry.forget()
    name = f"avro-{uuid.uuid4().hex[:8]}"
    kafka.create(name)
    yield name


def table(spark: SparkSession, folder: Path, source: KafkaSource, contract: type = Order, **options: Any) -> Loaded:
    given = {"source": source, "contract": contract, "changes": BY_OFFSET, "quarantine": Quarantine(max_share=0.9)}
    return make(spark, folder, **given | options)


def read(spark: SparkSession, schema: Any, bodies: list[bytes], **targets: T.DataType) -> list[tuple[Any, Any]]:
    """The JSON of messages, as objects, or why they are not read."""
    places = [(None, bytearray(FRAME + body), number) for number, body in enumerate(bodies)]
    frame = spark.createDataFrame(places, "key binary, value binary, offset int")
    node = adapted(json.dumps(schema))
    found = json_of_avro(frame, Writers({NUMBER: node}, {}, targets, tuple(targets)))
    rows = found.select(F.col("value").cast("string"), UNDECODED).orderBy("offset").collect()
    return [(text if why else json.loads(text, parse_float=Decimal), why) for text, why in rows]


NESTED = record(("at", {"type": "long", "logicalType": "timestamp-micros"}), ("ratio", "double"), name="Nested")
EVERYTHING = record(
    ("long", "long"), ("int", "int"), ("double", "double"), ("flag", "boolean"), ("text", "string"), ("bytes", "bytes"),
    ("fixed", {"type": "fixed", "name": "Three", "size": 3}), ("kind", {"type": "enum", "name": "Kind",
                                                                       "symbols": ["A", "B"]}),
    ("amount", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9}),
    ("day", {"type": "int", "logicalType": "date"}),
    ("millis", {"type": "long", "logicalType": "timestamp-millis"}),
    ("micros", {"type": "long", "logicalType": "timestamp-micros"}),
    ("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
    ("clock", {"type": "int", "logicalType": "time-millis"}),
    ("fine", {"type": "long", "logicalType": "time-micros"}),
    ("maybe", ["null", "long"]), ("wide", ["int", "long"]), ("either", ["null", "string", "long", NESTED]),
    ("list", {"type": "array", "items": ["null", "double"]}), ("map", {"type": "map", "values": "long"}),
    ("nested", ["null", "org.example.Nested"]), ("nanos", {"type": "long", "logicalType": "timestamp-nanos"}),
)  # fmt: skip
_FIRST = datetime(1, 1, 1, tzinfo=UTC)


def anything(draw: random.Random) -> dict[str, Any]:
    """A random value of EVERYTHING."""

    def instant() -> datetime:
        return _FIRST + timedelta(microseconds=draw.randrange(9998 * 365 * 86_400 * 10**6))

    def double() -> float:
        return draw.choice([0.1, -0.0, 1e300, 5e-324, math.inf, -math.inf, draw.uniform(-1e9, 1e9), 2.0**53])

    def nested() -> dict[str, Any]:
        return {"at": instant(), "ratio": draw.uniform(-1, 1)}

    big = draw.choice([2**63 - 1, -(2**63), 2**53 + 1, 0, draw.randrange(-(2**63), 2**63)])
    text = "".join(draw.choices('ab"\\\n\u0000é日🎈\ufffd', k=draw.randrange(6)))
    moment = timedelta(microseconds=draw.randrange(86_400 * 10**6))
    return {
        "long": big, "int": draw.randrange(-(2**31), 2**31), "double": double(), "flag": draw.random() < 0.5,
        "text": text, "bytes": draw.randbytes(draw.randrange(20)), "fixed": draw.randbytes(3),
        "kind": draw.choice("AB"), "amount": Decimal(draw.randrange(-(10**38) + 1, 10**38)).scaleb(-9),
        "day": instant().date(), "millis": instant().replace(microsecond=123000), "micros": instant(),
        "local": instant().replace(tzinfo=None), "clock": (datetime.min + moment).time().replace(microsecond=5000),
        "fine": (datetime.min + moment).time(), "maybe": draw.choice([None, big]), "wide": big,
        "either": draw.choice([None, text, big, nested()]), "list": [None, double()][: draw.randrange(3)],
        "map": {text: big} if draw.random() < 0.5 else {}, "nested": draw.choice([None, nested()]),
        "nanos": draw.randrange(10**18),
    }  # fmt: skip


def shown(value: Any) -> Any:
    """A value as it stands in JSON."""
    match value:
        case datetime() if value.tzinfo is None:
            return value.isoformat(timespec="microseconds")
        case datetime():
            return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        case date() | time():
            return value.isoformat(**({"timespec": "microseconds"} if isinstance(value, time) else {}))
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return [*map(shown, value)]
        case dict():
            return {name: shown(one) for name, one in value.items()}
    return value


def test_every_value_is_what_the_writer_wrote(spark: SparkSession) -> None:
    draw = random.Random(7)
    wrote = [anything(draw) for _ in range(300)]
    found = read(spark, EVERYTHING, [encoded(EVERYTHING, value) for value in wrote])
    for value, (json_value, why) in zip(wrote, found, strict=True):
        assert why is None
        nanos, either = json_value.pop("nanos"), json_value.pop("either")
        seconds, rest = divmod(value["nanos"], 10**9)
        at = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()
        assert nanos == f"{at}.{rest:09d}Z" or nanos == f"{at}.{rest // 1000:06d}Z"
        if isinstance(value["either"], dict):
            assert float(either["ratio"]) == value["either"]["ratio"]
            assert datetime.fromisoformat(either["at"]) == value["either"]["at"]
        else:
            assert either == value["either"]
        json_value["double"], json_value["amount"] = float(json_value["double"]), Decimal(json_value["amount"])
        json_value["list"] = [None if one is None else float(one) for one in json_value["list"]]
        if nested := json_value["nested"]:
            nested["ratio"] = float(nested["ratio"])
        expected = {name: shown(one) for name, one in value.items() if name not in ("nanos", "either")}
        for name, one in expected.items():
            assert json_value[name] == one, name


def test_numbers_that_spark_would_change_are_exact_or_refused(spark: SparkSession) -> None:
    def money(precision: int, **more: Any) -> Any:
        kind = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2} | more
        return record(("amount", kind))

    long = (10**30).to_bytes(13, "big")
    connects = "org.apache.kafka.connect.data.Decimal"
    for schema in (money(4), money(64, **{"connect.name": connects})):
        bodies = [bytes([2 * 13]) + long, bytes([2 * 20]) + b"\x7f" + bytes(19)]
        [(value, why), (_, too_long)] = read(spark, schema, bodies)
        assert (value, why) == ({"amount": Decimal(10**30) / 100}, None)
        assert too_long == "not read as Avro: the bytes are no value of the schema with the id 7"
    four = {"type": "fixed", "name": "Four", "size": 4, "logicalType": "decimal", "precision": 4, "scale": 2}
    assert read(spark, record(("amount", four)), [b"\x00\x98\x96\x7f"]) == [({"amount": Decimal("99999.99")}, None)]
    times = record(("clock", {"type": "int", "logicalType": "time-millis"}))
    assert read(spark, times, [encoded(record(("clock", "int")), {"clock": 86_400_000})])[0][0] == {"clock": "86400000"}


def test_bytes_and_floats_become_what_the_contract_says(spark: SparkSession) -> None:
    schema = record(("a", "bytes"), ("b", "bytes"), ("c", "bytes"), ("f", "float"), ("g", "float"))
    value = {"a": b"1234", "b": "é".encode(), "c": b"\xff", "f": 0.1, "g": 0.1}
    targets = {"a": T.LongType(), "b": T.StringType(), "c": T.BinaryType(), "f": T.DoubleType(), "g": T.StringType()}
    [(found, why), (payload, wrong)] = read(
        spark, schema, [encoded(schema, value), encoded(schema, value | {"b": b"\xff"})], **targets
    )
    assert why is None
    assert found == {"a": "bytes MTIzNA==", "b": "é", "c": "/w==", "f": Decimal("0.10000000149011612"),
                     "g": Decimal("0.1")}  # fmt: skip
    assert wrong == "not read as Avro: b: bytes, not UTF-8" and payload


def test_a_window_may_have_many_schemas_and_fields_that_are_always_null(spark: SparkSession) -> None:
    schemas = {number: record(("id", "int"), (f"of_{number}", ["null"]), ("no", "null")) for number in range(120)}
    bodies = [b"\x00" + number.to_bytes(4, "big") + encoded(schema, {"id": number, f"of_{number}": None, "no": None})
              for number, schema in schemas.items()]  # fmt: skip
    frame = spark.createDataFrame([(None, bytearray(body)) for body in bodies], "key binary, value binary")
    writers = Writers({n: adapted(json.dumps(schema)) for n, schema in schemas.items()}, {}, {}, ())
    found = [
        json.loads(text) for (text,) in json_of_avro(frame, writers).select(F.col("value").cast("string")).collect()
    ]
    assert found == [{"id": number, f"of_{number}": None, "no": None} for number in schemas]


def test_text_that_is_not_utf8_is_found_wherever_it_is(spark: SparkSession) -> None:
    inside = record(("x", "string"), name="Inside")
    schemas = [
        (record(("s", "string")), b"\x02\xff"),
        (record(("s", ["null", "string"])), b"\x02\x02\xff"),
        (record(("s", {"type": "array", "items": "string"})), b"\x02\x02\xff\x00"),
        (record(("s", {"type": "map", "values": "string"})), b"\x02\x02a\x02\xff\x00"),
        (record(("s", {"type": "map", "values": "int"})), b"\x02\x02\xff\x02\x00"),
        (record(("s", inside)), b"\x02\xff"),
        (record(("s", ["null", "int", inside])), b"\x04\x02\xff"),
    ]
    for schema, body in schemas:
        assert [why for _, why in read(spark, schema, [body])] == ["not read as Avro: s: not valid UTF-8"], schema


def test_a_topic_of_several_schemas_is_read_by_each_of_them(
    spark: SparkSession, kafka: KafkaServer, registry: Registry, topic: str, tmp_path: Path
) -> None:
    wide = record(("id", "string"), ("seq", ["int", "long"]), ("more", "float"))
    renamed = record(("id", "string"), ("worth", ["null", "string"], "value"), ("seq", "long"))
    versions = [
        (ITEM, {"id": "a", "value": "1", "seq": 2**31 - 1}),
        (wide, {"id": "b", "seq": 2**63 - 1, "more": 0.5}),
        (renamed, {"id": "c", "worth": "renamed", "seq": 3}),
        (record(("seq", "long"), ("id", "string")), {"seq": 4, "id": "d"}),
    ]
    numbers = [registry.register(f"{topic}-{number}", schema) for number, (schema, _) in enumerate(versions)]
    assert len({*numbers}) == 4
    messages = [encoded(schema, value, number) for (schema, value), number in zip(versions, numbers, strict=True)]
    kafka.send(topic, [(0, None, message, ms(1)) for message in messages])
    orders = table(spark, tmp_path, Kafka("shop", topic, format="avro", registry="main"))
    orders.load(1)
    assert orders.rows("id", "value", "seq") == {
        ("a", "1", 2**31 - 1), ("b", None, 2**63 - 1), ("c", "renamed", 3), ("d", None, 4),
    }  # fmt: skip
    assert sorted(orders.log("upsert", "id", "_rescued")) == [
        ("a", None), ("b", '{"more":0.5}'), ("c", None), ("d", None),
    ]  # fmt: skip


def test_broken_messages_keep_their_bytes_and_a_replay_leaves_them(
    spark: SparkSession, kafka: KafkaServer, registry: Registry, topic: str, tmp_path: Path
) -> None:
    number = registry.register(topic, ITEM)
    whole = encoded(ITEM, {"id": "a", "value": "1", "seq": 1}, number)
    plain = registry.register(f"{topic}-text", {"type": "string"})
    bodies = [whole, whole[:-1], whole + b"\x00", b"\x00\x00", whole[5:], b"{}", whole[:5] + b"\x02\xff\x00\x00",
              encoded("string", "x", plain), b""]  # fmt: skip
    kafka.send(topic, [(0, None, body, ms(1)) for body in bodies])
    kafka.send(topic, [(0, None, encoded(ITEM, {"id": "b", "value": "2", "seq": 2}, number), ms(1))] * 2)
    orders = table(spark, tmp_path, Kafka("shop", topic, format="avro", registry="main"))
    assert orders.load(1).record.rejected == len(bodies) - 1
    no_frame = "no frame of a schema registry, a zero byte and the id of a schema, before the message"
    why = [
        f"the bytes are no value of the schema with the id {number}",
        f"the bytes are no value of the schema with the id {number}",
        "shorter than the frame of a schema registry",
        no_frame,
        no_frame,
        "id: not valid UTF-8",
        f"the schema with the id {plain} is no record",
        no_frame,
    ]
    rejected = orders.log("rejected", "_source", "_reasons", "_payload")
    assert sorted((place["row"], reasons, base64.b64decode(payload)) for place, reasons, payload in rejected) == [
        (offset, [f"not read as Avro: {reason}"], body)
        for offset, (reason, body) in enumerate(zip(why, bodies[1:], strict=True), 1)
    ]
    assert orders.rows("id", "value") == {("a", "1"), ("b", "2")}
    replay_window(LoadContext(spark, orders.table, orders.lake), orders.table.window_of(day(1)))
    assert orders.log("rejected", "_source", "_reasons", "_payload") == rejected


def test_rows_that_the_contract_refuses_are_replayed_from_their_payload(
    spark: SparkSession, kafka: KafkaServer, registry: Registry, topic: str, tmp_path: Path
) -> None:
    class Strict(Order):
        at: T.TimestampType = pa.Field(nullable=False)
        amount: T.DecimalType(20, 2) = pa.Field(nullable=False, lt=100)  # type: ignore[valid-type]

    class Looser(Strict):
        amount: T.DecimalType(20, 2) = pa.Field(nullable=False)  # type: ignore[valid-type]

    schema = record(
        ("id", "string"), ("at", {"type": "long", "logicalType": "timestamp-micros"}),
        ("amount", {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2}),
    )  # fmt: skip
    at = datetime(2026, 1, 1, 1, 2, 3, 456789, UTC)
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
    wrote = record(*[(f["name"], wide if f["name"] == "amount" else f["type"]) for f in schema["fields"]])
    number = registry.register(topic, schema)
    rows = [
        {"id": "a", "at": at, "amount": Decimal("12345678901234567.89")},
        {"id": "b", "at": at, "amount": Decimal(1)},
    ]
    kafka.send(topic, [(0, None, encoded(wrote, row, number), ms(1)) for row in rows])
    source = Kafka("shop", topic, format="avro", registry="main")
    table(spark, tmp_path, source, Strict).load(1)
    orders = table(spark, tmp_path, source, Looser)
    replay_window(LoadContext(spark, orders.table, orders.lake), orders.table.window_of(day(1)))
    assert orders.rows("id", "at", "amount") == {("a", at, Decimal("12345678901234567.89")), ("b", at, Decimal(1))}


def test_avro_keys_give_tombstones_their_key(
    spark: SparkSession, kafka: KafkaServer, registry: Registry, topic: str, tmp_path: Path
) -> None:
    key, text = record(("id", "string"), name="Key"), {"type": "string"}
    number, of_key, of_text = (registry.register(f"{topic}-{n}", s) for n, s in enumerate([ITEM, key, text]))

    def value(id: str) -> bytes:
        return encoded(ITEM, {"id": id, "value": "1", "seq": 1}, number)

    def key_of(id: str) -> bytes:
        return encoded(key, {"id": id}, of_key)

    kafka.send(topic, [(0, key_of("a"), value("a"), ms(1)), (0, key_of("b"), value("b"), ms(1)),
                       (0, key_of("a"), None, ms(1))])  # fmt: skip
    source = Kafka("shop", topic, format="avro", registry="main")
    orders = table(spark, tmp_path, source)
    orders.load(1)
    assert orders.rows("id") == {("b",)}
    kafka.send(topic, [(0, encoded("string", "k", of_text), value("x"), ms(2)), (0, b"plain", value("y"), ms(2)),
                       (0, b"\x00\x00\x00\x00\x00\x31\x32\x33", value("z"), ms(2))])  # fmt: skip

    class Keyed(Order):
        kafka_key: T.StringType = pa.Field(nullable=True)

    keyed = table(spark, tmp_path / "keyed", source, Keyed)
    with pytest.raises(SourceUnreadable, match=r"the key of the message at offset 5 .* has no id 0"):
        keyed.load(2)
    unused = table(spark, tmp_path / "unused", source, changes=Changes(keys=["id"], sequence_by=["kafka_offset"]))
    unused.load(2)
    assert unused.rows("id") == {("x",), ("y",), ("z",)}
    kafka.send(topic, [(0, encoded("string", "k", of_text), value("x"), ms(3)), (0, b"plain", value("y"), ms(3)),
                       (0, encoded("string", "k", of_text) + b"\x00", value("z"), ms(3))])  # fmt: skip
    keyed.load(3)
    assert keyed.rows("id", "kafka_key") == {("x", "k"), ("y", "plain")}
    reason = "the key of the message begins with a zero byte, and is no value of a schema in the schema registry"
    assert [reasons for (reasons,) in keyed.log("rejected", "_reasons")] == [[reason]]


def test_an_unknown_id_a_schema_of_another_kind_and_a_registry_out_of_reach_fail_the_window(
    spark: SparkSession,
    kafka: KafkaServer,
    registry: Registry,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    number = registry.register(topic, ITEM)
    good = encoded(ITEM, {"id": "a", "value": "1", "seq": 1}, number)
    json_schema = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
    of_json = registry.register(f"{topic}-json", json_schema, kind="JSON")
    loop = registry.register(f"{topic}-loop", record(("id", "string"), ("next", ["null", "Order"])))
    kafka.send(topic, [(0, None, good, ms(1)), (0, None, b"\x00\x7f\xff\xff\xff\x00", ms(1)),
                       (0, None, b"\x00" + of_json.to_bytes(4, "big") + b"{}", ms(2)),
                       (0, None, b"\x00" + loop.to_bytes(4, "big") + b"\x02a\x00", ms(3)),
                       (0, None, good, ms(4))])  # fmt: skip
    orders = table(spark, tmp_path, Kafka("shop", topic, format="avro", registry="main"))
    place = f"of topic '{topic}' of the Kafka cluster 'shop' has the schema with the id"
    with pytest.raises(SourceUnreadable) as unknown:
        orders.load(1)
    assert str(unknown.value).startswith(
        f"items: the message at offset 1 of partition 0 {place} {2**31 - 1}: the schema registry 'main' has no id "
        f"{2**31 - 1}. Rule: "
    )
    with pytest.raises(SourceUnreadable, match=rf"offset 2 .* {place} {of_json}, which is one of JSON in"):
        orders.load(2)
    with pytest.raises(SourceUnreadable, match=rf"offset 3 .* {place} {loop}, .*'org.example.Order' contains itself"):
        orders.load(3)
    schema_registry.forget()
    monkeypatch.setattr(schema_registry, "_PAUSE_SECONDS", 0)
    monkeypatch.setenv("INCLOAD_REGISTRY_MAIN_URL", "http://127.0.0.1:9")
    with pytest.raises(SourceUnavailable, match=r"offset 4 of partition 0 .*'main' does not answer"):
        orders.load(4)
    monkeypatch.setenv("INCLOAD_REGISTRY_MAIN_URL", registry.url)
    orders.load(4)
    assert orders.rows("id") == {("a",)}


def test_messages_without_frames_are_refused_with_a_registry_and_read_by_a_declared_schema(
    spark: SparkSession, kafka: KafkaServer, topic: str, tmp_path: Path
) -> None:
    body = encoded(ITEM, {"id": "a", "value": "1", "seq": 1})
    kafka.send(topic, [(0, None, body, ms(1))])
    with pytest.raises(SourceUnreadable, match=r"1 messages of topic .* have no frame .* offset 0 of partition 0\. .*"):
        table(spark, tmp_path, Kafka("shop", topic, format="avro", registry="main")).load(1)
    kafka.send(topic, [(0, None, body + b"\x00", ms(1)), (0, b"\x00\x00\x00\x00\x01", body, ms(1))])
    orders = table(spark, tmp_path / "plain", Kafka("shop", topic, format="avro", schema=json.dumps(ITEM)))
    orders.load(1)
    assert orders.rows("id", "value", "seq") == {("a", "1", 1)}
    assert orders.log("rejected", "_reasons") == [
        (["not read as Avro: the bytes are no value of the declared schema"],)
    ]
    with pytest.raises(ContractViolation):
        table(spark, tmp_path / "other", Kafka("shop", topic, format="avro", schema=json.dumps(record(("n", "int")))),
              quarantine=Quarantine(max_share=0.1)).load(1)  # fmt: skip


AVRO = json.dumps(ITEM)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"format": "protobuf"}, r"source: format is 'protobuf'\. Rule: it is 'json' or 'avro'"),
        ({"registry": "main"}, "registry is given, and format is 'json'"),
        ({"schema": AVRO}, "schema is given, and format is 'json'"),
        ({"format": "avro"}, "format is 'avro', and neither registry nor schema is given"),
        ({"format": "avro", "registry": "main", "schema": AVRO}, "registry and schema are given"),
        ({"format": "avro", "registry": "main", "framed": "json"}, "registry and framed are given"),
        ({"format": "avro", "registry": "Main"}, "source: registry is 'Main'"),
        ({"format": "avro", "schema": "orders.avsc"}, "no schema of Avro that can be read: it is not JSON"),
        ({"format": "avro", "schema": '{"fields": []}'}, "is no type"),
        ({"format": "avro", "schema": '"strong"'}, "'strong' is no type"),
        ({"format": "avro", "schema": '"string"'}, "it is no record"),
        ({"format": "avro", "schema": json.dumps(record(("a", "int"), ("A", "int")))}, "differ at most in case"),
        ({"format": "avro", "schema": json.dumps(record(("a", "Order")))}, "'org.example.Order' contains itself"),
    ],
)
def test_wrong_declarations_fail_when_the_table_is_declared(options: dict[str, Any], says: str) -> None:
    with pytest.raises(DeclarationError, match=rf"^items: .*{says}"):
        declared(source=Kafka("shop", "orders", **options), contract=Item)


def test_options_are_part_of_the_code_version_only_where_they_are_given() -> None:
    assert repr(Kafka("shop", "orders")) == "Kafka(cluster='shop', topic='orders', key=None, absent='wait')"
    of_avro = Kafka("shop", "orders", format="avro", registry="main")
    assert repr(of_avro).endswith("absent='wait', format='avro', registry='main')")


def test_schemas_are_read_by_the_rules_for_names() -> None:
    inside = {"type": "record", "name": "other.In", "fields": [{"name": "x", "type": "int"}]}
    schema = record(("a", inside), ("b", "other.In"), ("c", {"type": "other.In"}))
    node = adapted(json.dumps(schema))
    assert [field["type"]["type"] for field in node["fields"]] == ["record"] * 3
    assert len({field["type"]["name"] for field in node["fields"]}) == 3
    for wrong in ('{"type": "record", "name": "A", "fields": [{"name": "x", "type": "In"}]}', "[" * 5000, "[]", "7",
                  '{"type": "enum", "name": "E"}', '{"type": "fixed", "name": "F", "size": "1"}', '{"type": "array"}',
                  '{"type": "record", "name": "R"}', '["int", ["null"]]', "null"):  # fmt: skip
        with pytest.raises(WrongSchema):
            adapted(wrong)


def test_a_spark_without_the_jar_says_what_to_do() -> None:
    text = (
        "[AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE] Cannot call the FROM_AVRO SQL function because the Avro data source"
    )
    error = kafka_error("items", text)
    assert isinstance(error, SourceUnreadable) and "set INCLOAD_AVRO=true" in str(error)


def connect(kind: Any, name: str = "", **more: Any) -> Any:
    """A type as Kafka Connect's AvroConverter writes it, of a column that may be NULL."""
    of = {"type": kind, "connect.version": 1, "connect.name": name, **more} if name else kind
    return ["null", of]


DEBEZIUM = "io.debezium.time."
ROW = {
    "type": "record", "name": "Value", "namespace": "shop.public.orders", "connect.name": "shop.public.orders.Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "status", "type": connect("string")},
        {"name": "amount", "type": connect("bytes", "org.apache.kafka.connect.data.Decimal", logicalType="decimal",
            precision=64, scale=2, **{"connect.parameters": {"scale": "2", "connect.decimal.precision": "12"}})},
        {"name": "day", "type": connect("int", f"{DEBEZIUM}Date")},
        {"name": "at", "type": connect("long", f"{DEBEZIUM}MicroTimestamp")},
        {"name": "millis", "type": connect("long", "org.apache.kafka.connect.data.Timestamp",
                                           logicalType="timestamp-millis")},
        {"name": "zoned", "type": connect("string", f"{DEBEZIUM}ZonedTimestamp")},
        {"name": "clock", "type": connect("long", f"{DEBEZIUM}MicroTime")},
        {"name": "data", "type": connect("bytes")},
    ],
}  # fmt: skip
SOURCE = {
    "type": "record", "name": "Source", "namespace": "io.debezium.connector.postgresql",
    "fields": [{"name": name, "type": kind} for name, kind in (
        ("connector", "string"), ("snapshot", ["null", "string"]), ("ts_us", "long"), ("sequence", ["null", "string"]),
        ("schema", "string"), ("table", "string"), ("txId", ["null", "long"]), ("lsn", ["null", "long"]))],
}  # fmt: skip
ENVELOPE = {
    "type": "record", "name": "Envelope", "namespace": "shop.public.orders",
    "connect.name": "shop.public.orders.Envelope",
    "fields": [
        {"name": "before", "type": ["null", ROW]}, {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": SOURCE}, {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"]},
    ],
}  # fmt: skip
_WRITTEN = json.loads(json.dumps(ENVELOPE).replace('"logicalType": "decimal", ', "").replace(
    '"logicalType": "timestamp-millis"', '"doc": ""'))  # fmt: skip


def event(op: str, row: dict[str, Any], lsn: int, number: int) -> bytes:
    source = {"connector": "postgresql", "snapshot": "false", "ts_us": ms(1) * 1000, "schema": "public",
              "table": "orders", "sequence": f'["{lsn - 1}","{lsn}"]', "txId": lsn, "lsn": lsn}  # fmt: skip
    images = {"before": row if op == "d" else None, "after": None if op == "d" else row}
    return encoded(_WRITTEN, {**images, "source": source, "op": op, "ts_ms": ms(1)}, number)


class CdcOrder(pa.DataFrameModel):
    """An order as the database has it."""

    id: T.LongType = pa.Field(nullable=False)
    status: T.StringType = pa.Field(nullable=True)
    amount: T.DecimalType(12, 2) = pa.Field(nullable=True)  # type: ignore[valid-type]
    day: T.DateType = pa.Field(nullable=True)
    at: T.TimestampType = pa.Field(nullable=True)
    millis: T.TimestampType = pa.Field(nullable=True)
    zoned: T.TimestampType = pa.Field(nullable=True)
    clock: T.StringType = pa.Field(nullable=True)
    data: T.BinaryType = pa.Field(nullable=True)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


def test_events_of_debezium_in_avro_are_read_by_the_types_in_their_schema(
    spark: SparkSession, kafka: KafkaServer, registry: Registry, topic: str, tmp_path: Path
) -> None:
    number = registry.register(topic, ENVELOPE)
    beat = record(("ts_ms", "long"), name="Heartbeat")
    row = {"id": 2**53 + 1, "status": "new", "amount": (-123456).to_bytes(3, "big", signed=True), "day": 20454,
           "at": 1767225600123456, "millis": 1767225600123, "zoned": "2026-01-01T00:00:00.123456Z",
           "clock": 45296123456, "data": b"\x00\xff"}  # fmt: skip
    empty = dict.fromkeys(row) | {"id": 2}
    marked = row | {"status": "__debezium_unavailable_value", "day": 20455}
    changes = [("c", row), ("c", empty), ("u", marked), ("d", empty)]
    events = [event(op, image, 10 * at, number) for at, (op, image) in enumerate(changes, 1)]
    events.append(encoded(beat, {"ts_ms": 1}, registry.register(f"{topic}-beat", beat)))
    kafka.send(topic, [(0, None, body, ms(1)) for body in [*events, None]])
    source = Debezium(Kafka("shop", topic, format="avro", registry="main"), table="public.orders", keys=["id"])
    orders = table(spark, tmp_path, source, CdcOrder, changes=source.changes())
    report = orders.load(1)
    assert report.record.rejected == 0
    assert orders.rows(*CdcOrder.to_schema().columns) == {
        (2**53 + 1, "new", Decimal("-1234.56"), date(2026, 1, 2), datetime(2026, 1, 1, 0, 0, 0, 123456, UTC),
         datetime(2026, 1, 1, 0, 0, 0, 123000, UTC), datetime(2026, 1, 1, 0, 0, 0, 123456, UTC), "12:34:56.123456",
         b"\x00\xff", orders.rows("cdc_sequence").pop()[0]),
    }  # fmt: skip
