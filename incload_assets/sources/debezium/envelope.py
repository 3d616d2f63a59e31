"""Parsing of Debezium's envelopes: op, before, after, source, with or without a schema around them."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.contract.exact_json import loses_digits, marked
from incload_assets.declaration.source import SKIPPED
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


CONNECTOR = "postgresql"
"""Name, in events, of the only supported connector."""
HEARTBEAT = r'^\{"ts_ms":\d+\}$'
"""Pattern of a heartbeat, as JSON text with sorted names."""
BOUNDARY = r'^\{"data_collections":.*,"event_count":(null|\d+),"id":".*","status":"(BEGIN|END)","ts_ms":\d+\}$'
"""Pattern of the begin or end of a transaction, as JSON text with sorted names."""


def taken_apart(events: DataFrame, table_name: str, keep: Sequence[str], others: Sequence[str]) -> DataFrame:
    """The parsed events, which have ``ENVELOPE``, ``PAYLOAD`` and ``keep`` in ``_raw``.

    ``table_name`` is the ``schema.table`` whose rows are read. The result has ``others``, ``PSEUDO_FIELDS``, ``keep``,
    and these columns, all with two underscores before their name: ``ENVELOPE`` as JSON text; ``connector``; ``table``
    (``schema.table`` or NULL); ``own`` (whether the event is of the table to read); ``rest`` (a record without an
    envelope, as JSON text); ``skipped``; ``row`` and, for updates, the former row ``old``, as maps of variants (NULL in
    events of other tables); ``types``, from a column to ``struct<encoding, scale>`` by the event's schema.
    """
    return _with_schema(_with_facts(_with_envelope(events, keep, others), table_name))


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


def _with_facts(events: DataFrame, own_table: str) -> DataFrame:
    """Adds the pseudo fields, the table's columns, and ``__row`` and ``__old``, see :func:`taken_apart`."""
    own_schema, _, own_name = own_table.partition(".")
    own = (_fact("schema") == own_schema) & (_fact("table") == own_name)
    row = F.when(F.col("__op") == "d", F.col("__before")).otherwise(F.col("__after"))
    old = F.when(F.col("__op") == "u", F.col("__before"))
    table = F.concat(F.nullif(_fact("schema"), F.lit("")), F.lit("."), F.nullif(_fact("table"), F.lit("")))
    micros = F.coalesce(_fact("ts_us", "bigint"), _fact("ts_ms", "bigint") * 1000)
    with_facts = events.withColumn("__facts", F.try_parse_json("__source")).withColumns(
        {
            "cdc_op": F.col("__op"),
            "cdc_lsn": _fact("lsn"),
            "cdc_tx": _fact("txId"),
            "cdc_snapshot": _fact("snapshot"),
            "cdc_committed_at": F.date_format(F.timestamp_micros(micros), "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"),
            "cdc_sequence": _sequence(),
            "__connector": _fact("connector"),
            "__table": table,
            "__own": F.coalesce(own, F.lit(False)),
        }
    )
    return with_facts.withColumns(
        {"__row": _members(F.when(F.col("__own"), row)), "__old": _members(F.when(F.col("__own"), old))}
    )


def _fact(name: str, kind: str = "string") -> Column:
    return F.try_variant_get("__facts", f"$.{name}", kind)


def _sequence() -> Column:
    """Two positions in the log: a lower bound for the change's commit, and the change's own. NULL if both are unknown.

    A change is written to the log before its transaction commits, and events come in the order of commits. So a
    change's own position may be before a change that the rows of a snapshot already include, although it is newer than
    these rows. Therefore the first position includes the end of the last transaction that committed before. Rows of an
    incremental snapshot only have that position, and the position up to which the log was read; they are older than any
    change that comes after the same position.
    """
    sequence = _fact("sequence")
    committed, read = (F.get_json_object(sequence, f"$[{i}]").try_cast("bigint") for i in (0, 1))
    own = _fact("lsn", "bigint")
    of_row = F.when(F.col("__op") == "r", 0).otherwise(F.coalesce(own, F.lit(0)))
    texts = [F.lpad(F.hex(number), 16, "0") for number in (F.greatest(own, committed, read), of_row)]
    return F.concat(texts[0], F.lit("/"), texts[1])


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
