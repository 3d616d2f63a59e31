"""Debezium's events as the origin of a table: recognized by their envelope, described by their schemas."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.inference.measure import ROWS, UNREADABLE, Field, json_fields
from incload_assets.inference.origin import WINDOW, Origin, Partitions
from incload_assets.inference.spelled import text, texts
from incload_assets.platform.errors import SourceUnreadable
from incload_assets.sources.debezium.connectors import CONNECTORS, POSTGRESQL
from incload_assets.sources.debezium.envelope import ENVELOPE, PAYLOAD, member
from incload_assets.sources.debezium.types import DECIMAL, OF_SCHEMA
from incload_assets.sources.kafka.messages import KEY

SEQUENCE = "cdc_sequence"
_ROW, _MEMBERS = "__row", "__members"
_PLAIN: Mapping[str, T.DataType] = {
    "boolean": T.BooleanType(), "int8": T.LongType(), "int16": T.LongType(), "int32": T.LongType(),
    "int64": T.LongType(), "float": T.DoubleType(), "double": T.DoubleType(), "float32": T.DoubleType(),
    "float64": T.DoubleType(), "bytes": T.BinaryType(), "string": T.StringType(),
}  # fmt: skip
_MOST_DIGITS = 38
UNKNOWN_LOG = "topic prefix/base name/1"


def origin_of_events(
    table: str,
    records: DataFrame,
    fields: Sequence[Field],
    source: str,
    kind: str,
    partitions: Partitions,
    newest: str,
    notes: Sequence[str],
) -> Origin | None:
    """The origin for records that are Debezium's events; None if they are not.

    Args:
        table: Name of the table that is declared.
        records: The records with ``_rescued``, all their members as JSON, ``_payload``; Kafka's with ``kafka_key``.
        fields: The members of the records.
        source: The expression that declares the source of the events.
        kind: Its name in ``incload_assets.assets``.
        partitions: The windows.
        newest: The partition key of the newest records.
        notes: Evidence about the inner source.

    Raises:
        SourceUnreadable: The events are of several tables, or have no key.
    """
    names = {field.name for field in fields}
    whole = F.col("_rescued")
    if PAYLOAD in names and "schema" in names:
        whole = F.get_json_object(whole, f"$.{PAYLOAD}")
    elif not {"op", "source"} <= names or not names & {"before", "after"}:
        return None
    rows = records.select(
        *(F.get_json_object(whole, f"$.{name}").alias(name) for name in ENVELOPE),
        F.get_json_object("_payload", "$.schema.fields").alias("schema"),
        F.col("_raw").getField(KEY).alias("key") if kind == "Kafka" else F.lit(None).cast("string").alias("key"),
    ).limit(ROWS)
    found = rows.where(F.col("op").isNotNull()).agg(*_facts()).first()
    if found is None or not found["events"]:
        return None
    connector = _connector(table, found["connectors"])
    name = _table(table, found[connector])
    schema = _members(found["schema"])
    image = F.coalesce("after", "before")
    data = rows.where(F.col("op").isin("c", "u", "r", "d")).select(image.alias(_ROW))
    of_values = json_fields(data, _ROW)
    keys, keys_why = _keys(found["key"], schema, of_values, table)
    described = _described(of_values, schema)
    members = F.try_variant_get(F.try_parse_json(_ROW), "$", "map<string,variant>")
    frame = data.withColumn(_MEMBERS, members).select(
        *(member(_MEMBERS, field.name).alias(field.name) for field in described),
        F.lit("").alias(SEQUENCE),
        F.lit(None).cast("string").alias(UNREADABLE),
        F.lit("").alias(WINDOW),
    )
    operations = ", ".join(found["operations"])
    return Origin(
        place=f"Debezium's events of {name}",
        frame=frame,
        fields=[
            *described,
            Field(SEQUENCE, T.StringType(), stated="made by Debezium() from positions in the log", required=True),
        ],
        source=f"Debezium({source}, table={text(name)}, keys={texts(keys)}{_declared(connector, found['logs'])})",
        imports=["Debezium", kind],
        partitions=partitions,
        newest=newest,
        keys=keys,
        keys_why=keys_why,
        sequence=SEQUENCE,
        sequence_why=f"orders all changes by their positions in {CONNECTORS[connector].label}'s log",
        changes="events.changes()",
        notes=[
            *notes,
            f"{found['events']:,} events of {name}, with the operations {operations}, "
            f"{'with' if schema else 'without'} schemas",
        ],
        questions=_questions(schema, connector, found["logs"]),
    )


def _facts() -> list[Any]:
    def fact(name: str) -> Column:
        return F.get_json_object("source", f"$.{name}")

    base = F.regexp_extract(fact("file"), r"^(.+)\.\d+$", 1)
    log = F.when(fact("server_id") != "0", F.concat(fact("name"), F.lit("/"), base, F.lit("/"), fact("server_id")))
    names = {of: F.array_join(F.array(*map(fact, kind.place)), ".", "") for of, kind in CONNECTORS.items()}
    return [
        F.count(F.lit(1)).alias("events"),
        *(F.sort_array(F.collect_set(name)).alias(of) for of, name in names.items()),
        F.collect_set(fact("connector")).alias("connectors"),
        F.sort_array(F.collect_set(log)).alias("logs"),
        F.sort_array(F.collect_set("op")).alias("operations"),
        F.any_value("schema", ignoreNulls=True).alias("schema"),
        F.any_value(F.when(F.col("op") != "t", F.col("key")), ignoreNulls=True).alias("key"),
    ]


def _connector(table: str, connectors: Sequence[str]) -> str:
    if len(connectors) > 1 or {*connectors} - {*CONNECTORS} or CONNECTORS[(connectors or [POSTGRESQL])[0]].documents:
        raise SourceUnreadable(
            f"{table}: the events are of the connector {', '.join(connectors)}",
            rule="a table is made of the events of one connector, and fields of documents are not recognized",
            remedy="declare the table by hand (incload docs sources), or read the database itself",
        )
    return connectors[0] if connectors else POSTGRESQL


def _table(table: str, names: Sequence[str]) -> str:
    named = [name for name in names if not name.startswith(".")]
    alike = [name for name in named if name.rpartition(".")[2] == table]
    chosen = named if len(named) == 1 else alike
    if len(chosen) != 1:
        raise SourceUnreadable(
            f"{table}: the events are of several tables: {', '.join(named)}",
            rule="a table is made of the events of one",
            remedy="name the table like one of them, without the schema",
        )
    return chosen[0]


def _members(schema: str | None) -> dict[str, Mapping[str, Any]]:
    """The schemas of the table's columns by name, from the schema that an event carries; empty without one."""
    for image in json.loads(schema) if schema else []:
        if image.get("field") in ("after", "before") and image.get("fields"):
            return {column["field"]: column for column in image["fields"]}
    return {}


def _keys(
    key: str | None, schema: Mapping[str, Mapping[str, Any]], columns: Sequence[Field], table: str
) -> tuple[list[str], str]:
    """The columns of the key, and why: the message's key, else the only column that is not optional."""
    whole = json.loads(key) if key and key.lstrip().startswith("{") else {}
    payload = whole.get("payload", whole) if isinstance(whole, dict) else {}
    names = {column.name for column in columns}
    if isinstance(payload, dict) and payload and {*payload} <= names:
        return [*payload], "the key of the messages"
    required = [name for name, of in schema.items() if not of.get("optional", True)]
    if len(required) == 1:
        return required, "the only column that is not optional in the events"
    likely = [name for name in ("id", f"{table.removesuffix('s')}_id") if name in names]
    if likely:
        return likely[:1], "by its name alone, as the records have no key. Is it the primary key?"
    raise SourceUnreadable(
        f"{table}: the events do not tell the primary key: {', '.join(sorted(names))}",
        rule="messages of a table with a primary key have it as their key",
        remedy="declare the table by hand, with keys=[…]; incload docs sources",
    )


def _described(columns: Sequence[Field], schema: Mapping[str, Mapping[str, Any]]) -> list[Field]:
    """The columns by their schemas, those without a value in the sample included; without schemas, by their values."""
    known = {field.name: field for field in columns}
    names = [*schema, *(name for name in known if name not in schema)]
    return [_by_schema(name, schema[name]) if name in schema else known[name] for name in names]


def _by_schema(name: str, described: Mapping[str, Any]) -> Field:
    of, plain = str(described.get("name") or ""), str(described.get("type"))
    encoding, stated = OF_SCHEMA.get(of, ""), f"{of.rpartition('.')[2] or plain} in the events' schema"
    parameters = described.get("parameters") or {}
    kind: T.DataType = _PLAIN.get(plain, T.StringType())
    if encoding == "date" or of.endswith("IsoDate"):
        kind = T.DateType()
    elif encoding.startswith("timestamp") or of.endswith(("ZonedTimestamp", "IsoTimestamp")):
        kind = T.TimestampType()
    elif encoding.startswith("time") or of.endswith("IsoTime"):
        kind = T.StringType()
    elif encoding == DECIMAL and "scale" in parameters:
        precision = min(_MOST_DIGITS, int(parameters.get("connect.decimal.precision", _MOST_DIGITS)))
        kind = T.DecimalType(precision, min(precision, int(parameters["scale"])))
    elif encoding == DECIMAL:
        kind, stated = T.StringType(), f"{stated}, a decimal without a fixed scale: text"
    return Field(name, kind, stated=stated, required=not described.get("optional", True))


def _declared(connector: str, logs: Sequence[str]) -> str:
    """The parameters that only another connector than PostgreSQL's needs."""
    if connector == POSTGRESQL:
        return ""
    of_logs = f", logs={texts(logs or [UNKNOWN_LOG])}" if CONNECTORS[connector].logs else ""
    return f", connector={text(connector)}{of_logs}"


def _questions(schema: Mapping[str, Any], connector: str, logs: Sequence[str]) -> list[str]:
    asked = []
    if CONNECTORS[connector].logs:
        asked.append(
            "are these all binary logs, in the order in which they were written? Positions in different logs have no "
            "order."
            if logs
            else "which binary log do the events have their positions in? A snapshot does not tell its server."
        )
    if not schema:
        asked.append(
            "the events carry no schemas: dates, instants and decimals look like numbers and texts. Declare "
            "T.DateType, T.TimestampType or T.DecimalType (with decimals= of Debezium) where they are."
        )
    if connector == POSTGRESQL:
        asked.append('has the table REPLICA IDENTITY FULL? Then replica_identity="full" makes loads cheaper.')
    return asked
