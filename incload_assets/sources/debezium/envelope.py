"""Parsing of Debezium's envelopes: op, before, after, source, with or without a schema around them."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.contract.exact_json import loses_digits, marked
from incload_assets.declaration.source import SKIPPED
from incload_assets.platform.sql import all_of
from incload_assets.sources.debezium.connectors import CONNECTORS, POSTGRESQL
from incload_assets.sources.debezium.types import OF_SCHEMA, PLAIN

ENVELOPE = ("op", "before", "after", "source")
"""The members of an event that are read here, as JSON text."""
PAYLOAD = "payload"
"""Member with the envelope in an event that carries its schema."""
PSEUDO_FIELDS = ("cdc_op", "cdc_sequence", "cdc_lsn", "cdc_tx", "cdc_committed_at", "cdc_snapshot")

_SCHEMA = (
    "struct<fields: array<struct<field: string, fields: array<struct<field: string, name: string,"
    " parameters: struct<scale: string>, items: struct<name: string, parameters: struct<scale: string>>>>>>>"
)


HEARTBEAT = r'^\{"ts_ms":\d+\}$'
"""Pattern of a heartbeat, as JSON text with sorted names."""
BOUNDARY = r'^\{"data_collections":.*,"event_count":(null|\d+),"id":".*","status":"(BEGIN|END)","ts_ms":\d+\}$'
"""Pattern of the begin or end of a transaction, as JSON text with sorted names."""
SCHEMA_CHANGE = r'"databaseName":.*"ddl":.*"tableChanges":'
"""Pattern of a change of the database's schema, in JSON text with sorted names."""


def taken_apart(
    events: DataFrame, table_name: str, connector: str, logs: Sequence[str], keep: Sequence[str], others: Sequence[str]
) -> DataFrame:
    """The parsed events, which have ``ENVELOPE``, ``PAYLOAD`` and ``keep`` in ``_raw``.

    ``table_name`` is the table whose rows are read, with its schema or database, and ``connector`` the connector of its
    events; ``logs`` are its binary logs. The result has ``others``, ``PSEUDO_FIELDS``, ``keep``, and these columns, all
    with two underscores before their name: ``ENVELOPE`` as JSON text; ``connector``; ``table`` (the name or NULL);
    ``own`` (whether the event is of the table to read); ``rest`` (a record without an envelope, as JSON text);
    ``skipped``; ``row`` and, for updates, the former row ``old``, as maps of variants (NULL in events of other tables);
    ``types``, from a column to ``struct<encoding, scale>`` by the event's schema; ``unordered``, why the event has no
    position, for events without one.
    """
    return _with_schema(_with_facts(_with_envelope(events, keep, others), table_name, connector, logs))


def _with_envelope(events: DataFrame, keep: Sequence[str], others: Sequence[str]) -> DataFrame:
    raw, payload = F.col("_raw"), F.col("__payload")
    bare = F.coalesce(raw.getField("op"), raw.getField("source")).isNotNull()
    members = [
        F.when(bare, raw.getField(name)).otherwise(F.try_variant_get(payload, f"$.{name}", "string")).alias(f"__{name}")
        for name in ENVELOPE
    ]
    kept = [raw.getField(name).alias(f"__{name}") for name in keep]
    text = F.col("_payload")  # the whole record, even if the source extracted the payload from it
    schema = F.when(text.contains('"payload"'), F.try_variant_get(F.try_parse_json(text), "$.schema", "string"))
    skipped = F.col(SKIPPED) if SKIPPED in events.columns else F.lit(None).cast("string")
    rest = F.coalesce(raw.getField(PAYLOAD), "_rescued").alias("__rest")
    parsed = events.withColumn("__payload", _exact(raw.getField(PAYLOAD)))
    return parsed.select(*members, schema.alias("__schema"), skipped.alias("__skipped"), rest, *kept, *others)


def _with_facts(events: DataFrame, own_table: str, connector: str, logs: Sequence[str]) -> DataFrame:
    """Adds the pseudo fields, the table's columns, and ``__row`` and ``__old``, see :func:`taken_apart`."""
    kind = CONNECTORS[connector]
    names = own_table.split(".", len(kind.place) - 1)
    own = all_of([_fact(of) == name for of, name in zip(kind.place, names, strict=True)])
    row = F.when(F.col("__op") == "d", F.col("__before")).otherwise(F.col("__after"))
    old = F.when(F.col("__op") == "u", F.col("__before"))
    named = [F.nullif(_fact(of), F.lit("")) for of in kind.place]
    table = F.concat(named[0], *(piece for name in named[1:] for piece in (F.lit("."), name)))
    micros = F.coalesce(_fact("ts_us", "bigint"), _fact("ts_ms", "bigint") * 1000)
    none = F.lit(None).cast("string")
    with_facts = events.withColumn("__facts", F.try_parse_json("__source")).withColumns(
        {
            "cdc_op": F.col("__op"),
            "cdc_lsn": _fact("lsn") if connector == POSTGRESQL else none,
            "cdc_tx": _fact("txId") if connector == POSTGRESQL else none,
            "cdc_snapshot": _fact("snapshot"),
            "cdc_committed_at": F.date_format(F.timestamp_micros(micros), "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"),
            "cdc_sequence": kind.sequence(F.col("__op"), _fact, logs),
            "__unordered": kind.unordered(_fact),
            "__connector": _fact("connector"),
            "__table": table,
            "__own": F.coalesce(own, F.lit(False)),
        }
    )

    def members(text: Column) -> Column:
        text = F.when(F.col("__own"), text)
        return _with_id(_members(plain_document(text))) if kind.documents else _members(text)

    return with_facts.withColumns({"__row": members(row), "__old": members(old)})


def _fact(name: str, kind: str = "string") -> Column:
    return F.try_variant_get("__facts", f"$.{name}", kind)


def _with_schema(events: DataFrame) -> DataFrame:
    """Adds ``__types``, from a column to ``struct<encoding, scale>`` by the schema of the column or of its members."""
    parsed = F.from_json("__schema", _SCHEMA)
    after = F.try_element_at(F.filter(parsed["fields"], lambda member: member["field"] == "after"), F.lit(1))
    names = F.create_map(*(F.lit(text) for pair in OF_SCHEMA.items() for text in pair))

    def of(column: Column) -> Column:
        name = F.coalesce(column["name"], column["items"]["name"])
        scale = F.coalesce(column["parameters"]["scale"], column["items"]["parameters"]["scale"])
        encoding = F.coalesce(F.try_element_at(names, name), F.lit(PLAIN))
        return F.struct(column["field"], F.struct(encoding.alias("encoding"), scale.try_cast("int").alias("scale")))

    return events.withColumn("__types", F.map_from_entries(F.transform(after["fields"], of)))


def member(image: str, name: str) -> Column:
    """The text of a member of a map of variants; ``image`` is the name of the map's column."""
    return F.try_variant_get(F.try_element_at(image, F.lit(name)), "$", "string")


def _members(text: Column) -> Column:
    """A JSON object as a map of variants, with numbers as in :func:`_exact`; NULL if the text is not an object."""
    return F.try_variant_get(_exact(text), "$", "map<string,variant>")


def _exact(text: Column) -> Column:
    """The variant of a JSON text, with marks on the numbers that it would store as doubles."""
    return F.try_parse_json(marked(text, loses_digits(text)))


def plain_document(text: Column) -> Column:
    """A JSON text of MongoDB, whose values with a type, such as ``{"$numberLong": "1"}``, are numbers and texts.

    A text inside a document cannot look like that, because its quotes are escaped.
    """
    for name, value, made in _TYPED:
        text = F.regexp_replace(text, rf'\{{\s*"\${name}"\s*:\s*{value}\s*\}}', made)
    return text


_TYPED = (
    ("number(?:Long|Int)", r'"(-?\d+)"', "$1"),
    ("numberDouble", r'"(-?[\d.]+(?:[eE][+-]?\d+)?)"', "$1"),
    ("numberDecimal", r'"(-?[\d.]+(?:[eE][+-]?\d+)?)"', "$1"),
    ("oid", r'("[0-9a-f]{24}")', "$1"),
    ("date", r'("[^"]*"|-?\d+)', "$1"),
)


def _with_id(row: Column) -> Column:
    """The row with its key under the name that it has in the event's key; unchanged if the name is taken."""
    renamed = F.transform_keys(row, lambda name, _: F.when(name == "_id", "id").otherwise(name))
    return F.when(F.map_contains_key(row, "id"), row).otherwise(renamed)
