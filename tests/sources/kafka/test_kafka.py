"""Windows of a Kafka topic, against a real broker: which offsets are in them, what is read, and what is refused."""

import json
import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.declaration.changes import Changes
from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window
from incload_assets.ingest import gains
from incload_assets.ingest.source_errors import read_error
from incload_assets.platform.errors import DeclarationError, SourceMissing, SourceUnavailable, SourceUnreadable
from incload_assets.platform.kafka import KafkaCluster
from incload_assets.platform.lake import Lake
from incload_assets.progress.checkpoint import Checkpoint
from incload_assets.sources.kafka.kafka import Kafka
from incload_assets.sources.kafka.topic import Identity, TopicMetadata
from incload_assets.sources.kafka.windows import Ranges, position_of, ranges_of
from tests.servers.kafka import KafkaServer, Message, running_kafka
from tests.support.detection import detected
from tests.support.tables import Item, Loaded, day, make

pytestmark = pytest.mark.integration

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = KafkaServer.password


def at(days: float) -> datetime:
    """So many days after the table's first window begins."""
    return FIRST + timedelta(days)


def ms(days: float) -> int:
    return round(at(days).timestamp() * 1000)


def window(number: int, days: int = 1) -> Window:
    return Window(at(number - 1), at(number - 1 + days), day(number))


def message(days: float, partition: int = 0, key: str | None = "k", **value: Any) -> Message:
    return partition, key, json.dumps(value), ms(days)


def ranges(found: dict[str, Position]) -> dict[str, dict[int, tuple[int, int]]]:
    return {key: ranges_of(position) for key, position in found.items()}


@pytest.fixture
def topic(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A name of the test's own."""
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", kafka.servers)
    yield f"orders-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the present to so many days after the first window begins; at the outset 31."""

    def to(days: float) -> None:
        monkeypatch.setattr("incload_assets.declaration.window.now", lambda: at(days))

    to(31)
    return to


class Looking:
    """A source and a lake of its own."""

    def __init__(self, topic: str, folder: Path, **options: Any) -> None:
        self.source, self.lake = Kafka("shop", topic, **options), Lake(str(folder / uuid.uuid4().hex))
        self.ingested: dict[str, Position] = {}

    def at(self, *windows: Window, first: datetime | None = FIRST) -> dict[str, Position]:
        return detected(self.source, "orders", windows, self.ingested, first=first, lake=self.lake)

    def ranges(self, *windows: Window) -> dict[str, dict[int, tuple[int, int]]]:
        return ranges(self.at(*windows))


@pytest.mark.usefixtures("clock")
class TestWindows:
    def test_times_say_where_windows_end_in_each_topic_partition(
        self, kafka: KafkaServer, topic: str, tmp_path: Path
    ) -> None:
        kafka.create(topic, 3)
        kafka.send(topic, [message(0.1), message(0.9), message(1.0), message(0.5, 1), message(2.5, 1), message(2.9, 1)])
        look = Looking(topic, tmp_path)
        found = look.at(*map(window, (1, 2, 3, 4)))
        assert ranges(found) == {day(1): {0: (0, 2), 1: (0, 1)}, day(2): {0: (2, 3)}, day(3): {1: (1, 3)}, day(4): {}}
        assert [position.summary for position in found.values()] == [
            "3 offsets in 2 topic partitions", "1 offset in 1 topic partition", "2 offsets in 1 topic partition",
            "0 offsets in 0 topic partitions",
        ]  # fmt: skip
        assert all(map(look.source.settled, found.values()))

    def test_the_order_in_which_windows_are_asked_for_does_not_matter(
        self, kafka: KafkaServer, topic: str, tmp_path: Path
    ) -> None:
        kafka.create(topic)
        kafka.send(topic, [message(days) for days in (0.5, 1.5, 2.5, 3.5)])
        expected = {day(n): {0: (n - 1, n)} for n in (1, 2, 3, 4)}
        one_by_one = Looking(topic, tmp_path)
        found: dict[str, Any] = {}
        for number in (3, 1, 4, 2):
            found |= one_by_one.ranges(window(number))
        assert found == expected == Looking(topic, tmp_path).ranges(*map(window, (1, 2, 3, 4)))

    def test_what_is_older_than_the_first_window_is_in_it(self, kafka: KafkaServer, topic: str, tmp_path: Path) -> None:
        kafka.create(topic)
        kafka.send(topic, [message(-300), message(-1), message(0.5), message(1.5)])
        assert Looking(topic, tmp_path).ranges(window(1), window(2)) == {day(1): {0: (0, 3)}, day(2): {0: (3, 4)}}

    def test_a_late_record_is_in_the_window_in_which_it_came(
        self, kafka: KafkaServer, topic: str, tmp_path: Path
    ) -> None:
        kafka.create(topic)
        kafka.send(topic, [message(0.5), message(1.5), message(0.6), message(2.5)])
        assert Looking(topic, tmp_path).ranges(window(1), window(2), window(3)) == {
            day(1): {0: (0, 1)}, day(2): {0: (1, 3)}, day(3): {0: (3, 4)},
        }  # fmt: skip

    def test_a_record_dated_in_the_future_does_not_keep_what_follows_for_its_own_window(
        self, kafka: KafkaServer, topic: str, tmp_path: Path, clock: Callable[[float], None]
    ) -> None:
        kafka.create(topic)
        look = Looking(topic, tmp_path)
        kafka.send(topic, [message(0.1), message(9000), message(0.2)])
        clock(1)
        assert look.ranges(window(1)) == {day(1): {0: (0, 3)}}
        kafka.send(topic, [message(1.1), message(1.2)])
        clock(2)
        assert look.ranges(window(1), window(2)) == {day(1): {0: (0, 3)}, day(2): {0: (3, 5)}}

    def test_the_open_window_goes_to_the_end_of_the_log_and_its_end_takes_back_nothing(
        self, kafka: KafkaServer, topic: str, tmp_path: Path, clock: Callable[[float], None]
    ) -> None:
        kafka.create(topic)
        look = Looking(topic, tmp_path)
        clock(0.5)
        assert look.at(window(1), window(2)) == {}  # nothing yet, and not begun
        kafka.send(topic, [message(0.4), message(1.1)])  # another clock is ahead
        open_ = look.at(window(1))
        assert (ranges(open_), look.source.settled(open_[day(1)])) == ({day(1): {0: (0, 2)}}, False)
        look.ingested |= open_
        clock(1.5)
        kafka.send(topic, [message(1.2)])
        closed = look.at(window(1), window(2))
        assert ranges(closed) == {day(1): {0: (0, 2)}, day(2): {0: (2, 3)}}
        assert closed[day(1)].fingerprint == open_[day(1)].fingerprint
        assert [look.source.settled(position) for position in closed.values()] == [True, False]

    def test_an_added_topic_partition_is_read_from_its_beginning(
        self, kafka: KafkaServer, topic: str, tmp_path: Path, clock: Callable[[float], None]
    ) -> None:
        kafka.create(topic)
        look = Looking(topic, tmp_path)
        kafka.send(topic, [message(0.5)])
        clock(1)
        assert look.ranges(window(1)) == {day(1): {0: (0, 1)}}
        kafka.add_partitions(topic, 2)
        kafka.send(topic, [message(0.6, 1), message(1.5, 1), message(1.5), message(2.5, 1)])
        clock(3)
        # even what is as old as the first window is in one that was not closed yet
        assert look.ranges(*map(window, (1, 2, 3))) == {
            day(1): {0: (0, 1)}, day(2): {0: (1, 2), 1: (0, 2)}, day(3): {1: (2, 3)},
        }  # fmt: skip

    def test_a_topic_made_again_is_refused(self, kafka: KafkaServer, topic: str, tmp_path: Path) -> None:
        kafka.create(topic)
        kafka.send(topic, [message(0.5)])
        look = Looking(topic, tmp_path)
        position = look.at(window(1))[day(1)]
        kafka.delete(topic)
        kafka.create(topic)
        kafka.send(topic, [message(0.5)])
        with pytest.raises(SourceUnreadable) as caught:
            look.at(window(2))
        formerly = position.detail["topic"]
        assert f"the topic '{topic}' of the Kafka cluster 'shop' is not the one that was loaded: topic id " in str(
            caught.value
        )
        assert f"formerly {formerly}. Rule: " in str(caught.value)

    def test_a_thousand_windows_take_few_requests(
        self, kafka: KafkaServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kafka.create(topic, 2)
        kafka.send(topic, [message(3.5), message(20.5, 1), message(20.7)])
        asked = []
        real = TopicMetadata._offsets
        monkeypatch.setattr(TopicMetadata, "_offsets", lambda look, spec: asked.append(spec) or real(look, spec))
        hours = [Window(at(n / 24), at((n + 1) / 24), f"{n}") for n in range(720)]
        look = Looking(topic, tmp_path)
        found = look.at(*hours)
        assert {key for key, where in ranges(found).items() if where} == {"84", "492", "496"}
        assert len(asked) < 60
        asked.clear()
        assert look.at(*hours) == found
        assert len(asked) == 1


CUTS = st.lists(st.integers(1, 300), min_size=1, max_size=6, unique=True).map(sorted)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=CUTS, order=st.randoms(use_true_random=False), now=st.floats(0.5, 40))
def test_no_record_is_lost_between_windows_or_in_two_of_them(
    cuts: list[int],
    order: random.Random,
    now: float,
    scattered: dict[int, int],
    topic_scattered: str,
    tmp_path: Path,
    clock: Callable[[float], None],
) -> None:
    ends = [at(cut / 10) for cut in cuts]
    windows = [Window(begin, end, str(end)) for begin, end in zip([FIRST, *ends], [*ends, at(50)], strict=False)]
    look, found = Looking(topic_scattered, tmp_path), {}
    asked = list(windows)
    order.shuffle(asked)
    while asked:  # some at a time, in any order, as time goes by
        clock(now)
        some = [asked.pop() for _ in range(min(len(asked), order.randint(1, 3)))]
        found |= look.at(*some)
        look.ingested |= found
        now += order.random() * 10
    clock(49)
    found = look.at(*windows)
    read = sorted((p, offset) for where in ranges(found).values() for p, r in where.items() for offset in range(*r))
    assert read == sorted((p, offset) for p, count in scattered.items() for offset in range(count))


def removed(source: Kafka, found: dict[str, Position], *windows: Window) -> list[datetime | None]:
    waiting = {window: found[window.key] for window in windows}
    return [keeper.removed for keeper in source.headroom("orders", waiting, at(3))]


def test_what_is_not_loaded_is_removed_when_its_oldest_message_is_as_old_as_the_topic_keeps_any(
    kafka: KafkaServer, topic: str, tmp_path: Path, clock: Callable[[float], None]
) -> None:
    clock(2.5)
    kafka.create(topic, 2, retention_ms="-1")
    kafka.send(topic, [message(-0.5, id=1), message(0.5, id=2), message(1.5, id=3), message(1.75, 1, id=4)])
    looking = Looking(topic, tmp_path)
    found = looking.at(window(1), window(2))
    assert removed(looking.source, found, window(1)) == []
    kafka.configure(topic, retention_ms=str(10**13), cleanup_policy="compact")
    assert removed(looking.source, found, window(1)) == []
    century, years = timedelta(days=36_500), str(36_500 * 86_400_000)  # the messages are older than any month
    kafka.configure(topic, retention_ms=years, cleanup_policy="compact,delete")
    assert removed(looking.source, found, window(1), window(2)) == [at(-0.5) + century]
    assert removed(looking.source, found, window(2)) == [at(1) + century]
    assert removed(looking.source, found) == []


@pytest.fixture(scope="module")
def topic_scattered(kafka: KafkaServer) -> str:
    return "scattered"


@pytest.fixture
def scattered(kafka: KafkaServer, topic: str, topic_scattered: str) -> dict[int, int]:
    """A topic of records whose times have nothing to do with their order; how many there are per partition."""
    chance = random.Random(7)
    counts = {0: 40, 1: 7, 2: 0, 3: 90}
    if topic_scattered not in kafka.admin.list_topics(timeout=60).topics:
        kafka.create(topic_scattered, len(counts))
        times = [-500, 0, 31, 49, 9000]
        for partition, count in counts.items():
            days = [chance.choice([chance.random() * 30, chance.choice(times)]) for _ in range(count)]
            kafka.send(topic_scattered, [message(d, partition) for d in days])
    return counts


ALL = ["id", "amount", "note", "kafka_key", "kafka_timestamp", "kafka_partition", "kafka_offset", "kafka_headers",
       "kafka_tombstone"]  # fmt: skip


def whole(topic: str, per_partition: dict[int, tuple[int, int]]) -> Position:
    """A position without a cut: the log as it is."""
    identity = TopicMetadata("orders", KafkaCluster.named("shop"), topic).identity
    return position_of(identity, per_partition, closed=True)


def rows(spark: SparkSession, source: Kafka, position: Position, fields: Sequence[str]) -> list[dict[str, Any]]:
    """What is read, by topic partition and offset."""
    found = source.extract(spark, "orders", position, fields).orderBy("_source.block", "_source.row").collect()
    return [row.asDict(recursive=True) for row in found]


def test_a_message_is_read_with_what_kafka_knows_of_it(spark: SparkSession, kafka: KafkaServer, topic: str) -> None:
    kafka.create(topic)
    value = '{"id": 7, "amount": 1.10000000000000000000001, "extra": {"a": [1, "x"]}}'
    kafka.send(topic, [(0, "k1", value, ms(0.5) + 123)], {"trace": "abc"})
    source = Kafka("shop", topic)
    (found,) = rows(spark, source, whole(topic, {0: (0, 1)}), ALL)
    assert found | {"_present": sorted(found["_present"])} == {
        "_raw": {
            "id": "7", "amount": "1.10000000000000000000001", "note": None, "kafka_key": "k1",
            "kafka_timestamp": "2026-01-01T12:00:00.123Z", "kafka_partition": "0", "kafka_offset": "0",
            "kafka_headers": '[{"key":"trace","value":"abc"}]', "kafka_tombstone": "false",
        },
        "_payload": value,
        "_rescued": '{"extra":{"a":[1,"x"]}}',
        "_malformed": None,
        "_source": {"file": f"shop/{topic}/0", "block": 0, "row": 0},
        "_present": sorted(["id", "amount", *ALL[3:]]),
        "_skipped": None,
    }  # fmt: skip


def test_a_schema_around_key_and_value_is_taken_off(spark: SparkSession, kafka: KafkaServer, topic: str) -> None:
    kafka.create(topic)
    around = '{"schema": {"type": "struct", "fields": []}, "payload": {"id": 70e-1, "note": "schema and payload"}}'
    own = '{"schema": "mine", "payload": {"id": 8}}'
    key = '{"schema": {"type": "string"}, "payload": "k1"}'
    kafka.send(topic, [(0, key, around, ms(0)), (0, None, own, ms(0))])
    source = Kafka("shop", topic)
    found = rows(spark, source, whole(topic, {0: (0, 2)}), ["id", "note", "kafka_key"])
    assert [(row["_raw"], row["_payload"], row["_rescued"], row["_malformed"]) for row in found] == [
        ({"id": "70e-1", "note": "schema and payload", "kafka_key": key}, around, None, None),
        ({"id": None, "note": None, "kafka_key": None}, own, '{"payload":{"id":8},"schema":"mine"}', None),
    ]


def test_what_is_no_json_object_says_why(spark: SparkSession, kafka: KafkaServer, topic: str) -> None:
    kafka.create(topic)
    bad: list[Any] = ["", "{", "[1]", '{"id":1}{"id":2}', b"\xff{}", '"text"', b"\x00\x00\x00\x00\x01\x02\x0e"]
    bad += ['{"schema": {"type": "x"}, "payload": {"id": 1}}' + after for after in ("{}", " garbage")]
    kafka.send(topic, [(0, None, value, ms(0)) for value in bad])
    source = Kafka("shop", topic)
    found = rows(spark, source, whole(topic, {0: (0, 9)}), ["id", "kafka_offset"])
    assert [(row["_raw"], row["_payload"], row["_malformed"]) for row in found] == [
        ({"id": None, "kafka_offset": "0"}, "", "not valid JSON"),
        ({"id": None, "kafka_offset": "1"}, "{", "not valid JSON"),
        ({"id": None, "kafka_offset": "2"}, "[1]", "not a JSON object"),
        ({"id": None, "kafka_offset": "3"}, '{"id":1}{"id":2}', "not valid JSON"),
        ({"id": None, "kafka_offset": "4"}, "�{}", "not valid UTF-8"),
        ({"id": None, "kafka_offset": "5"}, '"text"', "not a JSON object"),
        (
            {"id": None, "kafka_offset": "6"},
            "\x00\x00\x00\x00\x01\x02\x0e",
            "not JSON: begins with a zero byte, as Avro and Protobuf of a schema registry; "
            'for Avro declare format="avro"',
        ),
        *(
            (
                {"id": None, "kafka_offset": str(number)},
                bad[number],
                "not valid JSON",
            )
            for number in (7, 8)
        ),
    ]


def test_keys_that_are_no_text_are_refused_where_somebody_asks_for_them(
    spark: SparkSession, kafka: KafkaServer, topic: str
) -> None:
    kafka.create(topic)
    keys = [number.to_bytes(8, "big") for number in (200, 201)]
    kafka.send(topic, [(0, keys[0], '{"id": 1}', ms(0)), (0, keys[1], None, ms(0)), (0, None, '{"id": 3}', ms(0))])
    source, position = Kafka("shop", topic), whole(topic, {0: (0, 3)})
    asked = rows(spark, source, position, ["id", "kafka_key", "kafka_tombstone"])
    assert [row["_malformed"] for row in asked] == ["the key of the message is not valid UTF-8"] * 2 + [None]
    assert [row["_malformed"] for row in rows(spark, source, position, ["id"])] == [None] * 3


def test_a_tombstone_has_the_fields_of_its_key_if_the_table_asks_for_it(
    spark: SparkSession, kafka: KafkaServer, topic: str
) -> None:
    kafka.create(topic)
    kafka.send(topic, [(0, "7", None, ms(0)), (0, '{"id": 8}', None, ms(0)), (0, None, None, ms(0))])
    source = Kafka("shop", topic, key="id")
    position = whole(topic, {0: (0, 3)})
    asked = rows(spark, source, position, ["id", "kafka_tombstone"])
    assert [(row["_raw"], row["_payload"], row["_malformed"], row["_present"], row["_skipped"]) for row in asked] == [
        ({"id": "7", "kafka_tombstone": "true"}, None, None, ["kafka_tombstone", "id"], None),
        ({"id": "8", "kafka_tombstone": "true"}, None, None, ["id", "kafka_tombstone"], None),
        ({"id": None, "kafka_tombstone": "true"}, None, None, ["kafka_tombstone"], None),
    ]
    assert [row["_skipped"] for row in rows(spark, source, position, ["id"])] == ["a tombstone"] * 3


def test_windows_together_are_read_once_and_a_large_one_by_several_tasks(
    spark: SparkSession, kafka: KafkaServer, topic: str, tmp_path: Path, clock: Callable[[float], None]
) -> None:
    kafka.create(topic, 2)
    kafka.send(topic, [message(n / 10, n % 2, n=n) for n in range(40)])
    look = Looking(topic, tmp_path, per_task=5)
    found = look.at(*map(window, (1, 2, 3, 4, 5)))
    frame = look.source.extract_windows(spark, "orders", found, ["n"])
    assert sorted((row["_window"], int(row["n"])) for row in frame.select("_window", "_raw.n").collect()) == [
        (day(1 + n // 10), n) for n in range(40)
    ]
    tasks = frame.groupBy(F.spark_partition_id().alias("task")).count().collect()
    assert (len(tasks), max(row["count"] for row in tasks) <= 5) == (8, True)
    far = {key: found[key] for key in (day(1), day(4))}
    apart = look.source.extract_windows(spark, "orders", far, ["n"])
    assert sorted(int(row["n"]) for row in apart.select("_raw.n").collect()) == [*range(10), *range(30, 40)]


def test_aborted_transactions_are_not_read_and_open_ones_are_waited_for(
    spark: SparkSession, kafka: KafkaServer, topic: str, tmp_path: Path, clock: Callable[[float], None]
) -> None:
    kafka.create(topic)
    producer = Producer({"bootstrap.servers": kafka.servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for number, end in enumerate(
        (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)
    ):
        producer.begin_transaction()
        producer.produce(topic, json.dumps({"n": number}), timestamp=ms(0.5))
        producer.flush(10)
        if number == 2:
            clock(0.9)
            assert Looking(topic, tmp_path).ranges(window(1)) == {day(1): {0: (0, 4)}}
        end(10)
    look = Looking(topic, tmp_path)
    clock(2)
    found = look.at(window(1))
    assert ranges(found) == {day(1): {0: (0, 6)}}  # three records, three markers of ends
    assert [row["_raw"] for row in rows(spark, look.source, found[day(1)], ["n"])] == [{"n": "0"}, {"n": "2"}]


class Order(Item):
    """With the order that Kafka gives."""

    kafka_offset: T.LongType = pa.Field(nullable=False)


def table(spark: SparkSession, folder: Path, topic: str, **options: Any) -> Loaded:
    changes = Changes(keys=["id"], sequence_by=["kafka_offset"], delete_when="kafka_tombstone = 'true'")
    return make(spark, folder, source=Kafka("shop", topic, **options), contract=Order, changes=changes)


def test_a_table_is_loaded_window_by_window_in_any_order(
    spark: SparkSession, kafka: KafkaServer, topic: str, tmp_path: Path, clock: Callable[[float], None]
) -> None:
    kafka.create(topic)
    orders = table(spark, tmp_path, topic, key="id")
    sent = [message(0.1, key="a", value="1"), message(0.2, key="b", value="1"), message(0.3, key="c", value="1"),
            message(1.1, key="a", value="2"), (0, "b", None, ms(1.2)), message(1.3, key="d", value="1")]  # fmt: skip
    kafka.send(topic, sent)
    clock(2.5)
    second = orders.load(2)
    assert orders.rows() == {("a", "2", None, 3), ("d", "1", None, 5)}
    orders.load(1)
    assert orders.rows() == {("a", "2", None, 3), ("c", "1", None, 2), ("d", "1", None, 5)}
    with pytest.raises(SourceMissing, match=r"Kafka\('shop', 'orders-\w+'\) has nothing for this window"):
        orders.load(3)
    kafka.send(topic, [message(2.2, key="c", value="2")])
    third = orders.load(3)
    clock(2.6)
    kafka.send(topic, [message(2.55, key="d", value="2")])
    said: list[str] = []
    again = orders.load(3, checkpoint=Checkpoint(third.record.fingerprint, clean=True), info=said.append)
    assert "orders 2026" not in said[0] and "read 1 new rows beside 1 ingested before" in said[0]
    assert orders.rows() == {("a", "2", None, 3), ("c", "2", None, 6), ("d", "2", None, 7)}
    assert (second.record.rows_read, third.record.rows_read, again.record.rows_read) == (3, 1, 2)
    clock(5)
    nothing = orders.load(4)
    assert (nothing.record.rows_read, nothing.record.summary) == (0, "0 offsets in 0 topic partitions")


def test_an_open_window_goes_on_although_its_first_messages_have_expired_since_they_were_landed(
    spark: SparkSession,
    kafka: KafkaServer,
    topic: str,
    tmp_path: Path,
    clock: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka.create(topic)
    kafka.send(topic, [message(0.1, id="a", value="1"), message(0.2, id="b", value="1")])
    clock(0.5)
    orders, most = table(spark, tmp_path, topic), gains.MOST_FILES
    orders.load(1)
    for number, limit in enumerate([most, 0, 0]):  # with 0 the window is to be read as a whole, which is not possible
        monkeypatch.setattr(gains, "MOST_FILES", limit)
        kafka.expire(topic, 0, 2 + number)
        kafka.send(topic, [message(0.3, id=f"{number}", value="2")])
        assert orders.load(1).record.rows_read == 3 + number
    assert {row[0] for row in orders.rows()} == {"a", "b", "0", "1", "2"}


LOG = Identity("c1", "t1")


@pytest.mark.parametrize(
    ("before", "now", "gained"),
    [
        ({0: (2, 5)}, {0: (2, 7)}, {0: (5, 7)}),
        ({0: (2, 5), 1: (0, 4)}, {0: (2, 5), 1: (0, 6)}, {1: (4, 6)}),
        ({0: (2, 5)}, {0: (2, 6), 1: (3, 9)}, {0: (5, 6), 1: (3, 9)}),
        ({0: (2, 5)}, {0: (2, 5)}, None),
        ({0: (2, 5)}, {0: (1, 6)}, None),
        ({0: (2, 5)}, {0: (2, 4), 1: (0, 9)}, None),
        ({0: (2, 5), 1: (0, 1)}, {0: (2, 8)}, None),
        ({}, {0: (0, 3)}, None),
    ],
)
def test_an_open_window_gains_the_offsets_after_those_it_had(
    before: Ranges, now: Ranges, gained: Ranges | None
) -> None:
    source, of = Kafka("shop", "orders"), partial(position_of, closed=False)
    found = source.gained(of(LOG, before), of(LOG, now))
    assert (None if found is None else ranges_of(found)) == gained
    assert source.gained(of(LOG, before), of(Identity("c1", "t2"), now)) is None, "another topic of this name"


def test_a_window_that_has_expired_fails_and_one_that_was_landed_loads_without_the_topic(
    spark: SparkSession, kafka: KafkaServer, topic: str, tmp_path: Path, clock: Callable[[float], None]
) -> None:
    kafka.create(topic)
    kafka.send(topic, [message(days, key="a", id=f"{days}", value="1") for days in (0.1, 0.2, 1.1, 1.2)])
    orders = table(spark, tmp_path, topic)
    landed = orders.load(1)
    second = detected(orders.table.source, "items", [window(2)], {}, first=FIRST, lake=orders.lake)
    kafka.expire(topic, 0, 3)
    assert not orders.replay(landed).ingested
    with pytest.raises(SourceUnreadable) as caught:
        orders.load(2)
    assert str(caught.value).startswith(
        f"items {day(2)}: the window is offsets 2 to 3 of partition 0 of topic '{topic}' of the Kafka cluster 'shop', "
        "which now holds 3 to 3. Rule: a window is read as a whole or not at all"
    )
    assert not orders.load(1).ingested  # although its checkpoint is not known
    kafka.delete(topic)
    kafka.create(topic)
    assert not orders.load(1).ingested
    with pytest.raises(SourceUnreadable, match="is not the one that was loaded"):
        orders.load(2)
    assert orders.rows() == {("0.1", "1", None, 0), ("0.2", "1", None, 1)}
    assert ranges(second) == {day(2): {0: (2, 4)}}


class TestTrouble:
    @pytest.fixture(autouse=True)
    def _on_the_last_day(self, clock: Callable[[float], None]) -> None:
        clock(30)

    def test_a_topic_that_is_not_there_is_named(self, topic: str, tmp_path: Path) -> None:
        with pytest.raises(SourceUnreadable, match=f"orders: there is no topic '{topic}' of the Kafka cluster 'shop'"):
            Looking(topic, tmp_path).at(window(1))

    def test_a_cluster_that_is_down_is_known_in_bounded_time(
        self, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", "127.0.0.1:9")
        began = time.monotonic()
        with pytest.raises(SourceUnavailable) as caught:
            Looking(topic, tmp_path).at(window(1))
        assert time.monotonic() - began < 25
        assert "orders: the Kafka cluster 'shop' does not answer (" in str(caught.value)
        assert "127.0.0.1" not in str(caught.value)

    def test_a_login_opens_a_secured_cluster_to_both_looks_and_spark(
        self, spark: SparkSession, kafka: KafkaServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kafka.create(topic)
        kafka.send(topic, [message(0.5, id="a")])
        self._log_in(monkeypatch, kafka, SECRET)
        look = Looking(topic, tmp_path)
        position = look.at(window(1))[day(1)]
        frame = look.source.extract(spark, "orders", position, ["id"])
        assert [row["id"] for row in frame.select("_raw.id").collect()] == ["a"]
        shown = f"{look.source!r} {look.source} {position} {frame._explain_string(extended=True)}"
        assert SECRET not in shown and kafka.secured not in shown

    def test_a_refused_login_is_told_without_the_password(
        self, kafka: KafkaServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._log_in(monkeypatch, kafka, "wrong-and-secret")
        with pytest.raises(SourceUnreadable) as caught:
            Looking(topic, tmp_path).at(window(1))
        assert "'shop' is refused (" in str(caught.value)
        assert "INCLOAD_KAFKA_SHOP_OPTIONS" in str(caught.value)
        assert "secret" not in str(caught.value)

    def test_options_that_make_no_sense_are_told_without_their_values(
        self, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for options, told in (
            ("secret", "INCLOAD_KAFKA_SHOP_OPTIONS is no JSON object of options"),
            ('{"no.such.option": "secret"}', "the options for the Kafka cluster 'shop' are wrong"),
            ('{"ssl.ca.location": "/secret", "security.protocol": "SSL"}', "the options for the Kafka cluster 'shop'"),
        ):
            monkeypatch.setenv("INCLOAD_KAFKA_SHOP_OPTIONS", options)
            with pytest.raises(SourceUnreadable, match=told) as caught:
                Looking(topic, tmp_path).at(window(1))
            assert "secret" not in str(caught.value)
        monkeypatch.delenv("INCLOAD_KAFKA_SHOP_SERVERS")
        with pytest.raises(SourceUnreadable, match="INCLOAD_KAFKA_SHOP_SERVERS is not set"):
            Looking(topic, tmp_path).at(window(1))

    @staticmethod
    def _log_in(monkeypatch: pytest.MonkeyPatch, kafka: KafkaServer, password: str) -> None:
        options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": kafka.user,
                   "sasl.password": password}  # fmt: skip
        monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", kafka.secured)
        monkeypatch.setenv("INCLOAD_KAFKA_SHOP_OPTIONS", json.dumps(options))


def test_a_cluster_that_goes_away_before_spark_reads_is_told_and_the_next_run_succeeds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Callable[[float], None]
) -> None:
    with running_kafka() as own:
        monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", own.server.servers)
        own.server.create("orders")
        own.server.send("orders", [message(0.5, id="a")])
        look = Looking("orders", tmp_path)
        frame = look.source.extract(spark, "orders", look.at(window(1))[day(1)], ["id"])
        own.stop()
        began = time.monotonic()
        with pytest.raises(Exception) as caught:
            frame.count()
        meaning = read_error("orders", caught.value, str(look.source))
        assert isinstance(meaning, SourceUnavailable), caught.value
        assert "orders: Kafka('shop', 'orders'): Kafka stopped answering while Spark read from it" in str(meaning)
        assert time.monotonic() - began < 60
        own.start()
        assert frame.count() == 1


def test_what_is_declared_wrongly_is_told() -> None:
    for source, told in (
        (Kafka("Shop!", "orders"), "orders: source: cluster is 'Shop!'"),
        (Kafka("shop", "or/ders"), "orders: source: topic is 'or/ders'"),
        (Kafka("shop", "orders", key="kafka_key"), "orders: source: key is 'kafka_key'"),
        (Kafka("shop", "orders", absent="never"), "orders: source: absent is 'never'"),  # type: ignore[arg-type]
        (Kafka("shop", "orders", per_task=0), "orders: source: per_task is 0"),
    ):
        with pytest.raises(DeclarationError, match=told):
            source.validate("orders")
    Kafka("shop", "orders.v1-x_y", key="id").validate("orders")
