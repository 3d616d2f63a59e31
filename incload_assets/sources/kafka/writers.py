"""The schemas with which the messages of a topic were written: from a schema registry, or declared."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.platform.errors import DeclarationError, SourceUnreadable
from incload_assets.platform.schema_registry import SchemaRegistry
from incload_assets.sources.files.avro_schema import Node, WrongSchema, adapted, inner, is_events
from incload_assets.sources.kafka.avro import is_readable, schema_id

_MOST_SCHEMAS = 200
"""Largest number of schemas in the messages that are read together; each is part of Spark's plan."""

Schemas = Mapping[int | None, Node]
"""Adapted schemas by id."""


def schemas_of(
    table_name: str, place: str, registry: SchemaRegistry, messages: DataFrame, parts: Sequence[str]
) -> list[Schemas]:
    """The schemas of the messages' ``parts`` (``value``, ``key``), by the ids in their frames; reads the messages once.

    Raises SourceUnreadable for an id without a readable Avro schema, SourceUnavailable without an answer.
    """
    ids = F.explode(F.array(*(F.struct(F.lit(part).alias("part"), schema_id(part).alias("id")) for part in parts)))
    found = (
        messages.select("partition", "offset", ids.alias("of"))
        .where(F.col("of.id").isNotNull())
        .groupBy("of.part", "of.id")
        .agg(F.min(F.struct("partition", "offset")).alias("first"))
        .orderBy("first")
        .head(_MOST_SCHEMAS + 1)
    )
    if len(found) > _MOST_SCHEMAS:
        raise SourceUnreadable(
            f"{table_name}: the messages of {place} that are read together have more than {_MOST_SCHEMAS} schemas",
            rule="an id in a frame is that of a schema, and schemas change seldom",
            remedy="check that the topic is written with a schema registry's serializer; or load fewer windows at once",
        )
    schemas: dict[str, dict[int | None, Node]] = {part: {} for part in parts}
    for part, number, first in found:
        what = f"{'the key of ' if part == 'key' else ''}the message at offset {first[1]} of partition {first[0]}"
        used_in = f"{table_name}: {what} of {place} has the schema with the id {number}"
        schemas[part][number] = _of_registry(registry, number, used_in)
    return [schemas[part] for part in parts]


def _of_registry(registry: SchemaRegistry, number: int, used_in: str) -> Node:
    schema = registry.schema(number, used_in)
    if schema.kind != "AVRO":
        raise SourceUnreadable(
            f"{used_in}, which is one of {schema.kind} in the schema registry {registry.name!r}",
            rule="messages of a topic that is declared with format='avro' are Avro",
            remedy="correct format, or have the producer write Avro",
        )
    try:
        node = adapted(schema.text, schema.references)
        return adapted(schema.text, schema.references, logical=False) if is_events(inner(node)) else node
    except WrongSchema as error:
        raise SourceUnreadable(
            f"{used_in}, which cannot be read with Avro's schema in the registry {registry.name!r}: {error}",
            rule="Spark reads Avro with schemas that end, and whose names are told apart without their case",
            remedy="have the producer write with another schema",
        ) from None


def check_declared(table_name: str, form: str, registry: str | None, schema: str | None, framed: str | None) -> None:
    """Checks that the options of a topic's format fit each other, and that a declared schema is one."""
    given = [name for name, value in (("registry", registry), ("schema", schema), ("framed", framed)) if value]
    if form == "json" and given and given != ["framed"]:
        raise DeclarationError(
            f"{table_name}: source: {given[0]} is given, and format is 'json'",
            rule="JSON is read without its schema",
            remedy=f"write format='avro', or drop {given[0]}; JSON with the frame of a registry has framed='json'",
        )
    if form == "avro" and given not in (["registry"], ["schema"]):
        raise DeclarationError(
            f"{table_name}: source: format is 'avro', and {' and '.join(given) or 'neither registry nor schema'} "
            f"{'are' if len(given) > 1 else 'is'} given",
            rule="Avro has no meaning without its schema: the one of the id in each message's frame, or a declared one",
            remedy="write registry='main' for messages of a schema registry; else schema='{\"type\": \"record\", …}'",
        )
    if schema is None:
        return
    try:
        declared_schema(schema)
    except WrongSchema as error:
        raise DeclarationError(
            f"{table_name}: source: schema is no schema of Avro that can be read: {error}",
            rule="it is the JSON of a record's schema",
            remedy="write the schema of the producer, for example Path(__file__).with_name('orders.avsc').read_text()",
        ) from None


@lru_cache(maxsize=64)
def declared_schema(text: str | None) -> Schemas:
    """The declared schema of messages without frames; empty for None. Raises WrongSchema."""
    if text is None:
        return {}
    node = adapted(text)
    if not is_readable(node):
        raise WrongSchema("it is no record")
    return {None: adapted(text, logical=False) if is_events(inner(node)) else node}
