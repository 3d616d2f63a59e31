"""Metadata of a Kafka topic, without reading its records: identity, first and last offsets, offsets by time."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Self, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]  # as below

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.kafka import REQUEST_SECONDS, KafkaCluster
from incload_assets.sources.kafka.errors import REFUSED, client_error

_SPECS: Any = kafka_admin.OffsetSpec  # type: ignore[attr-defined]  # it is public, but not marked so
Answer = TypeVar("Answer")
Offsets = Mapping[int, int]
"""An offset per topic partition."""

_DOWN = KafkaError._ALL_BROKERS_DOWN
_MOVING = {
    KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE, KafkaError.OFFSET_NOT_AVAILABLE,
}  # fmt: skip
"""Errors while a topic partition moves from one broker to another, as when brokers are restarted."""
ATTEMPTS = 5
_FOR_EVER_MS = 100 * 366 * 86_400_000
DOWN_SECONDS = 3
"""Seconds without any connection to a broker after which the cluster counts as down."""


@dataclass(frozen=True)
class Identity:
    """The identity of a log; a recreated topic, or a topic of the same name in another cluster, has another one.

    Args:
        cluster: The cluster's id.
        topic: The topic's id.
    """

    cluster: str
    topic: str


@dataclass(frozen=True)
class Found:
    """The first record of a topic partition whose time is not before an instant.

    Args:
        offset: Offset of the record.
        time: Time of the record, in milliseconds since 1970.
    """

    offset: int
    time: int

    @classmethod
    def of(cls, answer: Any) -> Self:
        """The record in an answer of the client."""
        return cls(answer.offset, answer.timestamp)


class TopicMetadata:
    """The metadata of one topic; each request covers all its partitions.

    Only committed records count: the log ends where the oldest open transaction begins.

    Args:
        table_name: The asset's name, for messages.
        cluster: The cluster.
        topic: Name of the topic.
    """

    def __init__(self, table_name: str, cluster: KafkaCluster, topic: str) -> None:
        self._table, self._cluster, self._topic = table_name, cluster, topic
        self._trouble = dict[int, float]()
        with self._asking():
            self._admin = kafka_admin.AdminClient(cluster.client_options(self._note))

    @property
    def place(self) -> str:
        """The topic's description for messages."""
        return f"topic {self._topic!r} of the Kafka cluster {self._cluster.name!r}"

    @cached_property
    def identity(self) -> Identity:
        """The identity of the topic's log.

        Raises:
            SourceUnavailable: The cluster does not answer.
            SourceUnreadable: The cluster refuses, or has no such topic.
        """
        with self._asking():
            cluster = self._answer(self._admin.describe_cluster(request_timeout=REQUEST_SECONDS))
        return Identity(str(cluster.cluster_id), str(self._description.topic_id))

    def starts(self) -> dict[int, int]:
        """The oldest existing offset by topic partition; raises as :attr:`identity` does."""
        return {partition: found.offset for partition, found in self._offsets(_SPECS.earliest()).items()}

    def ends(self) -> dict[int, int]:
        """The offset after the newest record by topic partition; raises as :attr:`identity` does."""
        return {partition: found.offset for partition, found in self._offsets(_SPECS.latest()).items()}

    def first_since(self, instant: datetime) -> dict[int, Found]:
        """The first record not older than an instant, by topic partition; partitions without one are left out.

        Raises as :attr:`identity` does.
        """
        found = self._offsets(_SPECS.for_timestamp(max(0, round(instant.timestamp() * 1000))))
        return {partition: record for partition, record in found.items() if record.offset >= 0}

    @property
    def retention(self) -> timedelta | None:
        """Age at which records are removed; None: they are kept for ever. Raises as :attr:`identity` does."""
        topic = ConfigResource(ResourceType.TOPIC, self._topic)
        with self._asking():
            asked = self._admin.describe_configs([topic], request_timeout=REQUEST_SECONDS)
            config = self._answer(asked[topic])
        milliseconds = int(config["retention.ms"].value)
        bounded = 0 <= milliseconds < _FOR_EVER_MS and "delete" in config["cleanup.policy"].value
        return timedelta(milliseconds=milliseconds) if bounded else None

    @cached_property
    def _description(self) -> Any:
        with self._asking():
            asked = self._admin.describe_topics(TopicCollection([self._topic]), request_timeout=REQUEST_SECONDS)
            return self._answer(asked[self._topic])

    def _offsets(self, spec: Any) -> dict[int, Found]:
        places = [TopicPartition(self._topic, partition.id) for partition in self._description.partitions]
        with self._asking():
            for attempt in range(ATTEMPTS):
                asked = self._admin.list_offsets(
                    dict.fromkeys(places, spec),
                    isolation_level=IsolationLevel.READ_COMMITTED,
                    request_timeout=REQUEST_SECONDS,
                )
                try:
                    return {place.partition: Found.of(self._answer(future)) for place, future in asked.items()}
                except KafkaException as error:
                    if error.args[0].code() not in _MOVING or attempt == ATTEMPTS - 1:
                        raise
                    time.sleep(0.5)
        raise AssertionError("the last attempt returns or raises")

    def _answer(self, future: Future[Any]) -> Any:
        """The result of a request; a refused login only shows in the errors that the client reports meanwhile."""
        deadline = time.monotonic() + 2 * REQUEST_SECONDS
        while not future.done() and time.monotonic() < deadline and not self._trouble.keys() & REFUSED:
            self._admin.poll(0.02)
            if self._trouble.get(_DOWN, deadline) + DOWN_SECONDS < time.monotonic():
                raise KafkaException(KafkaError(_DOWN))
        return future.result(0)

    def _note(self, error: KafkaError) -> None:
        """Records when an error of the client first occurred."""
        self._trouble.setdefault(error.code(), time.monotonic())

    def _error(self, code: int) -> IncrementalLoadError:
        return client_error(self._table, self._cluster.name, self.place, [code, *self._trouble])

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise self._error(error.args[0].code()) from None  # the original text has addresses
        except TimeoutError:
            raise self._error(KafkaError._TIMED_OUT) from None


def least_calls(instants: Iterable[datetime], ask: Callable[[datetime], Answer]) -> dict[datetime, Answer]:
    """The results of ``ask`` for all instants, with few calls: between two equal results all others are equal, too.

    Args:
        instants: Ascending.
        ask: Function whose results grow with the instant.

    Example:
        >>> from datetime import UTC, timedelta
        >>> days = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(n) for n in range(100)]
        >>> asked = []
        >>> answers = least_calls(days, lambda day: asked.append(day) or day.month > 3)
        >>> len(answers), len(asked) < 12
        (100, True)
    """
    ordered = list(instants)
    known = {at: ask(at) for at in dict.fromkeys([*ordered[:1], *ordered[-1:]])}
    spans = [(0, len(ordered) - 1)]
    while spans:
        low, high = spans.pop()
        if high - low < 2:
            continue
        if known[ordered[low]] == known[ordered[high]]:
            known |= dict.fromkeys(ordered[low + 1 : high], known[ordered[low]])
            continue
        middle = (low + high) // 2
        known[ordered[middle]] = ask(ordered[middle])
        spans += [(low, middle), (middle, high)]
    return known
