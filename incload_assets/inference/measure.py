"""Facts about a sample of rows, counted by aggregates in Spark; no row leaves it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.contract.conversion import NESTED, convert
from incload_assets.inference import evidence
from incload_assets.inference.column_types import of_variant
from incload_assets.inference.keys import Columns
from incload_assets.inference.personal import words
from incload_assets.platform.sql import col, quoted

ROWS = 20_000
"""Most rows of a sample."""
_LOOK: dict[T.DataType, str] = {
    T.LongType(): r"^\s*[+-]?\d", T.DoubleType(): r"^\s*[+-]?[\d.NnIi]", T.BooleanType(): r"^\s*[TtFf]",
    T.DateType(): r"^\s*\d{4}-", T.TimestampType(): r"^\s*\d{4}-",
}  # fmt: skip
"""Types that a text may have, with the beginning of such a text: conversions are slow, and most would be in vain."""
_TYPES = tuple(_LOOK)
_GROWING = (T.TimestampType(), T.LongType())
_EMAIL = r"^[^@\s]+@[^@\s]+\.[A-Za-z]{2,}$"
_PHONE = r"^(?=.*[+ (])(?!\d{4}-\d\d-\d\d)\+?\(?\d[\d ()/.-]{6,18}\d$"
_IP = r"^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)$"
_KINDS = {"op", "operation", "deleted", "action", "cdc"}
"""Words in the names of columns that say what kind of change a row is."""
_FEW = 12
UNREADABLE = "__unreadable"
"""Name of the column that says why a record could not be read."""


@dataclass(frozen=True)
class Field:
    """A column of a sample: its type in the source, and what is known of it beside its values."""

    name: str
    native: T.DataType
    quoted: bool = False
    stated: str = ""
    required: bool | None = None


@contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """The first rows of a frame, read once for all aggregates of the block."""
    rows = frame.limit(ROWS).persist()
    try:
        yield rows
    finally:
        rows.unpersist()


def sample_of(rows: DataFrame, fields: Sequence[Field]) -> evidence.Sample:
    """The facts about all columns of a kept frame; the values of text formats are strings."""
    types = dict(zip(rows.columns, (field.dataType for field in rows.schema.fields), strict=True))
    wanted = {"rows": F.count(F.lit(1)), "different": _different([_hashable(field.name, types) for field in fields])}
    for number, field in enumerate(fields):
        wanted |= {f"{number} {name}": fact for name, fact in _facts(field, types[field.name]).items()}
    found = _readable(rows).agg(*(fact.alias(name) for name, fact in wanted.items())).first()
    assert found is not None
    total, unreadable = found["rows"], rows.where(col(UNREADABLE).isNotNull()).count()
    facts = [
        {name: found[f"{number} {name}"] for name in _facts(field, types[field.name])}
        for number, field in enumerate(fields)
    ]
    columns = tuple(_column(field, total, of) for field, of in zip(fields, facts, strict=True))
    return evidence.Sample(columns=columns, rows=total, different=found["different"], unreadable=unreadable)


def counts_of(rows: DataFrame, sets: Sequence[Columns]) -> Mapping[Columns, int]:
    """The number of different values of each set of columns together."""
    if not sets:
        return {}
    types = {field.name: field.dataType for field in rows.schema.fields}
    different = (_different([_hashable(name, types) for name in names]).alias(str(n)) for n, names in enumerate(sets))
    found = _readable(rows).agg(*different).first()
    assert found is not None
    return dict(zip(sets, found, strict=True))


def json_fields(rows: DataFrame, name: str, written: str | None = None) -> list[Field]:
    """The members of a column of JSON objects, with the types of their values, in the order of one object.

    ``written`` is the column that has the objects as they were written, if their members were sorted since.
    """
    value = F.try_parse_json(col(name))
    is_object = F.startswith(F.trim(col(name)), F.lit("{"))
    found = rows.select(
        F.expr(
            f"schema_of_variant_agg(if(startswith(trim({quoted(name)}), '{{'), try_parse_json({quoted(name)}), NULL))"
        ),
        F.any_value(F.when(is_object & value.isNotNull(), F.json_object_keys(col(written or name))), ignoreNulls=True),
    ).first()
    if found is None or not found[0].startswith("OBJECT<"):
        return []
    [whole] = rows.sparkSession.createDataFrame([], f"whole {of_variant(found[0])}").schema.fields
    assert isinstance(whole.dataType, T.StructType)
    order = {member: place for place, member in enumerate(found[1] or ())}
    members = sorted(whole.dataType.fields, key=lambda member: order.get(member.name, len(order)))
    return [_json_field(member) for member in members]


def _json_field(member: T.StructField) -> Field:
    kind = member.dataType
    # the digits of a number in JSON say nothing about the precision of a decimal
    native = T.DoubleType() if isinstance(kind, T.DecimalType) else kind
    return Field(member.name, native, quoted=isinstance(kind, T.StringType))


def _facts(field: Field, kind: T.DataType) -> dict[str, Column]:
    """The aggregates for a column; ``kind`` is its type in the frame, which is text in text formats."""
    value = col(field.name)
    facts = {"filled": F.count(value), "distinct": _different([value]) if not isinstance(kind, NESTED) else F.lit(0)}
    if isinstance(field.native, T.TimestampType | T.TimestampNTZType | T.IntegralType | T.DateType):
        typed = value if not isinstance(kind, T.StringType) else convert(value, kind, field.native)
        facts["newest"] = F.max(typed).cast("string")
    if isinstance(field.native, T.FloatType | T.DoubleType | T.StringType) and not isinstance(kind, NESTED):
        facts |= _facts_of_text(field, value.cast("string"))
    return facts


def _facts_of_text(field: Field, text: Column) -> dict[str, Column]:
    zeros = "" if isinstance(field.native, T.StringType) and not field.quoted else "0*$"  # 1.50 has two digits in CSV
    fraction = F.regexp_extract(text, rf"^[+-]?\d+\.(\d*?){zeros or '$'}", 1)
    facts = {kind.simpleString(): F.count(_converted(text, kind)) for kind in _TYPES}
    facts |= {
        "zeros": F.count_if(text.rlike(r"^0\d+$")),
        "zoned": F.count_if(text.rlike(r"^\d{4}-\d\d-\d\d.*(?:Z|[+-]\d\d:?\d\d)$")),
        "inexact": F.count_if(text.rlike(r"(?i)^[+-]?(?:[\d.]+e[+-]?\d+|nan|inf(?:inity)?)$")),
        "scale": F.max(F.length(fraction)),
        "digits": F.max(F.length(F.regexp_extract(text, r"^[+-]?0*(\d*)", 1))),
        "emails": F.count_if(text.rlike(_EMAIL)),
        "phones": F.count_if(text.rlike(_PHONE)),
        "ips": F.count_if(text.rlike(_IP)),
        "newest": F.coalesce(*(F.max(_converted(text, kind)).cast("string") for kind in _GROWING)),
    }
    if words(field.name) & _KINDS:
        facts["values"] = F.sort_array(F.slice(F.collect_set(text), 1, _FEW))
    return facts


def _converted(text: Column, kind: T.DataType) -> Column:
    """A text as a load reads it for a type; NULL if it cannot be one."""
    return F.when(text.rlike(_LOOK[kind]), convert(text, T.StringType(), kind))


def _column(field: Field, rows: int, facts: Mapping[str, Any]) -> evidence.Column:
    counts = {name: facts.get(name) or 0 for name in ("zeros", "zoned", "inexact", "scale", "digits")}
    forms = {name: facts.get(name) or 0 for name in ("emails", "phones", "ips")}
    return evidence.Column(
        name=field.name,
        native=field.native,
        rows=rows,
        nulls=rows - facts["filled"],
        distinct=facts["distinct"],
        fits={name: facts[name] for kind in _TYPES if (name := kind.simpleString()) in facts},
        **counts,
        **forms,
        values=tuple(facts.get("values") or ()),
        newest=facts.get("newest"),
        quoted=field.quoted,
        stated=field.stated,
        required=field.required,
    )


def _readable(rows: DataFrame) -> DataFrame:
    return rows.where(col(UNREADABLE).isNull())


def _hashable(name: str, types: Mapping[str, T.DataType]) -> Column:
    return F.to_json(F.struct(col(name))) if isinstance(types[name], NESTED) else col(name)


def _different(values: Sequence[Column]) -> Column:
    """The number of different values; as one hash each, which a set of the sample's size holds without a repetition."""
    return F.size(F.collect_set(F.xxhash64(*values)))
