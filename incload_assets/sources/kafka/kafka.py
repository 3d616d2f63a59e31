"""The source of JSON and Avro messages in a Kafka topic."""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.contract.contract import Contract
from incload_assets.declaration import window as windows_of
from incload_assets.declaration.declared import Declared
from incload_assets.declaration.field_types import check_types
from incload_assets.declaration.own_fields import OwnField
from incload_assets.declaration.source import Absent, DetectRequest, Position, RetentionMargin, Shows, Source
from incload_assets.declaration.window import Window
from incload_assets.platform.errors import DeclarationError, SourceUnreadable
from incload_assets.platform.kafka import NAME, KafkaCluster
from incload_assets.platform.schema_registry import SchemaRegistry
from incload_assets.sources.files.avro_schema import Node
from incload_assets.sources.kafka.avro import Writers, json_of_avro
from incload_assets.sources.kafka.errors import kafka_error
from incload_assets.sources.kafka.framed import Framed, refuse_framed
from incload_assets.sources.kafka.messages import ABOUT, KEY, TOMBSTONE, json_messages, read_messages
from incload_assets.sources.kafka.topic import TopicMetadata
from incload_assets.sources.kafka.windows import (
    Chooser,
    check_identity,
    chunks_of,
    gained_offsets,
    identity_of,
    positions,
    ranges_of,
)
from incload_assets.sources.kafka.writers import check_declared, declared_schema, schemas_of

Format = Literal["json", "avro"]
_NOT_IN_PAYLOADS = {KEY, "kafka_timestamp", "kafka_headers"}


@dataclass(frozen=True)
class Kafka(Source):
    """JSON or Avro messages of a topic, in windows of consecutive offsets.

    JSON is ``{…}`` or ``{"schema": …, "payload": {…}}``.

    - In each topic partition a window begins where the window before it ends. Window bounds are stored at the first
      detection after the end of a window, and never move; see :mod:`incload_assets.sources.kafka.windows`. A window
      that has not ended yet extends to the end of the log.
    - The first window begins at the topic's oldest record. New topic partitions begin in the window in which they are
      first seen.
    - A window fails if the topic no longer has its offsets, or is another topic of the same name. No offset is ever
      skipped or reset.
    - Beside the fields of a message's value a table can name ``kafka_key``, ``kafka_timestamp``, ``kafka_partition``,
      ``kafka_offset``, ``kafka_headers`` (a JSON array of objects with ``key`` and ``value``) and ``kafka_tombstone``.
    - A tombstone (no value) has the fields of its key; it is skipped unless the table names ``kafka_tombstone``, as in
      ``delete_when="kafka_tombstone = 'true'"``.
    - Avro is read by the schema with which a message was written. ``registry`` names the schema registry that has it by
      the id in the message's frame, see :class:`incload_assets.platform.schema_registry.SchemaRegistry`. A message that
      is no value of its schema is quarantined with its bytes as base64. Start Spark with ``INCLOAD_AVRO=true``, too.
    - Address and security come from ``INCLOAD_KAFKA_<CLUSTER>_SERVERS`` and ``…_OPTIONS``; see
      :class:`incload_assets.platform.kafka.KafkaCluster`. Start Spark with ``INCLOAD_KAFKA=true``.

    Args:
        cluster: Name of the cluster in the environment variables, in lower case.
        topic: Name of the topic.
        key: The field that gets a message's key, if the key is not a JSON object.
        absent: Whether the window that has not ended waits for its first message (``wait``) or is an empty window.
        framed: ``json``: messages and keys may begin with the frame of a schema registry (a zero byte and the id of a
            schema in four bytes), which is taken off; JSON without a frame is read, too. None: framed messages are
            refused.
        format: ``json`` or ``avro``.
        registry: Name, in the environment, of the schema registry whose frame begins each Avro message. A key with such
            a frame is read, too.
        schema: The schema of all Avro messages as JSON, if they have no frames.
        per_task: Largest number of messages that one Spark task reads.

    Example:
        >>> str(Kafka("shop", "orders"))
        "Kafka('shop', 'orders')"
    """

    cluster: Annotated[str, Field(pattern=f"^{NAME.pattern}$", description="letters, digits and _, in lower case")]
    topic: Annotated[
        str,
        Field(
            pattern=re.compile(r"\A(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}\Z"),
            description="a topic's name: letters, digits and ._-, and not . or ..",
        ),
    ]
    key: str | None = None
    absent: Absent = "wait"
    per_task: Annotated[int, Field(ge=1, description="1 message or more")] = field(default=200_000, repr=False)
    framed: Framed | None = field(default=None, repr=False)
    format: Format = field(default="json", repr=False)
    registry: Annotated[str, Field(pattern=f"^{NAME.pattern}$", description="letters, digits and _, in lower case")] | (
        None
    ) = field(default=None, repr=False)
    schema: str | None = field(default=None, repr=False)
    contract: Contract | None = field(init=False, default=None, repr=False, compare=False)

    shows: ClassVar[Shows] = Shows(inserts=True, updates=True, deletes=True)
    changes_while_read: ClassVar[bool] = True
    expires_rows: ClassVar[bool] = True

    def __repr__(self) -> str:
        """The declaration; without later options as it was before they existed, as it is part of the code version."""
        shown = [f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr]
        later = {"framed": None, "format": "json", "registry": None, "schema": None}
        shown += [f"{name}={value!r}" for name, usual in later.items() if (value := getattr(self, name)) != usual]
        return f"Kafka({', '.join(shown)})"

    def __str__(self) -> str:
        return f"Kafka({self.cluster!r}, {self.topic!r})"

    def explained(self) -> list[str]:
        """Sentences for people; see :meth:`Source.explained`."""
        return [
            f"Rows are read from the messages of the topic {self.topic} of the cluster {self.cluster}.",
            "A window begins at the offset where the one before it ends, the first at the topic's oldest "
            "message. A late "
            "message belongs to the window in which it arrives; a window never changes once it has ended.",
            "A load fails if the topic no longer has the offsets of its window. No offset is skipped or reset.",
            "A message without a value is skipped, unless the table names kafka_tombstone.",
        ]

    def validate(self, table_name: str) -> None:
        """Checks the names and options; see :meth:`Source.validate`."""
        check_types(table_name, "source: ", self)
        if self.key == "" or self.key in ABOUT:
            raise DeclarationError(
                f"{table_name}: source: key is {self.key!r}",
                rule="it is a field of the contract",
                remedy="write key='order_id'",
            )
        check_declared(table_name, self.format, self.registry, self.schema, self.framed)

    def for_contract(self, contract: Contract) -> "Kafka":
        """This source, which renders Avro values by the contract's types; see :meth:`Source.for_contract`."""
        made = copy(self)
        object.__setattr__(made, "contract", contract)
        return made

    @property
    def own_fields(self) -> Mapping[str, OwnField]:
        """The fields that every message has; see :meth:`Source.own_fields`."""
        return ABOUT

    def validate_changes(self, declared: Declared) -> None:
        """Checks that the table has the field for message keys; see :meth:`Source.validate_changes`."""
        contract = declared.contract
        if self.key is not None and self.key not in (*contract.names, *declared.asked):
            raise DeclarationError(
                f"{declared.table_name}: source: key is {self.key!r}, which {contract.model_name} does not have",
                rule=f"key names the column of the contract for a message's key ({', '.join(contract.names)})",
                remedy=f"name one of these columns, add {self.key!r} to {contract.model_name}, or drop key",
            )

    def check_rejected(self, table_name: str, window: Window, reason: str, rows: int, first: tuple[str, int]) -> None:
        """Refuses a window of messages with or without frames, unlike declared; see :meth:`Source.check_rejected`."""
        refuse_framed(table_name, window, self._place, reason, rows, first)

    def detect(self, request: DetectRequest) -> dict[str, Position]:
        """The offsets of each window; see :meth:`Source.detect`."""
        look = self._look(request.table_name)
        so_far = {
            w.end: {p: end for p, (_, end) in ranges_of(request.ingested[w.key]).items()}
            for w in request.windows
            if w.key in request.ingested
        }
        return positions(
            request.table_name,
            look,
            request.lake,
            request.windows,
            Chooser(look, request.first, so_far, windows_of.now()),
        )

    def extract(self, spark: SparkSession, table_name: str, position: Position, fields: Sequence[str]) -> DataFrame:
        """The messages between the offsets of a position; see :meth:`Source.extract`.

        ``_source.file`` is ``cluster/topic/partition``, ``block`` the topic partition, ``row`` the offset. If offsets
        are gone, or the topic is another one, it raises SourceUnreadable.
        """
        return self.extract_windows(spark, table_name, {"": position}, fields).drop("_window")

    def extract_windows(
        self, spark: SparkSession, table_name: str, positions: Mapping[str, Position], fields: Sequence[str]
    ) -> DataFrame:
        """The rows of several windows; consecutive windows are one read, and the offset determines the window."""
        places = [(p, *ends, key) for key, position in positions.items() for p, ends in ranges_of(position).items()]
        whole = _whole(places)
        if len(positions) > 1 and _count(whole.values()) > 2 * _count((begin, end) for _, begin, end, _ in places):
            return super().extract_windows(spark, table_name, positions, fields)
        self._check(table_name, positions)
        messages = read_messages(spark, KafkaCluster.named(self.cluster), self.topic, whole, self.per_task)
        place = spark.createDataFrame(places, "__partition int, __begin bigint, __end bigint, _window string")
        inside = (F.col("offset") >= F.col("__begin")) & (F.col("offset") < F.col("__end"))
        rows = messages.join(F.broadcast(place), (F.col("partition") == F.col("__partition")) & inside)
        place_of = f"{self.cluster}/{self.topic}"
        try:
            if self.format == "avro":
                rows = self._decoded(table_name, rows, fields)
            frame = json_messages(rows, place_of, fields, self.key, "_window", framed=self.framed)
            _ = frame.schema  # Spark loads the connector here
        except PySparkException as error:
            raise kafka_error(table_name, str(error), str(self)) or error from None
        return frame

    def gained(self, before: Position, now: Position) -> Position | None:
        """The offsets after those ingested before; see :meth:`Source.gained`."""
        return gained_offsets(before, now)

    def divided(
        self, table_name: str, position: Position, number: int, known: Sequence[Position] = ()
    ) -> list[Position]:
        """Ranges of offsets; see :meth:`Source.divided`."""
        return chunks_of(position, number, known)

    def _decoded(self, table_name: str, messages: DataFrame, fields: Sequence[str]) -> DataFrame:
        """Avro messages as JSON messages; their keys only if the table uses them."""
        values, keys = declared_schema(self.schema), dict[int | None, Node]()
        if self.registry is not None:
            uses_keys = self.key is not None or not {KEY, TOMBSTONE}.isdisjoint(fields)
            registry, parts = SchemaRegistry.named(self.registry), ("value", "key") if uses_keys else ("value",)
            values, *of_keys = schemas_of(table_name, self._place, registry, messages, parts)
            keys |= of_keys[0] if of_keys else {}
        targets = self.contract.types if self.contract else {}
        return json_of_avro(messages, Writers(values, keys, targets, fields))

    @property
    def _place(self) -> str:
        return f"topic {self.topic!r} of the Kafka cluster {self.cluster!r}"

    def unreadable_payloads(self, fields: Sequence[str]) -> str:
        """See :meth:`Source.unreadable_payloads`: a payload is the value of a message alone."""
        lost = sorted({*fields} & _NOT_IN_PAYLOADS | ({self.key} if self.key else set()))
        return f"{', '.join(lost)}: not in the payload, which is only the value of the message" if lost else ""

    @property
    def is_text(self) -> bool:
        """Messages are JSON, or become JSON."""
        return True

    def read_payloads(self, kept: DataFrame, fields: Sequence[str]) -> DataFrame:
        """The records of kept values of messages; see :meth:`Source.read_payloads`."""
        messages = kept.select(
            F.lit(None).cast("binary").alias("key"),
            F.col("_payload").cast("binary").alias("value"),
            F.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
            F.col("_source.block").cast("int").alias("partition"),
            F.col("_source.row").alias("offset"),
            F.lit(None).cast("timestamp").alias("timestamp"),
            F.col("_source").alias("__place"),
            "_window",
        )
        records = json_messages(messages, f"{self.cluster}/{self.topic}", fields, None, "__place", "_window")
        return records.withColumn("_source", F.col("__place")).drop("__place")  # the topic may have been renamed

    def settled(self, position: Position) -> bool:
        """True if the end of the window was stored when the window was ingested; see :meth:`Source.settled`."""
        return bool(position.detail.get("closed"))

    def records_in(self, position: Position) -> Mapping[str, int]:
        """The number of offsets of a position by topic partition."""
        return {str(partition): end - begin for partition, (begin, end) in ranges_of(position).items()}

    def headroom(self, table_name: str, positions: Mapping[Window, Position], now: datetime) -> list[RetentionMargin]:
        """The margin by the topic's ``retention.ms``, which the account must be allowed to read; see the base class.

        ``retention.bytes`` may remove messages earlier.
        """
        look = self._look(table_name)
        if not positions or (retention := look.retention) is None:
            return []
        there = look.first_since(datetime.fromtimestamp(0, UTC))
        oldest = []
        for window, position in positions.items():
            for partition, (begin, end) in ranges_of(position).items():
                first = there.get(partition)
                if begin < end and first is not None:  # a window after the topic's oldest record is as old as its start
                    older = begin <= first.offset
                    oldest.append(datetime.fromtimestamp(first.time / 1000, UTC) if older else window.start)
        if not oldest:
            return []
        removed = min(oldest) + retention
        when = "may have removed" if removed <= now else "removes"
        says = f"the topic {self.topic} {when} the oldest unloaded messages by {removed:%Y-%m-%d %H:%M} UTC"
        return [RetentionMargin(says, (removed - now) / retention, removed=removed)]

    def _look(self, table_name: str) -> TopicMetadata:
        return TopicMetadata(table_name, KafkaCluster.named(self.cluster), self.topic)

    def _check(self, table_name: str, positions: Mapping[str, Position]) -> None:
        """Checks that the topic still has all offsets to read, because Spark would notice late, or after minutes."""
        if not any(map(ranges_of, positions.values())):
            return
        look = self._look(table_name)
        starts, ends = look.starts(), look.ends()
        for key, position in positions.items():
            if ranges_of(position):
                check_identity(table_name, look, identity_of(position))
            for partition, (begin, end) in ranges_of(position).items():
                oldest, next_one = starts.get(partition, 0), ends.get(partition, 0)
                if begin < oldest or end > next_one:
                    raise SourceUnreadable(
                        f"{table_name} {key}: the window is offsets {begin} to {end - 1} of partition {partition} of "
                        f"{look.place}, which now holds {oldest} to {next_one - 1}",
                        rule="a window is read as a whole or not at all: expired messages are never skipped",
                        remedy="rows ingested before stay; have the missing messages sent again, and load within the "
                        "topic's retention.ms, or raise it",
                    )


def _count(ranges: Iterable[tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in ranges)


def _whole(places: Sequence[tuple[int, int, int, str]]) -> dict[int, tuple[int, int]]:
    """The range from the first to the last offset of each topic partition."""
    whole: dict[int, tuple[int, int]] = {}
    for partition, begin, end, _ in places:
        low, high = whole.get(partition, (begin, end))
        whole[partition] = (min(low, begin), max(high, end))
    return whole
