"""Reader of Parquet files, grouped by the schema in their footers, because Spark uses one file's schema for all."""

import io
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.sql import quoted
from incload_assets.sources.files.columns import FileColumns
from incload_assets.sources.files.errors import file_error
from incload_assets.sources.files.parquet_types import (
    INT96,
    fields_of,
    is_nanoseconds,
    is_text,
    keys_in,
    kinds_in,
    unreadable,
    with_bytes,
    with_times,
)
from incload_assets.sources.files.records import (
    Records,
    in_json,
    key_column,
    reader_of,
    source_column,
    spark_path,
)
from incload_assets.sources.files.storage import store_errors, store_of
from incload_assets.sources.files.template import Template

_ENCRYPTED = b"PARE"
"""Last bytes of a file with an encrypted footer."""
Schema = tuple[tuple[str, pa.DataType], ...]


def read_parquet(
    spark: SparkSession,
    table_name: str,
    template: Template,
    paths: Sequence[str],
    fields: Sequence[str],
    columns: FileColumns,
) -> list[Records]:
    """The rows of the files, one group per schema; ``_source.block`` is 0 and ``row`` counts through the file."""
    groups: dict[Schema, list[str]] = {}
    with ThreadPoolExecutor(16) as readers:
        schemas = list(readers.map(lambda path: schema_of(table_name, template, path), paths))
    for path, schema in zip(paths, schemas, strict=True):
        columns.check(f"the file {template.name_of(path)}", dict(schema))
        groups.setdefault(schema, []).append(path)
    records = []
    for schema, found in groups.items():
        try:
            records.append(_read_group(spark, template, schema, found, fields))
        except AnalysisException as error:
            raise file_error(table_name, str(error)) or SourceUnreadable(
                f"{table_name}: Spark cannot read a type of Parquet in {template.name_of(found[0])}"
                f" ({error.getCondition()}: {error.getMessageParameters()})",
                rule="every column of a file is read, undeclared columns go to _rescued",
                remedy="write the column with another type, for example strings",
            ) from error
    return records


def schema_of(table_name: str, template: Template, path: str) -> Schema:
    """The columns of a file by name, read from its footer; times written as INT96 are instants.

    Refuses footers that cannot be read, columns that differ only in case, and unsupported types.
    """
    key = template.name_of(path)
    with store_errors(table_name, path, key), store_of(path).open(path, "rb", cache_type="none") as file:
        try:
            schema = fields_of(pq.read_metadata(file))
        except (pa.ArrowInvalid, OSError) as error:
            file.seek(max(0, file.seek(0, io.SEEK_END) - len(_ENCRYPTED)))
            if file.read() == _ENCRYPTED:
                raise SourceUnreadable(
                    f"{table_name}: the file {key} is encrypted",
                    rule="Parquet files are read without encryption keys",
                    remedy="write the file without Parquet's encryption",
                ) from None
            if not isinstance(error, pa.ArrowInvalid):
                raise
            raise SourceUnreadable(
                f"{table_name}: the file {key} is not a whole Parquet file",
                rule="a Parquet file ends with a footer",
                remedy="write the file again; it may have been cut off",
            ) from None
    names = Counter(field.name.casefold() for field in schema)
    for field in schema:
        if names[field.name.casefold()] > 1:
            raise SourceUnreadable(
                f"{table_name}: the file {key} has several columns {field.name!r} that differ at most in case",
                rule="Spark does not distinguish such columns of Parquet files",
                remedy="write the file with different names",
            )
        _check_type(table_name, key, field)
    return tuple(sorted(((field.name, field.type) for field in schema), key=itemgetter(0)))


def _check_type(table_name: str, key: str, field: pa.Field) -> None:
    if any(is_nanoseconds(kind) and kind != INT96 for kind in keys_in(field.type)):
        raise SourceUnreadable(
            f"{table_name}: the keys of the map {field.name!r} in {key} are nanoseconds",
            rule="tables store times in microseconds, in which two such keys could become equal",
            remedy="write the file with keys in microseconds",
        )
    for why, instead in filter(None, map(unreadable, kinds_in(field.type))):
        raise SourceUnreadable(
            f"{table_name}: the column {field.name!r} in {key} is {field.type}",
            rule=why,
            remedy=f"write the file with {instead}",
        )


def _read_group(
    spark: SparkSession, template: Template, schema: Schema, paths: Sequence[str], fields: Sequence[str]
) -> Records:
    kinds = {inner for _, kind in schema for inner in kinds_in(kind) if is_nanoseconds(inner)}
    # The settings stay set, because the rows are read later; they change no value of other files.
    if kinds:  # Spark reads nanoseconds only as the stored numbers
        spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    frame = reader_of(spark, paths, mergeSchema="false").parquet(*map(spark_path, paths))
    if INT96 in kinds:  # the vectorized reader does not return their bytes
        spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
        stored = with_bytes(frame.schema, pa.struct(schema))
        assert isinstance(stored, StructType)
        frame = reader_of(spark, paths).schema(stored).parquet(*map(spark_path, paths))
    metadata = frame.metadataColumn("_metadata")
    values = {name: with_times(F.col(quoted(name)), kind) for name, kind in schema}
    shown = {name: with_times(F.col(quoted(name)), kind, iso=True) for name, kind in schema}
    texts = [name for name, kind in schema if is_text(kind)]
    # writers of Parquet need not check UTF-8, but other readers of the table would refuse invalid text
    wrong = (F.when(~F.is_valid_utf8(values[name]), F.lit(f"{name}: not valid UTF-8")) for name in texts)
    malformed = F.coalesce(F.lit(None).cast("string"), *wrong)
    values |= (valid := {name: F.make_valid_utf8(values[name]) for name in texts})
    shown |= valid
    records = frame.select(
        F.struct(*(values.get(field, F.lit(None)).alias(field) for field in fields)).alias("_raw"),
        *in_json(shown, fields),
        malformed.alias("_malformed"),
        key_column(template, metadata["file_path"]).alias("__file"),
        F.lit(0).alias("__block"),
        (metadata["row_index"] + 1).alias("__row"),
    )
    raw = cast(StructType, records.schema["_raw"].dataType)
    return Records(
        records.select("_raw", "_payload", "_rescued", "_malformed", source_column()),
        [raw[field].dataType if field in values else None for field in fields],
    )
