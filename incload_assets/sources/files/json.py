"""Reader of JSON lines, one object per line, without loss.

Every line is parsed as a *variant*, see :mod:`incload_assets.contract.exact_json`. Numbers keep their value but not
their spelling (1.10 becomes 1.1); ``_payload`` has the original line.

400,000 lines of five members take 1.2 s on two cores: 0.35 s for parsing, 0.45 s for the members' strings (Spark makes
a separate cast for each), 0.25 s for undeclared names. ``spark.read.json`` into strings takes 0.2 s, but it detects
neither duplicate names nor text after the object, and does not return the line; ``from_json`` takes 0.5 s. Taking
members from the map of names one by one is no faster.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from incload_assets.contract.exact_json import (
    is_single,
    loses_digits,
    marked,
    parsed,
    unmarked,
    unmarked_members,
    why_refused,
)
from incload_assets.declaration.source import PRESENT
from incload_assets.platform.sql import quoted
from incload_assets.sources.files.records import Records, numbered, reader_of, source_column, spark_path
from incload_assets.sources.files.template import Template

_BYTE_ORDER_MARK = "\ufeff"
NO_FIELD = "none of the table's fields is in the object"
"""Fault of an object that has only other names, which would become a row of NULLs."""
_REFUSED = "refused"


def read_json(
    spark: SparkSession, template: Template, paths: Sequence[str], fields: Sequence[str], size: int = 0
) -> list[Records]:
    """The lines of the files as records, all fields as strings, without blank lines; ``size`` in bytes, 0 if small."""
    if not paths:
        return []
    text = F.col("value")
    lines = (
        reader_of(spark, paths)
        .text([spark_path(path) for path in paths])
        .where(text.rlike(r"\S"))
        .select(
            F.when(text.startswith(_BYTE_ORDER_MARK), F.substr(text, F.lit(2))).otherwise(text).alias("value"),
            F.col("_metadata.file_path").alias("__path"),
            F.col("_metadata.file_block_start").alias("__block"),
            F.monotonically_increasing_id().alias("__order"),
        )
    )
    frame = json_records(numbered(lines, template, paths, size).select("value", source_column()), fields)
    return [Records(frame, [StringType()] * len(fields), varied=True)]


def json_records(texts: DataFrame, fields: Sequence[str], *keep: str) -> DataFrame:
    """JSON objects, one per row, with the columns of :meth:`~incload_assets.declaration.source.Source.extract`.

    For all sources whose records are JSON. An object may lack some fields, but not all of them.

    Args:
        texts: A frame with the columns ``value`` (string, one JSON object) and ``_source`` (struct<file: string, block:
            bigint, row: bigint>).
        fields: Names of the members of ``_raw``, all strings.
        keep: Other columns of ``texts`` to pass on, for example ``_window``.
    """
    text, json = F.col("value"), F.col("__json")
    record = F.when(is_single(json), F.try_variant_get(json, "$[0]", "map<string,variant>"))
    names, declared = F.map_keys("__record"), F.array(*map(F.lit, fields))
    # a variant sorts its names, so this finds at once that a record has exactly the declared names, as most have
    usual = names == F.array(*map(F.lit, sorted(fields)))
    # Spark interprets a whole projection that contains a lambda, so the lambda follows later, for the rare records
    undeclared = F.when(~usual & (F.size(F.array_except(names, declared)) > 0), F.col("__record"))
    rescued = F.to_json(F.map_filter("__undeclared", lambda name, _: ~name.isin(list(fields))))
    malformed = F.col("_malformed")
    fault = (
        F.when(F.col("__record").isNotNull(), None)
        .when(text.isNull(), "no value")
        .when(~F.is_valid_utf8(text), "not valid UTF-8")
        .when(json.isNull(), _REFUSED)
        .when(~is_single(json), "more than one JSON value in the line")
        .otherwise("not a JSON object")
    )
    members = F.try_variant_get(json, "$[0]", _strings(fields))
    raw = F.when(F.col("__loses_digits"), unmarked_members(members, _strings(fields))).otherwise(members)
    rescued = F.when(F.col("__loses_digits"), unmarked(rescued)).otherwise(rescued)
    has_none = F.size(PRESENT) == 0 if fields else F.lit(False)
    return (
        texts.withColumn("__loses_digits", loses_digits(text))
        .withColumn("__json", parsed(text, marked(text, F.col("__loses_digits"))))
        .withColumn("__record", record)
        .select(
            F.when(F.col("__record").isNotNull(), raw).alias("_raw"),
            F.make_valid_utf8(text).alias("_payload"),
            undeclared.alias("__undeclared"),
            fault.alias("_malformed"),
            "_source",
            F.when(usual, names).otherwise(F.array_intersect(names, declared)).alias(PRESENT),
            "__loses_digits",
            *keep,
        )
        .withColumns(
            {
                "_rescued": F.when(F.col("__undeclared").isNotNull(), rescued),
                "_malformed": F.when(has_none, NO_FIELD)
                .when(malformed == _REFUSED, why_refused(F.col("_payload")))
                .otherwise(malformed),
                # without an object, a struct of NULLs, however Spark evaluates it
                "_raw": F.struct(*(F.col("_raw").getField(field).alias(field) for field in fields)),
            }
        )
        .drop("__undeclared", "__loses_digits")
    )


def _strings(fields: Sequence[str]) -> str:
    """SQL type of a struct of strings, which extracts all members of an object at once."""
    return f"struct<{', '.join(f'{quoted(field)}: string' for field in fields)}>"
