"""Reads messages between offsets with Spark, and parses JSON messages to records."""

import json
from collections.abc import Mapping, Sequence

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.contract.contract import not_null
from incload_assets.contract.exact_json import is_single, loses_digits, marked, parsed, unmarked
from incload_assets.declaration.own_fields import OwnField
from incload_assets.declaration.source import PRESENT, SKIPPED
from incload_assets.platform.kafka import REQUEST_SECONDS, KafkaCluster
from incload_assets.sources.files.json import NO_FIELD, json_records
from incload_assets.sources.kafka.avro import UNDECODED
from incload_assets.sources.kafka.framed import (
    BINARY,
    BINARY_KEY,
    UNREAD_KEY,
    Framed,
    begins_as_json,
    is_framed,
    why_framed,
    without_frame,
)
from incload_assets.sources.kafka.windows import Ranges

MESSAGES = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, partition int, offset bigint, "
    "timestamp timestamp"
)
"""The columns of :func:`read_messages`."""
TOMBSTONE = "kafka_tombstone"
KEY = "kafka_key"
ABOUT = {
    KEY: OwnField(),
    "kafka_timestamp": OwnField(T.TimestampType()),
    "kafka_partition": OwnField(T.IntegerType()),
    "kafka_offset": OwnField(T.LongType()),
    "kafka_headers": OwnField(),
    TOMBSTONE: OwnField(T.BooleanType(), ("true", "false")),
}
"""Fields that every message has beside the fields of its value."""
_SCHEMA_AND_PAYLOAD = ("payload", "schema")


def read_messages(
    spark: SparkSession, cluster: KafkaCluster, topic: str, ranges: Ranges, per_task: int = 200_000
) -> DataFrame:
    """The messages between offsets (no range is empty), as :data:`MESSAGES`, at most ``per_task`` in one task."""
    if not ranges:
        return spark.createDataFrame([], MESSAGES)
    options = {
        **cluster.spark_options,
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({topic: sorted(ranges)}),
        "startingOffsets": json.dumps({topic: {str(p): begin for p, (begin, _) in ranges.items()}}),
        "endingOffsets": json.dumps({topic: {str(p): end for p, (_, end) in ranges.items()}}),
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "maxRecordsPerPartition": str(per_task),
        "kafkaConsumer.pollTimeoutMs": str(REQUEST_SECONDS * 1000),
        "fetchOffset.numRetries": "1",
    }
    found = spark.read.format("kafka").options(**options).load()
    return found.select("key", "value", "headers", "partition", "offset", "timestamp")


def json_messages(
    messages: DataFrame,
    place: str,
    fields: Sequence[str],
    key: str | None = None,
    *keep: str,
    framed: Framed | None = None,
) -> DataFrame:
    """The records of messages whose values are JSON objects, plain or as ``{"schema": …, "payload": {…}}``.

    They have the columns of :meth:`~incload_assets.declaration.source.Source.extract`, and ``keep``. ``place``, cluster
    and topic, begins their ``_source.file``; ``fields`` may name :data:`ABOUT`. The record of a tombstone is its key;
    tombstones are skipped unless ``kafka_tombstone`` is in ``fields``. A key that is no JSON object becomes the field
    ``key``. ``framed``: what follows the frames of a schema registry; None: messages have none. Messages that were
    Avro have a column ``__undecoded``, see :func:`~.avro.json_of_avro`.
    """
    of_avro = UNDECODED in messages.columns
    why = F.when(is_framed("value"), why_framed("value"))
    if framed is not None:
        unframed_key = F.when(_has_framed_object("key"), without_frame("key")).otherwise(F.col("key"))
        of_frame = {"__has_frame": is_framed("value"), "value": without_frame("value"), "key": unframed_key}
        messages = messages.withColumns(of_frame)
        why = F.when(F.col("__has_frame") & ~begins_as_json(F.col("value")), BINARY)
    why = F.col(UNDECODED) if of_avro else why
    message_key, value = F.col("key").cast("string"), F.col("value").cast("string")
    names_key = F.when(~_is_object(F.col("__key")), F.make_valid_utf8("__key")) if key else F.lit(None).cast("string")
    of_key = F.when(_is_object(F.col("__key")), F.col("__key")).otherwise("{}")
    source = F.struct(
        F.concat(F.lit(f"{place}/"), F.col("partition")).alias("file"),
        F.col("partition").cast("bigint").alias("block"),
        F.col("offset").alias("row"),
    )
    texts = (
        messages.withColumns({"__value": _payload(value), "__key": _payload(message_key)})
        .withColumn("__tombstone", F.col("__value").isNull())
        .select(
            F.when(F.col("__tombstone"), of_key).otherwise(F.col("__value")).alias("value"),
            source.alias("_source"),
            F.make_valid_utf8(value).alias("__text"),
            names_key.alias("__names_key"),
            why.alias("__why_framed"),
            F.is_valid_utf8(message_key).alias("__key_is_text"),
            is_framed("key").alias("__key_is_framed"),
            F.struct(*(column.alias(name) for name, column in _about(message_key).items())).alias("__about"),
            *keep,
        )
    )
    read = list(dict.fromkeys(name for name in fields if name not in ABOUT))
    more = ("__text", "__names_key", "__why_framed", "__key_is_text", "__key_is_framed", "__about")
    records = json_records(texts, read, *more, *keep)
    values: Mapping[str, Column] = {
        name: F.col("__about").getField(name) if name in ABOUT else F.col("_raw").getField(name) for name in fields
    }
    always = [F.lit(name) for name in fields if name in ABOUT]
    if key is not None and key in values:
        values = {**values, key: F.coalesce(values[key], "__names_key")}
    # a message without known fields is still identified by its key
    by_key = F.lit(KEY in fields) | F.col("__names_key").isNotNull()
    records = records.withColumn("_malformed", F.nullif("_malformed", F.when(by_key, NO_FIELD)))
    no_json = F.col("_malformed").isNotNull() & (F.col("_malformed") != NO_FIELD)
    malformed = F.when(no_json, F.col("__why_framed"))
    # different keys could become equal when they are made valid
    is_used = F.lit(key is not None or KEY in fields)
    no_key = F.when(is_used & ~F.col("__key_is_text"), "the key of the message is not valid UTF-8")
    if framed is not None or of_avro:
        reason = UNREAD_KEY if of_avro else BINARY_KEY
        no_key = F.coalesce(F.when(is_used & F.col("__key_is_framed"), reason), no_key)
    is_tombstone = F.col("__about").getField(TOMBSTONE) == "true"
    ignored = F.lit(TOMBSTONE not in fields)
    also = not_null(*always, F.when(F.col("__names_key").isNotNull(), F.lit(key)))
    return records.select(
        F.struct(*(column.alias(name) for name, column in values.items())).alias("_raw"),
        F.col("__text").alias("_payload"),
        "_rescued",
        F.coalesce(no_key, F.when(~is_tombstone, F.coalesce(malformed, "_malformed"))).alias("_malformed"),
        "_source",
        F.array_union(F.coalesce(PRESENT, F.array().cast("array<string>")), also).alias(PRESENT),
        F.when(is_tombstone & ignored, "a tombstone").alias(SKIPPED),
        *keep,
    )


def _about(key: Column) -> dict[str, Column]:
    at = F.date_format("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX")
    header = F.transform(
        "headers",
        lambda pair: F.struct(pair["key"].alias("key"), F.make_valid_utf8(pair["value"].cast("string")).alias("value")),
    )
    values = (
        F.make_valid_utf8(key), at, F.col("partition"), F.col("offset"), F.to_json(header), F.col("__tombstone")
    )  # fmt: skip
    return {name: value.cast("string") for name, value in zip(ABOUT, values, strict=True)}


def _payload(text: Column) -> Column:
    """The payload of a JSON text with schema and payload, otherwise the text itself; NULL for a null payload."""
    json = parsed(text, marked(text, loses_digits(text)))
    names = F.map_keys(F.try_variant_get(json, "$[0]", "map<string,variant>"))
    around = is_single(json) & (F.array_sort(names) == F.array(*map(F.lit, _SCHEMA_AND_PAYLOAD)))
    typed = F.try_variant_get(json, "$[0].schema.type", "string").isNotNull()
    may_be = text.contains('"schema"') & text.contains('"payload"')
    return F.when(may_be & around & typed, unmarked(F.try_variant_get(json, "$[0].payload", "string"))).otherwise(text)


def _has_framed_object(name: str) -> Column:
    """True if what follows the frame of a binary column is a JSON object."""
    return is_framed(name) & F.coalesce(_is_object(without_frame(name).cast("string")), F.lit(False))


def _is_object(text: Column) -> Column:
    json = parsed(text)
    return is_single(json) & F.try_variant_get(json, "$[0]", "map<string,variant>").isNotNull()
