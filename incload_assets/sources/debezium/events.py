"""Converts Debezium's envelopes (before, after, op, source) to rows of a table."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.contract.exact_json import unmarked
from incload_assets.declaration.source import PRESENT, SKIPPED
from incload_assets.platform.sql import any_of
from incload_assets.sources.debezium.connectors import CONNECTORS, POSTGRESQL
from incload_assets.sources.debezium.envelope import (
    BOUNDARY,
    HEARTBEAT,
    PSEUDO_FIELDS,
    SCHEMA_CHANGE,
    member,
    taken_apart,
)
from incload_assets.sources.debezium.types import VALUE, item, value_of
from incload_assets.sources.files.json import NO_FIELD

_OPERATIONS, _MESSAGE = ("c", "u", "d", "r", "t"), "m"
ELSEWHERE = "of the table "
"""Prefix of the reason why an event of another table is skipped."""


@dataclass(frozen=True)
class Reading:
    """Parameters of the conversion of events to rows.

    Args:
        connector: The events' connector, and ``logs`` its binary logs.
        keys: The columns that every delete has.
        whole_before: Whether a delete has all columns of the row.
        kept: Whether the table keeps a column's old value if the new one is unavailable.
        moves: Whether unavailable values of a row with a new key are taken from its old key.
        types, encodings: The contract's types, and declared encodings, by column.
        masked: The columns whose values no message may show.
        default: From a type to the encoding of its values if neither the schema nor the declaration has one.
    """

    table: str
    connector: str
    logs: tuple[str, ...]
    keys: tuple[str, ...]
    whole_before: bool
    unavailable: str
    kept: bool
    moves: bool
    types: Mapping[str, T.DataType]
    encodings: Mapping[str, str]
    masked: Collection[str]
    default: Callable[[T.DataType], str]


def table_rows(events: DataFrame, fields: Sequence[str], reading: Reading, *keep: str) -> DataFrame:
    """The rows of a table, one per event, with the columns of ``Source.extract``; ``keep`` are fields to pass on.

    ``fields`` names members of ``_raw``: columns of the table, ``PSEUDO_FIELDS``, or of ``keep``.
    """
    others = [name for name in events.columns if name.startswith("_") and name not in ("_raw", PRESENT, SKIPPED)]
    # an object without an envelope may be a heartbeat; otherwise it gets another fault below
    events = events.withColumn("_malformed", F.nullif("_malformed", F.lit(NO_FIELD)))
    known = taken_apart(events, reading.table, reading.connector, reading.logs, keep, others)
    columns = [name for name in fields if name not in PSEUDO_FIELDS and name not in keep]
    valued = known.withColumn("__values", _values(columns, reading))
    values = {name: F.col("__values")[i]["text"] for i, name in enumerate(columns)}
    named = F.array(*map(F.lit, columns)).cast("array<string>")

    def about(describe: Callable[[Column, Column], Column], separator: str) -> Column:
        texts = F.transform("__values", lambda value, i: describe(value, F.try_element_at(named, (i + 1).cast("int"))))
        return F.array_join(F.array_compact(texts), separator)

    lost = about(lambda value, name: F.when(value["text"] == reading.unavailable, name), ", ")
    broken = about(lambda value, name: F.concat(name, F.lit(": "), value["broken"]), "; ")
    values |= {name: F.col(name) for name in PSEUDO_FIELDS} | {name: F.col(f"__{name}") for name in keep}
    rescued = F.map_filter("__row", lambda name, _: ~name.isin(list(fields)))
    present = F.array_union(F.map_keys("__row"), F.array(*map(F.lit, PSEUDO_FIELDS)))
    skipped, malformed = _skipped(reading.connector), _malformed(reading, lost, broken)
    return valued.withColumns({SKIPPED: skipped, "__malformed": malformed}).select(
        F.struct(*(values[name].alias(name) for name in fields)).alias("_raw"),
        F.when((F.col("cdc_op") != "d") & (F.size(rescued) > 0), unmarked(F.to_json(rescued))).alias("_rescued"),
        F.when(F.col(SKIPPED).isNull(), F.col("__malformed")).alias("_malformed"),
        F.array_intersect(F.coalesce(present, F.array()), F.array(*map(F.lit, fields))).alias(PRESENT),
        SKIPPED,
        *(name for name in others if name not in ("_rescued", "_malformed")),
    )


def _values(columns: Sequence[str], reading: Reading) -> Column:
    """The values of the columns, an array of results of :func:`value_of`, in one expression of bounded size."""
    items = []
    for name in columns:
        value = F.try_element_at("__row", F.lit(name))
        if name not in reading.keys and not reading.whole_before:
            value = F.when(F.col("cdc_op") != "d", value)  # in a delete it is arbitrary, NULL or the column's default
        target, schema = reading.types.get(name, T.StringType()), F.try_element_at("__types", F.lit(name))
        made = item(value, target, reading.encodings.get(name), reading.default(target), schema, name in reading.masked)
        items.append(made)
    if not items:
        return F.array().cast(f"array<{VALUE}>")
    durations = CONNECTORS[reading.connector].logs  # MySQL's
    arrays = any(isinstance(reading.types.get(name), T.ArrayType) for name in columns)
    return F.transform(
        F.array(*items), lambda of: value_of(of, reading.unavailable, arrays=arrays, durations=durations)
    )


def _skipped(own: str) -> Column:
    """Why the record is not a change of the table; NULL if it is."""
    payload, op, rest = F.col("_payload"), F.col("__op"), F.col("__rest")
    tombstone = payload.isNull() | (F.col("_malformed").isNotNull() & (F.trim(payload) == "null"))
    whole = F.col("_malformed").isNull() & (F.coalesce(F.col("__connector"), F.lit(own)) == own)
    bare = F.col("_malformed").isNull() & op.isNull() & F.col("__source").isNull()
    return (
        F.when(F.col("__skipped").isNotNull(), F.col("__skipped"))
        .when(tombstone, "a tombstone")
        .when(whole & (op == _MESSAGE) & F.col("cdc_lsn").isNotNull(), "a message in the log")
        .when(whole & op.isin(*_OPERATIONS) & ~F.col("__own"), F.concat(F.lit(ELSEWHERE), F.col("__table")))
        .when(whole & op.isNull() & rest.rlike(SCHEMA_CHANGE), "a change of the schema")
        .when(bare & rest.rlike(HEARTBEAT), "a heartbeat")
        .when(bare & rest.rlike(BOUNDARY), "the begin or end of a transaction")
    )


def _malformed(reading: Reading, lost: Column, broken: Column) -> Column:
    op, connector, kind = F.col("__op"), F.col("__connector"), CONNECTORS[reading.connector]
    quoted = F.concat(F.lit("op '"), op, F.lit("'"))
    image = F.when(op == "d", "before").otherwise("after")
    missing = f"in this event, which creates a row or changes its key; {kind.completing}"
    if not (reading.kept or reading.whole_before):
        missing = f"in this event, and the table's changes do not declare unavailable; {kind.completing}"
    elif reading.connector != POSTGRESQL:
        missing = f"in this event; {kind.completing}"
    needed = op.isin(*(("r",) if reading.moves else ("r", "c"))) | F.lit(reading.whole_before or not reading.kept)
    changed = [member("__old", key) != member("__row", key) for key in reading.keys]
    return F.coalesce(
        F.col("_malformed"),
        F.when(
            connector != reading.connector,
            F.concat(
                F.lit("an event of Debezium's connector '"),
                connector,
                F.lit(f"', and connector is '{reading.connector}'"),
                F.when(
                    connector.isin(*CONNECTORS), F.concat(F.lit(": declare connector='"), connector, F.lit("'"))
                ).otherwise(f": the connectors are {', '.join(CONNECTORS)}"),
            ),
        ),
        F.when(
            op.isNull() | F.col("__source").isNull(),
            "not an event of Debezium: op or source is missing",
        ),
        F.when(
            F.col("__table").isNull(),
            f"source has {' or '.join(f'no {name}' for name in kind.place)}, unlike events of {kind.label}",
        ),
        F.when(~op.isin(*_OPERATIONS), F.concat(quoted, F.lit(" is unknown"))),
        F.when(
            (op != "t") & F.col("__row").isNull(),
            F.concat(quoted, F.lit(" without "), image, F.lit(f"; {kind.completing}" if kind.documents else "")),
        ),
        F.when(F.col("cdc_sequence").isNull(), F.col("__unordered")),
        F.when(
            F.map_contains_key("__row", "_id") & F.lit(kind.documents),
            "the document has a field 'id' beside '_id', which is read as 'id'",
        ),
        F.when(needed & (lost != ""), F.concat(lost, F.lit(f": not {missing}"))),
        F.when(
            (op == "u") & any_of(changed),
            "the key has another value in before: it is not the table's primary key",
        ),
        F.nullif(broken, F.lit("")),
    )
