"""From Debezium's envelopes (before, after, op, source) to the fields of the table that they tell of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.loading.combining import any_of
from incload_assets.loading.sources.base import PRESENT, SKIPPED
from incload_assets.loading.sources.debezium_envelope import PSEUDO_FIELDS, member, taken_apart
from incload_assets.loading.sources.debezium_types import item, text_of, texts_of
from incload_assets.loading.sources.reading_json import NO_FIELD

_OPERATIONS = ("c", "u", "d", "r", "t", "m")


@dataclass(frozen=True)
class Reading:
    """How events become rows.

    Args:
        table: Whose events are changes, ``schema.table``.
        keys: The columns that a delete is sure of.
        whole_before: Whether a delete has all columns of the row (REPLICA IDENTITY FULL).
        keys_change: Whether an unavailable value of a row under a new key is known from its old key.
        unavailable: The text that stands for an unavailable value.
        types: The contract's types by column.
        encodings: What is declared of columns; see :mod:`~incload_assets.loading.sources.debezium_types`.
        default: From a type to the encoding of its values where neither schema nor declaration tells.
    """

    table: str
    keys: tuple[str, ...]
    whole_before: bool
    keys_change: bool
    unavailable: str
    types: Mapping[str, T.DataType]
    encodings: Mapping[str, str]
    default: Callable[[T.DataType], str]


def table_rows(events: DataFrame, fields: Sequence[str], reading: Reading, *keep: str) -> DataFrame:
    """The rows of a table, one per event, with the columns of :class:`~incload_assets.loading.sources.base.Source`.

    Args:
        events: What the source of the events extracts: ``ENVELOPE``, ``PAYLOAD`` and ``keep``.
        fields: Names of the members of ``_raw``: columns of the table, ``PSEUDO_FIELDS``, or of ``keep``.
        reading: How.
        keep: Fields of the events' source to pass on.
    """
    others = [name for name in events.columns if name.startswith("_") and name not in ("_raw", PRESENT, SKIPPED)]
    known = taken_apart(events, reading.table, keep, others)
    columns = [name for name in fields if name not in PSEUDO_FIELDS and name not in keep]
    valued = known.withColumn("__values", _values(columns, reading))
    values = {name: F.col("__values")[i] for i, name in enumerate(columns)}
    named = F.array(*map(F.lit, columns)).cast("array<string>")
    unavailable = F.transform(
        "__values", lambda value, i: F.when(value == reading.unavailable, F.try_element_at(named, (i + 1).cast("int")))
    )
    lost = F.array_join(F.array_compact(unavailable), ", ")
    values |= {name: F.col(name) for name in PSEUDO_FIELDS} | {name: F.col(f"__{name}") for name in keep}
    rescued = F.map_filter("__row", lambda name, _: ~name.isin(list(fields)))
    present = F.array_union(F.map_keys("__row"), F.array(*map(F.lit, PSEUDO_FIELDS)))
    skipped, malformed = _skipped(reading), _malformed(reading, lost)
    return valued.withColumns({SKIPPED: skipped, "__malformed": malformed}).select(
        F.struct(*(values[name].alias(name) for name in fields)).alias("_raw"),
        F.when((F.col("cdc_op") != "d") & (F.size(rescued) > 0), F.to_json(rescued)).alias("_rescued"),
        F.when(F.col(SKIPPED).isNull(), F.col("__malformed")).alias("_malformed"),
        F.array_intersect(F.coalesce(present, F.array()), F.array(*map(F.lit, fields))).alias(PRESENT),
        SKIPPED,
        *(name for name in others if name not in ("_rescued", "_malformed")),
    )


def _values(columns: Sequence[str], reading: Reading) -> Column:
    """``array<string>``: the values of the columns, as text to be typed. In one expression, whose size is bounded."""
    items = []
    for name in columns:
        text = member("__row", name)
        if name not in reading.keys and not reading.whole_before:
            text = F.when(F.col("cdc_op") != "d", text)  # a delete has anything there, NULL or the column's default
        target, schema = reading.types.get(name, T.StringType()), F.try_element_at("__types", F.lit(name))
        items.append(item(text, target, reading.encodings.get(name), reading.default(target), schema))
    if not items:
        return F.array().cast("array<string>")
    if not any(isinstance(reading.types.get(name), T.ArrayType) for name in columns):
        return F.transform(F.array(*items), lambda of: text_of(of, reading.unavailable))
    return F.transform(
        F.array(*items),
        lambda of: F.when(of["is_array"], texts_of(of, reading.unavailable)).otherwise(
            text_of(of, reading.unavailable)
        ),
    )


def _skipped(reading: Reading) -> Column:
    """Why the record is no change of the table, NULL where it is one."""
    payload = F.col("_payload")
    tombstone = payload.isNull() | (F.col("_malformed").isNotNull() & (F.trim(payload) == "null"))
    elsewhere = F.col("_malformed").isNull() & F.col("__op").isin(*_OPERATIONS) & (F.col("__table") != reading.table)
    elsewhere &= F.col("__table") != ""
    return (
        F.when(F.col("__skipped").isNotNull(), F.col("__skipped"))
        .when(tombstone, "a tombstone")
        .when(F.col("__op") == "m", "a message in the log")
        .when(elsewhere, F.concat(F.lit("of the table "), F.col("__table")))
    )


def _malformed(reading: Reading, lost: Column) -> Column:
    op, quoted = F.col("__op"), F.concat(F.lit("op '"), F.col("__op"), F.lit("'"))
    image = F.when(op == "d", "before").otherwise("after")
    moved = F.concat(
        lost, F.lit(": not in this event, which tells of a new row or key; REPLICA IDENTITY FULL tells it")
    )
    wholly = ("r",) if reading.keys_change else ("r", "c")
    changed = [member("__old", key) != member("__row", key) for key in reading.keys]
    return F.coalesce(
        F.nullif("_malformed", F.lit(NO_FIELD)),  # said in other words below
        F.when(op.isNull() | F.col("__source").isNull(), "no event of Debezium: op or source is missing"),
        F.when(~op.isin(*_OPERATIONS), F.concat(quoted, F.lit(" is unknown"))),
        F.when((op != "t") & F.col("__row").isNull(), F.concat(quoted, F.lit(" without "), image)),
        F.when(
            F.col("cdc_sequence").isNull(), "source has neither lsn nor sequence: its place among others is unknown"
        ),
        F.when((op.isin(*wholly) | F.lit(reading.whole_before)) & (lost != ""), moved),
        F.when(
            (op == "u") & any_of(changed),
            "the key has another value before: not the table's primary key",
        ),
    )
