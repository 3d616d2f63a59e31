"""CSV with a header, as in RFC 4180: quoted fields may hold delimiters, line breaks and doubled quotes.

Columns are known by the header of their own file, never by the place they have in another one: files are grouped by
header, each group is read by place, and mapped to names. An unquoted empty field is NULL, a quoted one is the empty
string. A record with more or fewer fields than its header is malformed; so is one with characters that its encoding
does not have, and one whose quote is still open at the end of the file.
"""

from collections.abc import Sequence

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from incload_assets.loading.sources.csv_shape import REPLACEMENT, CsvOptions, Shape, shapes_of
from incload_assets.loading.sources.records import (
    TIMES_AS_JSON,
    Records,
    block_order,
    numbered,
    reader_of,
    source_column,
    spark_path,
)
from incload_assets.loading.sources.template import Template

_NEVER = "\u0000\uffff\u0000"
"""A text that no field is: makes Spark tell an unquoted empty field (this one, hence NULL) from a quoted one."""


def read_csv(
    spark: SparkSession,
    table: str,
    template: Template,
    paths: Sequence[str],
    fields: Sequence[str],
    options: CsvOptions,
) -> list[Records]:
    """The records of the files, one group per header, all fields strings.

    Args:
        spark: The session.
        table: For messages.
        template: Which turns paths into keys.
        paths: Full paths.
        fields: Names of the members of ``_raw``.
        options: Delimiter and encoding.

    Raises:
        SourceUnreadable: A header cannot be decoded, or has a name twice.
    """
    groups: dict[Shape, list[str]] = {}
    for path, shape in shapes_of(table, template, paths, options).items():
        groups.setdefault(shape, []).append(path)
    return [_read_group(spark, template, shape, found, fields, options) for shape, found in groups.items()]


def _read_group(
    spark: SparkSession,
    template: Template,
    shape: Shape,
    paths: Sequence[str],
    fields: Sequence[str],
    options: CsvOptions,
) -> Records:
    names = [f"_c{index}" for index in range(len(shape.header))]
    first, last, corrupt = F.col(names[0]), F.col(names[-1]), F.col("__corrupt")
    # pruned columns would not be counted, and a malformed record would pass
    lines = reader_of(spark, columnPruning="false").csv(
        [spark_path(path) for path in paths],
        schema=", ".join(f"{name} string" for name in [*names, "__corrupt"]),
        header=True,
        multiLine=True,
        mode="PERMISSIVE",
        columnNameOfCorruptRecord="__corrupt",
        sep=options.delimiter.replace("\\", "\\\\"),  # Spark takes one as the beginning of a way to write another
        encoding=options.encoding,
        quote='"',
        escape='"',
        nullValue=_NEVER,
        emptyValue="",
    )
    # where line breaks are mixed, Spark leaves the first half of some; alone in a record it is a blank line
    blank = first.eqNullSafe("\r")
    if len(names) > 1:  # else a field of nothing but "\r", in quotes, looks the same
        blank = blank & F.coalesce(corrupt.isin("", "\r"), F.lit(False))
    lines = lines.select(
        *names[:-1],
        F.regexp_replace(last, r"\r\z", "").alias(names[-1]),
        "__corrupt",
        F.col("_metadata.file_path").alias("__path"),
        F.lit(0).alias("__block"),
        F.monotonically_increasing_id().alias("__order"),
        blank.alias("__blank"),
    ).where("NOT __blank")
    ends = F.lead(F.lit(False), 1, True).over(block_order())
    open_quote = F.lit(shape.ends_unquoted) & F.col("__end") & last.contains("\n")
    malformed = (
        F.when(corrupt.isNotNull(), f"not the {len(names)} fields of the header")
        .when(F.concat_ws("", *names).contains(REPLACEMENT), f"not valid {options.encoding}")
        .when(open_quote, "a quote is not closed")
    )
    values = dict(zip(shape.header, map(F.col, names), strict=True))
    rescued = {name: value for name, value in values.items() if name not in fields}
    frame = (
        numbered(lines, template)
        .withColumn("__end", ends)
        .withColumn("_malformed", malformed)
        .select(
            F.struct(*(_member(values.get(field)).alias(field) for field in fields)).alias("_raw"),
            F.when(F.length(corrupt) > 0, corrupt).otherwise(_as_json(values)).alias("_payload"),
            (F.when(F.col("_malformed").isNull(), _as_json(rescued)) if rescued else _member(None)).alias("_rescued"),
            "_malformed",
            source_column(),
        )
    )
    return Records(frame, [StringType() if field in values else None for field in fields])


def _member(value: Column | None) -> Column:
    if value is None:
        return F.lit(None).cast("string")
    return F.when(F.col("_malformed").isNull(), value)


def _as_json(values: dict[str, Column]) -> Column:
    pairs = [part for name, value in values.items() for part in (F.lit(name), value)]
    return F.to_json(F.create_map(*pairs), TIMES_AS_JSON)
