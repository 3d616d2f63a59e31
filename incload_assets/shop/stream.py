"""The shop's Kafka: a topic to which its tracker sends web events as the shop's clock advances."""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.kafka import REQUEST_SECONDS, KafkaCluster, provide
from incload_assets.platform.samples.topics import find_or_start
from incload_assets.platform.settings import Settings
from incload_assets.shop.calendar import PLATFORM_AFTER, midnight
from incload_assets.shop.feed import Record
from incload_assets.shop.plan import TradingPlan
from incload_assets.shop.web_events import WEB_EVENTS
from incload_assets.sources.kafka.errors import client_error

CLUSTER = "sample_shop"
"""The cluster's name, for ``INCLOAD_KAFKA_SAMPLE_SHOP_SERVERS`` etc.; if unset, a cluster is started on demand."""
TOPIC = WEB_EVENTS.table
PARTITIONS = 2

_PLACE = f"topic {TOPIC!r} of the Kafka cluster {CLUSTER!r}"
_HEADER = "shop-position"
_KEEP_ALL = {"retention.ms": "-1"}
_INSTANT = timedelta(microseconds=1)

Place = tuple[str, int]
"""A message's position: when its batch was due by the shop's clock, as sortable text; and its number in the batch."""


def send_web_events(settings: Settings, plan: TradingPlan, until: datetime) -> list[Record]:
    """Sends all events up to an instant of the shop's clock (UTC); returns the records that were sent.

    The last message of each topic partition records the progress. So events that were missed while Kafka was not
    available are sent later, and after a crash the rest of an unfinished batch. Raises SourceUnavailable without Kafka,
    SourceUnreadable if the configured cluster cannot be used, or another program writes to the topic.
    """
    begin = midnight(plan.calendar.opened + PLATFORM_AFTER)
    if until <= begin:
        return []  # the shop needs no Kafka before the first day of its platform
    cluster = KafkaCluster.named(CLUSTER, lambda: _sample(settings))
    with _looking() as trouble:
        reached = _reached(cluster, trouble)
    since = min((datetime.fromisoformat(due) for due, _ in reached.values()), default=begin)
    if len(reached) < PARTITIONS:
        since = begin
    sending = []
    for batch in plan.due(since - _INSTANT, until, [TOPIC]):
        for number, record in enumerate(batch.records):
            place, partition = (batch.due.isoformat(), number), _partition(record)
            if partition not in reached or reached[partition] < place:
                sending.append((partition, place, record))
    with _looking() as trouble:
        _send(cluster, sending, trouble)
    return [record for _, _, record in sending]


@dataclass
class _Trouble:
    """Errors that a client reports between requests."""

    codes: list[int] = field(default_factory=list)

    def note(self, error: KafkaError) -> None:
        """Records an error."""
        self.codes.append(error.code())


@contextmanager
def _looking() -> Iterator[_Trouble]:
    """Translates a client's errors, because their text contains addresses."""
    trouble = _Trouble()
    try:
        yield trouble
    except KafkaException as error:
        codes = [error.args[0].code(), *trouble.codes]
        raise client_error("shop", CLUSTER, _PLACE, codes) from None


def _reached(cluster: KafkaCluster, trouble: _Trouble) -> dict[int, Place]:
    """The position of the last message by topic partition, if it has one; creates the topic if there is none."""
    admin = AdminClient(cluster.client_options(trouble.note))
    if TOPIC not in admin.list_topics(timeout=REQUEST_SECONDS).topics:
        new = NewTopic(TOPIC, num_partitions=PARTITIONS, config=_KEEP_ALL)
        admin.create_topics([new])[TOPIC].result(2 * REQUEST_SECONDS)
        return {}
    options = {"group.id": "incload-shop", "enable.auto.commit": False, "auto.offset.reset": "error"}
    consumer = Consumer(cluster.client_options(trouble.note) | options)
    try:
        ends = [
            (partition, consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=REQUEST_SECONDS))
            for partition in range(PARTITIONS)
        ]
        last = [TopicPartition(TOPIC, partition, end - 1) for partition, (begin, end) in ends if end > begin]
        found = dict[int, Place]()
        consumer.assign(last)
        while len(found) < len(last):
            message = consumer.poll(REQUEST_SECONDS)
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            if (error := message.error()) is not None:
                raise KafkaException(error)
            found[message.partition() or 0] = _place_of(message)
        return found
    finally:
        consumer.close()


def _place_of(message: Message) -> Place:
    header = dict(message.headers() or ()).get(_HEADER)
    due, _, number = (header.decode(errors="replace") if isinstance(header, bytes) else "").partition("#")
    if not number.isdecimal():
        raise SourceUnreadable(
            f"shop: the last message in partition {message.partition()} of {_PLACE} is not the shop's",
            rule="the last message records how far the shop has sent, so nobody else may write to its topic",
            remedy="delete the topic; the shop then sends everything again into a new one",
        )
    return due, int(number)


def _send(cluster: KafkaCluster, sending: list[tuple[int, Place, Record]], trouble: _Trouble) -> None:
    """Sends all messages, in this order within each topic partition, none twice and none after a missing one."""
    failed: list[KafkaError] = []

    def taken(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    if not sending:
        return
    # without a guarantee against gaps, the next message would overtake one that timed out, which would then be lost
    options = {"enable.idempotence": True, "enable.gapless.guarantee": True, "linger.ms": 5,
               "message.timeout.ms": 2000 * REQUEST_SECONDS}  # fmt: skip
    producer = Producer(cluster.client_options(trouble.note) | options)
    for partition, (due, number), record in sending:
        headers: Mapping[str, str] = {_HEADER: f"{due}#{number}"}
        while True:
            try:
                producer.produce(
                    TOPIC, WEB_EVENTS.encode([record])[:-1], str(record.fields["visitor_id"]), partition,
                    on_delivery=taken, headers=dict(headers),
                )  # fmt: skip
                break
            except BufferError:  # its queue is full
                producer.poll(1)
        producer.poll(0)
        if failed:
            break
    left = producer.flush(3 * REQUEST_SECONDS)
    if failed:
        raise KafkaException(failed[0])
    if left:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def _partition(record: Record) -> int:
    """The topic partition of a record; all events of a visitor are in one, in order."""
    return zlib.crc32(str(record.fields["visitor_id"]).encode()) % PARTITIONS


def _sample(settings: Settings) -> KafkaCluster:
    return find_or_start(CLUSTER, settings, {TOPIC: PARTITIONS})


provide(CLUSTER, lambda: _sample(Settings()))
