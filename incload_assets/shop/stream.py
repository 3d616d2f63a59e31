"""The shop's own Kafka: a topic that its tracker sends web events into, as its clock advances."""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from incload_assets.shop.calendar import PLATFORM_AFTER, midnight
from incload_assets.shop.feed import Record
from incload_assets.shop.plan import TradingPlan
from incload_assets.shop.web_events import WEB_EVENTS
from incload_assets.sources.kafka.errors import client_error
from resources.errors import SourceUnreadable
from resources.kafka import REQUEST_SECONDS, KafkaCluster, provide
from resources.samples.topics import find_or_start
from resources.settings import Settings

CLUSTER = "sample_shop"
"""Its name: ``INCLOAD_KAFKA_SAMPLE_SHOP_SERVERS`` and so on; where they are not set, one that is started on demand."""
TOPIC = WEB_EVENTS.table
PARTITIONS = 2

_PLACE = f"topic {TOPIC!r} of the Kafka cluster {CLUSTER!r}"
_HEADER = "shop-position"
_KEEP_ALL = {"retention.ms": "-1"}
_INSTANT = timedelta(microseconds=1)

Place = tuple[str, int]
"""When a batch was due, by the shop's clock, as text whose order is that of time; and the number within the batch."""


def send_web_events(settings: Settings, plan: TradingPlan, until: datetime) -> list[Record]:
    """Bring the topic up to an instant of the shop's clock.

    It knows itself how far it is, by the last message of each topic partition: what it missed while it was not there is
    sent, and after a crash the rest of what had begun.

    Args:
        settings: Say where the home folder is.
        plan: What is sent when.
        until: UTC.

    Returns:
        What was sent.

    Raises:
        SourceUnavailable: Kafka is not there.
        SourceUnreadable: The environment names one that cannot be used, or somebody else writes to the topic.
    """
    begin = midnight(plan.calendar.opened + PLATFORM_AFTER)
    if until <= begin:
        return []  # before its platform is there, the shop needs no Kafka
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
    """What goes wrong between requests."""

    codes: list[int] = field(default_factory=list)

    def note(self, error: KafkaError) -> None:
        """Remember it."""
        self.codes.append(error.code())


@contextmanager
def _looking() -> Iterator[_Trouble]:
    """Say what a client's errors mean; their text has addresses."""
    trouble = _Trouble()
    try:
        yield trouble
    except KafkaException as error:
        codes = [error.args[0].code(), *trouble.codes]
        raise client_error("shop", CLUSTER, _PLACE, codes) from None


def _reached(cluster: KafkaCluster, trouble: _Trouble) -> dict[int, Place]:
    """The place of the last message of each topic partition that has one; the topic is made where there is none."""
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
    told = dict(message.headers() or ()).get(_HEADER)
    due, _, number = (told.decode(errors="replace") if isinstance(told, bytes) else "").partition("#")
    if not number.isdecimal():
        raise SourceUnreadable(
            f"shop: the last message in partition {message.partition()} of {_PLACE} is not the shop's",
            rule="the shop tells by its last message how far it has sent, so nobody else writes to its topic",
            remedy="delete the topic, and the shop sends everything again into a new one",
        )
    return due, int(number)


def _send(cluster: KafkaCluster, sending: list[tuple[int, Place, Record]], trouble: _Trouble) -> None:
    """All of them, in this order in each topic partition, and none twice or behind one that is missing."""
    failed: list[KafkaError] = []

    def taken(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    if not sending:
        return
    # without a guarantee against gaps, a message that timed out would be passed over by the next, and lost for good
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
    """What a visitor does is in one topic partition, in order."""
    return zlib.crc32(str(record.fields["visitor_id"]).encode()) % PARTITIONS


def _sample(settings: Settings) -> KafkaCluster:
    return find_or_start(CLUSTER, settings, {TOPIC: PARTITIONS})


provide(CLUSTER, lambda: _sample(Settings()))
