"""Reader of ORC files, grouped by the columns in their footers.

Spark would truncate nanoseconds, would shift local times to the zone of its Java, and would read days before 1582 by
another calendar than some writers write. So the ORC library gives times and days as text, with all digits and in the
proleptic Gregorian calendar, and the contract converts them. See *Types* in the specification of ORC 1.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.orc
import pyspark.sql.types as T
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.sources.files.columns import FileColumns
from incload_assets.sources.files.footers import Footer, checked, lines_of, records_by_footer, records_of
from incload_assets.sources.files.parquet_types import is_nanoseconds, kinds_in
from incload_assets.sources.files.records import Records, numbered, reader_of, spark_path
from incload_assets.sources.files.storage import store_errors, store_of
from incload_assets.sources.files.template import Template

_ZONES = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "UCT", "Etc/UCT", "Zulu", "Etc/Zulu", "Universal", "Etc/Universal")
_ZONE = rf" ({'|'.join(map(re.escape, _ZONES))})$"
"""The end of the text of an instant."""
_ANYWHERE = 64
"""Number of tasks that say their time zone: executors may have other Java options than the driver."""
_JAVA_ZONES = (
    f"SELECT DISTINCT java_method('java.lang.System', 'getProperty', 'user.timezone') FROM range(0, {_ANYWHERE}, 1, "
    f"{_ANYWHERE})"
)
# the ORC library takes days for Julian ones if a file names no calendar, and its C++ library names none
_BY_ARROW, _BY_JAVA = (("orc.proleptic.gregorian.default", proleptic) for proleptic in ("true", "false"))
_UNSURE = " or a second later"
"""The end of the text of a time that Arrow wrote, which no contract takes for a time."""
_FRACTION = r"\.(?!999[0-9]*[1-9])[0-9]*[1-9]"
"""A fraction of a second that is more than 0 and at most 0.999."""
_TRANSACTIONAL = {"operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"}
"""The columns of a file of a transactional table."""
_OPTIONS = {"mergeSchema": "false", "orc.proleptic.gregorian": "true", "orc.force.positional.evolution": "false"}


def read_orc(
    spark: SparkSession,
    table_name: str,
    template: Template,
    paths: Sequence[str],
    fields: Sequence[str],
    columns: FileColumns,
    size: int = 0,
) -> list[Records]:
    """The rows of the files, one group per schema; ``size`` in bytes, 0 if small."""

    def read_group(footer: Footer, found: Sequence[str]) -> Records:
        if any(is_nanoseconds(kind) for _, column in footer.columns for kind in kinds_in(column)):
            for zone in spark.sql(_JAVA_ZONES).head(_ANYWHERE):
                check_zone(table_name, template.name_of(found[0]), zone[0])
        return _read_group(spark, template, footer, found, fields, size)

    return records_by_footer(
        table_name, template, paths, columns, lambda path: footer_of(table_name, template, path), read_group
    )


def footer_of(table_name: str, template: Template, path: str) -> Footer:
    """The columns of a file, with the calendar of its days unless it names one, and the types of Spark.

    Refuses footers that cannot be read, columns that are encrypted, have no names or differ only in case, and types
    that Spark cannot read.
    """
    key = template.name_of(path)
    with store_errors(table_name, path, key), store_of(path).open(path, "rb", cache_type="none") as file:
        try:
            found = pyarrow.orc.ORCFile(file)
            schema, writer = found.schema, found.writer
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the store
                raise
            raise SourceUnreadable(
                f"{table_name}: the file {key} is not a whole ORC file of records",
                rule="an ORC file ends with a footer that names its columns",
                remedy="write the file again; it may have been cut off",
            ) from None
    _check_columns(table_name, key, schema)
    more = (_BY_ARROW if writer == "ORC_CPP" else _BY_JAVA, *_attributes(schema, "spark.sql.catalyst.type"))
    return Footer(checked(table_name, key, schema), more)


def _check_columns(table_name: str, key: str, schema: pa.Schema) -> None:
    for path, _ in _attributes(schema, "encrypt"):
        raise SourceUnreadable(
            f"{table_name}: the column {path!r} of the file {key} is encrypted",
            rule="ORC files are read without encryption keys, and would show NULL or a hash in place of the values",
            remedy="write the file without ORC's encryption",
        )
    if set(schema.names) == _TRANSACTIONAL:
        raise SourceUnreadable(
            f"{table_name}: the file {key} is of a transactional table of Hive",
            rule="such files hold inserts, updates and deletes, which Hive puts together, and no plain rows",
            remedy="export the table, for example INSERT OVERWRITE DIRECTORY … STORED AS ORC SELECT …",
        )
    if any("`" in field.name for _, field in _walk(schema)):
        raise SourceUnreadable(
            f"{table_name}: the file {key} has a column, or a member of one, with a backtick in its name",
            rule="Spark reads no such names from ORC files",
            remedy="write the file with other names",
        )
    if schema.names and all(name.startswith("_col") for name in schema.names):
        raise SourceUnreadable(
            f"{table_name}: the columns of the file {key} have no names, but numbers ({', '.join(schema.names[:3])})",
            rule="columns are found by name; Hive before version 2 wrote numbers, and Spark then goes by the order",
            remedy="write the file again with a newer version, for example INSERT OVERWRITE of the table's partition",
        )


def _attributes(fields: Iterable[pa.Field], name: str) -> Iterator[tuple[str, str]]:
    """The columns and members of columns that have an attribute, by their path, and its value."""
    for path, field in _walk(fields):
        if value := (field.metadata or {}).get(name.encode()):
            yield path, value.decode()


def _walk(fields: Iterable[pa.Field], within: str = "") -> Iterator[tuple[str, pa.Field]]:
    """The columns and members of columns by their path."""
    for field in fields:
        path = f"{within}{field.name}"
        yield path, field
        yield from _walk([field.type.field(index) for index in range(field.type.num_fields)], f"{path}.")


def check_zone(table_name: str, key: str, zone: str | None) -> None:
    """Refuses a Spark whose Java has another time zone than UTC: ORC would shift times that do not exist there."""
    if (zone or "UTC") not in _ZONES:
        raise SourceUnreadable(
            f"{table_name}: the file {key} has times, and the Java of Spark has the time zone {zone}",
            rule="the ORC library reads times in the zone of its Java, where some do not exist; UTC has all of them",
            remedy="start Spark again (incload stop); start a Spark of your own with -Duser.timezone=UTC in "
            "spark.driver.extraJavaOptions and spark.executor.extraJavaOptions",
        )


def _read_group(
    spark: SparkSession, template: Template, footer: Footer, paths: Sequence[str], fields: Sequence[str], size: int
) -> Records:
    files = [*map(spark_path, paths)]
    reader = reader_of(spark, paths, **_OPTIONS, **dict(footer.more[:1])).format("orc")
    schema = reader.load(files).schema
    stored = _with_text(schema)
    assert isinstance(stored, T.StructType)
    frame = reader.schema(stored).load(files)
    metadata = frame.metadataColumn("_metadata")
    about = (
        metadata["file_path"].alias("__path"),
        metadata["file_block_start"].alias("__block"),
        F.monotonically_increasing_id().alias("__order"),
    )
    time = _arrows_text if _BY_ARROW in footer.more else _text
    lines = lines_of(frame, footer.columns, fields, *about, time=time)
    return records_of(numbered(lines, template, paths, size), footer.columns, fields)


def _with_text(kind: T.DataType) -> T.DataType:
    """A type with text in place of times and days; local times of Spark stay, which are numbers in its files."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(one.name, _with_text(one.dataType)) for one in kind.fields])
    if isinstance(kind, T.MapType):
        return T.MapType(_with_text(kind.keyType), _with_text(kind.valueType))
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_with_text(kind.elementType))
    return T.StringType() if isinstance(kind, T.TimestampType | T.DateType) else kind


def _text(value: Column, kind: pa.DataType, iso: bool) -> Column:
    """A time as text, from the text of the ORC library, in which an instant ends with its zone."""
    text = F.regexp_replace(value, _ZONE, "") if kind.tz else value
    return F.concat(F.replace(text, F.lit(" "), F.lit("T")), F.lit("Z" if kind.tz else "")) if iso else text


def _arrows_text(value: Column, kind: pa.DataType, iso: bool) -> Column:
    """The same; Arrow writes the fraction of a time before 1970 as a negative one, which the library reads wrongly.

    It is a second off if the fraction that results is at most 0.999. A program that writes it as ORC demands is not
    told from Arrow, so such a time is marked.
    """
    found = value.startswith("0") | value.rlike("^1([0-8]|9[0-6])")
    return F.concat(_text(value, kind, iso), F.when(found & value.rlike(_FRACTION), _UNSURE).otherwise(""))
