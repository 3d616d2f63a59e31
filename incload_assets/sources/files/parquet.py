"""Reader of Parquet files, grouped by the columns in their footers."""

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.sources.files.columns import FileColumns
from incload_assets.sources.files.footers import Footer, Schema, checked, lines_of, records_by_footer, records_of
from incload_assets.sources.files.parquet_types import (
    INT96,
    exact_text,
    fields_of,
    is_nanoseconds,
    keys_in,
    kinds_in,
    with_bytes,
)
from incload_assets.sources.files.records import Records, key_column, reader_of, spark_path
from incload_assets.sources.files.storage import store_errors, store_of
from incload_assets.sources.files.template import Template

_ENCRYPTED = b"PARE"
"""Last bytes of a file with an encrypted footer."""


def read_parquet(
    spark: SparkSession,
    table_name: str,
    template: Template,
    paths: Sequence[str],
    fields: Sequence[str],
    columns: FileColumns,
) -> list[Records]:
    """The rows of the files, one group per schema; ``_source.block`` is 0 and ``row`` counts through the file."""
    return records_by_footer(
        table_name,
        template,
        paths,
        columns,
        lambda path: Footer(schema_of(table_name, template, path)),
        lambda footer, found: _read_group(spark, template, footer.columns, found, fields),
    )


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
    for field in schema:
        if any(is_nanoseconds(kind) and kind != INT96 for kind in keys_in(field.type)):
            raise SourceUnreadable(
                f"{table_name}: the keys of the map {field.name!r} in {key} are nanoseconds",
                rule="tables store times in microseconds, in which two such keys could become equal",
                remedy="write the file with keys in microseconds",
            )
    return checked(table_name, key, schema)


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
    about = (
        key_column(template, metadata["file_path"]).alias("__file"),
        F.lit(0).alias("__block"),
        (metadata["row_index"] + 1).alias("__row"),
    )
    return records_of(lines_of(frame, schema, fields, *about, time=exact_text), schema, fields)
