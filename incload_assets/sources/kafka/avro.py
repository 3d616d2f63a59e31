"""Avro messages turned into JSON messages by Spark, each by the schema with which it was written.

A value becomes the JSON that converts to the contract's type without loss: integers and decimals with all their digits,
times in ISO 8601, bytes as base64, a union as the value that it has. A message that is no value of its schema, to the
last byte, is found and keeps its bytes.
"""

import json
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from incload_assets.sources.files.avro_schema import (
    Node,
    branches_of,
    connect_schema,
    fields_of,
    for_spark,
    inner,
    is_events,
)
from incload_assets.sources.files.avro_values import has_wrong_text, holds_text, is_bytes, plain_text, rendered, variant
from incload_assets.sources.files.records import TIMES_AS_JSON
from incload_assets.sources.kafka.framed import BYTES, NO_FRAME, UNREAD, is_framed

UNDECODED = "__undecoded"
"""Column with the reason why the value of a message is not read; NULL if it is."""
_END = secrets.token_bytes(16)
"""Bytes appended to each message: a value that ends where the message ends is followed by them."""
_OPTIONS = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}


@dataclass(frozen=True)
class Writers:
    """The adapted schemas of a topic's messages.

    Args:
        values, keys: By id in the frame; ``{None: …}``: of all values, which have no frame.
        targets: The contract's types by column.
        fields: The names of the table's fields, by which a field may be known that has another name now.
    """

    values: Mapping[int | None, Node]
    keys: Mapping[int | None, Node]
    targets: Mapping[str, T.DataType]
    fields: Collection[str]


def schema_id(name: str) -> Column:
    """The id in the frame of a binary column; NULL if it has no whole frame."""
    number = F.conv(F.hex(F.substring(name, 2, 4)), 16, 10).cast("bigint")
    return F.when(is_framed(name) & (F.length(name) >= BYTES), number)


def is_readable(node: Node) -> bool:
    """True if the values of a type are records, or maps, which are JSON objects."""
    return {one["type"] for one in branches_of(node)} in ({"record"}, {"map"}, {"record", "map"})


def json_of_avro(messages: DataFrame, writers: Writers) -> DataFrame:
    """Messages whose keys and values are JSON; a value that is not read is base64, and :data:`UNDECODED` says why.

    A key that is not read stays as it is.
    """
    framed = None not in writers.values
    ids = {"__value_id": schema_id("value") if framed else F.lit(None).cast("bigint"), "__key_id": schema_id("key")}
    staged = messages.withColumns(ids)
    both = (("value", writers.values), ("key", writers.keys))
    staged = staged.select(
        "*",
        *(_decoded(part, of, node).alias(_column(part, of)) for part, schemas in both for of, node in schemas.items()),
    )
    texts, keys = F.when(F.lit(False), None), F.when(F.lit(False), None)
    faults = F.when(F.col("value").isNull(), None)
    if framed:
        too_short = f"{UNREAD}shorter than the frame of a schema registry"
        faults = faults.when(~is_framed("value"), NO_FRAME).when(F.col("__value_id").isNull(), too_short)
    for of, node in writers.values.items():  # each is one flat expression, as expressions may nest only so deeply
        texts = texts.when(_is_of("value", of), _json(_column("value", of), node, writers))
        faults = faults.when(_is_of("value", of), _fault(of, node, writers))
    for of, node in writers.keys.items():
        keys = keys.when(_is_of("key", of) & _is_whole(_column("key", of)), _json(_column("key", of), node, None))
    key = F.coalesce(keys.cast("string").cast("binary"), "key")
    read = staged.withColumns({UNDECODED: faults.cast("string"), "__json": texts.cast("string"), "key": key})
    kept = F.when(F.col(UNDECODED).isNotNull(), F.base64("value")).otherwise(F.coalesce("__json", F.lit("null")))
    value = F.when(F.col("value").isNotNull(), kept.cast("binary"))
    return read.withColumn("value", value).select(*messages.columns, UNDECODED)


def _column(part: str, of: int | None) -> str:
    return f"__{part}_of_{of}"


def _is_of(part: str, of: int | None) -> Column:
    return F.col("value").isNotNull() if of is None else F.col(f"__{part}_id") == of


def _decoded(part: str, of: int | None, node: Node) -> Column:
    """A struct of the value and the bytes after it; of NULLs if the bytes are no value of the schema."""
    end = {"type": "fixed", "name": "End", "size": len(_END)}
    both = {"type": "record", "name": "Whole", "fields": [{"name": "it", "type": for_spark(node)},
                                                         {"name": "end", "type": end}]}  # fmt: skip
    body = F.col(part) if of is None else F.substring(F.col(part), F.lit(BYTES + 1), F.length(part))
    whole = F.when(_is_of(part, of), F.concat(body, F.lit(_END)))
    return from_avro(whole, json.dumps(both), _OPTIONS)


def _is_whole(column: str) -> Column:
    return F.coalesce(F.col(column)["end"] == F.lit(_END), F.lit(False))


def _fault(of: int | None, node: Node, writers: Writers) -> Column:
    schema = "the declared schema" if of is None else f"the schema with the id {of}"
    if not is_readable(node):
        return F.lit(f"{UNREAD}{schema} is no record")
    value = F.col(_column("value", of))["it"]
    wrong = [F.when(has_wrong_text(value.getField(name), kind), f"{name}: not valid UTF-8")
             for name, kind in fields_of(inner(node)) if holds_text(kind)]  # fmt: skip
    if inner(node)["type"] != "record" and holds_text(node):
        wrong = [F.when(has_wrong_text(value, node), "not valid UTF-8")]
    if not is_events(inner(node)):
        wrong += [F.when(value.getField(name).isNotNull() & ~_is_text(value.getField(name)),
                         f"{name}: bytes, not UTF-8")
                  for name, kind in fields_of(inner(node))
                  if is_bytes(kind) and isinstance(writers.targets.get(name), T.StringType)]  # fmt: skip
    broken = F.when(~_is_whole(_column("value", of)), f"the bytes are no value of {schema}")
    return F.concat(F.lit(UNREAD), F.coalesce(broken, *wrong))


def _json(column: str, node: Node, writers: Writers | None) -> Column:
    """The JSON text of a value, or the text of a key that is no record."""
    value, of = F.col(column)["it"], inner(node)
    if of["type"] == "union":
        return F.to_json(variant(value, of))
    if of["type"] in ("array", "map"):
        return F.to_json(rendered(value, of), TIMES_AS_JSON)
    if of["type"] != "record":
        return plain_text(rendered(value, of), of)
    if writers is None:
        return F.to_json(rendered(value, of), TIMES_AS_JSON)
    if is_events(of):
        around = F.lit(f'{{"schema":{json.dumps(connect_schema(of))},"payload":')
        return F.concat(around, F.to_json(rendered(value, of), TIMES_AS_JSON), F.lit("}"))
    if not fields_of(of):
        return F.lit("{}")
    known = _known_names(of, writers.fields)
    members = [
        _for_target(value.getField(name), kind, writers.targets.get(known[name])).alias(known[name])
        for name, kind in fields_of(of)
    ]
    return F.when(value.isNotNull(), F.to_json(F.struct(*members), TIMES_AS_JSON))


def _known_names(record: Node, fields: Collection[str]) -> dict[str, str]:
    """The name of each field for the table: its own, or an alias of it that the table has in its place."""
    taken = {name for name, _ in fields_of(record)}
    known = {}
    for one in record["fields"]:
        former = [name for name in one["aliases"] if name in fields and name not in taken]
        known[one["name"]] = former[0] if former and one["name"] not in fields else one["name"]
        taken.add(known[one["name"]])
    return known


def _for_target(value: Column, node: Node, target: T.DataType | None) -> Column:
    """A field of a message in the form that converts to the contract's type as the same value in Parquet does."""
    if inner(node)["type"] == "float" and isinstance(target, T.DoubleType):
        return value.cast("double")
    if is_bytes(node) and isinstance(target, T.StringType):
        return F.when(_is_text(value), value.cast("string"))
    if is_bytes(node) and target is not None and not isinstance(target, T.BinaryType):
        return F.concat(F.lit("bytes "), F.base64(value))  # base64 could be mistaken for a number
    return rendered(value, node)


def _is_text(value: Column) -> Column:
    return F.is_valid_utf8(value.cast("string"))
