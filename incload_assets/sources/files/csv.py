"""Reader of CSV with a header, as in RFC 4180: quoted fields may hold delimiters, line breaks and doubled quotes.

Columns are identified by the header of their own file, never by their position in another file: files are grouped by
header, each group is read by position and mapped to names. An unquoted empty field is NULL, a quoted one is the empty
string. A record that cannot be parsed unambiguously is malformed, see :func:`_malformed`.

Spark's parser is lenient and does not report what it ignores, for example a carriage return after a closing quote. But
it returns the text of each record whose number of fields differs from the schema. So the schema has two fields more
than the header, and the text of each record is checked against the CSV grammar, in 0.3 of 2.5 s for 400,000 records.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from incload_assets.declaration.source import PRESENT
from incload_assets.sources.files.columns import FileColumns
from incload_assets.sources.files.csv_shape import REPLACEMENT, CsvOptions, Shape, shapes_of
from incload_assets.sources.files.records import TIMES_AS_JSON, Records, numbered, reader_of, source_column, spark_path
from incload_assets.sources.files.template import Template

_NEVER = "\u0000\uffff\u0000"
"""A text that no field has. As Spark's null value it distinguishes unquoted empty fields (NULL) from quoted ones."""
_NONE = "\uffff"
"""A code point that is no character, as the parser's escape; with its default Spark drops NULs in quoted fields."""
_MORE = 2
"""Number of fields beyond the header. One extra field is the likely fault, and the text of such a record is shown."""
_MOST = 20_480
"""Spark's default for the largest number of fields of a record."""
UNPARSED = (
    r"\A(?:not the \d+ fields of the header|not valid [\w-]+|U\+FFFF in quotes, which is not a character|"
    r"a quote is not closed|a line break without quotes|text after a closing quote|"
    r"a carriage return in quotes, in a file whose lines end with one|a repeated header, as in concatenated files)\z"
)
"""Pattern of the faults of :func:`_malformed`, and of invalid UTF-8 in JSON: the payload is not the whole record."""
_QUOTED = rf'"[^"{_NONE}]*+(?:""[^"{_NONE}]*+)*+"'


def read_csv(
    spark: SparkSession,
    table_name: str,
    template: Template,
    paths: Sequence[str],
    fields: Sequence[str],
    options: CsvOptions,
    columns: FileColumns,
) -> list[Records]:
    """The records of the files, one group per header, all fields as strings; ``fields`` names members of ``_raw``."""
    groups: dict[Shape, list[str]] = {}
    for path, shape in shapes_of(table_name, template, paths, options, columns).items():
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
    count, sep = len(shape.header), options.delimiter
    names, more = [f"_c{index}" for index in range(count)], [f"__more{index}" for index in range(_MORE)]
    text, last = F.col("__text"), F.col(names[-1])
    # otherwise Spark changes line breaks within quotes to "\n"
    ends = {} if shape.finds_line_ends else {"lineSep": "\n"}
    # with column pruning Spark would not count the fields
    lines = reader_of(spark, paths, columnPruning="false").csv(
        [spark_path(path) for path in paths],
        schema=", ".join(f"{name} string" for name in [*names, *more, "__text"]),
        header=True,
        multiLine=True,
        mode="PERMISSIVE",
        columnNameOfCorruptRecord="__text",
        sep=sep.replace("\\", "\\\\"),  # a single backslash begins an escape sequence in Spark
        encoding=options.encoding,
        quote='"',
        escape='"',
        charToEscapeQuoteEscaping=_NONE,
        nullValue=_NEVER,
        emptyValue="",
        maxColumns=max(_MOST, count + _MORE + 1),
        **ends,
    )
    # if a line ends with "\r\n", its last field includes the "\r", unless the field is quoted
    cut = last.endswith("\r") & ~text.endswith('\r"')
    lines = lines.select(
        *names[:-1],
        F.when(cut, F.nullif(F.substr(last, F.lit(1), F.length(last) - 1), F.lit(""))).otherwise(last).alias(names[-1]),
        *more,
        text,
        F.col("_metadata.file_path").alias("__path"),
        F.lit(0).alias("__block"),
        F.monotonically_increasing_id().alias("__order"),
        F.coalesce(F.col(names[0]).startswith("\r") & text.rlike(r"\A\r*+\z"), F.lit(False)).alias("__blank"),
    ).where("NOT __blank")
    values = dict(zip(shape.header, map(F.col, names), strict=True))
    rescued = {name: value for name, value in values.items() if name not in fields}
    as_read = F.coalesce(text, F.to_json(F.array(*names, *more)))
    frame = (
        numbered(lines, template)
        .withColumn("_malformed", _malformed(text, shape, options))
        .select(
            F.struct(*(_member(values.get(field)).alias(field) for field in fields)).alias("_raw"),
            F.when(F.col("_malformed").isNull(), _as_json(values)).otherwise(as_read).alias("_payload"),
            (F.when(F.col("_malformed").isNull(), _as_json(rescued)) if rescued else _member(None)).alias("_rescued"),
            "_malformed",
            source_column(),
        )
    )
    return Records(frame, [StringType() if field in values else None for field in fields])


def csv_payloads(kept: DataFrame, fields: Sequence[str], *more: Column, leave_out: Sequence[str] = ()) -> DataFrame:
    """Records of kept payloads (JSON objects of texts) by the names of the header, with ``more`` columns.

    ``leave_out`` are members of payloads that are no fields of the record.
    """
    values, nothing = F.col("__values"), F.lit(None).cast("string")
    others = F.map_filter(values, lambda name, _: ~name.isin([*fields, *leave_out]))
    return kept.withColumn("__values", F.from_json("_payload", "map<string,string>")).select(
        F.struct(*(F.try_element_at(values, F.lit(name)).alias(name) for name in fields)).alias("_raw"),
        "_payload",
        F.when(F.size(others) > 0, F.to_json(others, TIMES_AS_JSON)).alias("_rescued"),
        nothing.alias("_malformed"),
        "_source",
        F.array_intersect(F.map_keys(values), F.array(*map(F.lit, fields))).alias(PRESENT),
        "_window",
        *more,
    )


def _malformed(text: Column, shape: Shape, options: CsvOptions) -> Column:
    """Why the text of a record is not valid CSV, or may have been misread; NULL for a correct record."""
    # all repetitions are possessive, because Java stores each backtracking position on its stack
    sep, count = rf"\x{{{ord(options.delimiter):x}}}", len(shape.header)
    field = rf"(?:{_QUOTED}|[^\r\n\"{sep}][^\r\n{sep}]*+|)"
    other_count = F.lit(f"not the {count} fields of the header")
    unlike = (
        F.when(text.contains(_NONE), "U+FFFF in quotes, which is not a character")
        .when(text.rlike(rf'\A(?:{field}{sep})*+"[^"]*+(?:""[^"]*+)*+\z'), "a quote is not closed")
        .when(text.rlike(rf"\A{field}(?:{sep}{field})*+\z"), other_count)
        .when(F.regexp_replace(text, _QUOTED, "").rlike(r"[\r\n]"), "a line break without quotes")
        .otherwise("text after a closing quote")
    )
    malformed = (
        F.when(text.isNull(), other_count)
        .when(text.contains(REPLACEMENT), f"not valid {options.encoding}")
        .when(~text.rlike(rf"\A{field}(?:{sep}{field}){{{count - 1}}}+\z"), unlike)
    )
    if shape.finds_line_ends:
        malformed = malformed.when(
            text.contains("\r"), "a carriage return in quotes, in a file whose lines end with one"
        )
    if count > 1:
        plain = options.delimiter.join(shape.header)
        quoted = options.delimiter.join(f'"{name}"' for name in shape.header)
        again = [mark + header for mark in ("", "\ufeff") for header in (plain, quoted)]
        malformed = malformed.when(text.isin(again), "a repeated header, as in concatenated files")
    return malformed


def _member(value: Column | None) -> Column:
    if value is None:
        return F.lit(None).cast("string")
    return F.when(F.col("_malformed").isNull(), value)


def _as_json(values: dict[str, Column]) -> Column:
    pairs = [part for name, value in values.items() for part in (F.lit(name), value)]
    return F.to_json(F.create_map(*pairs), TIMES_AS_JSON)
