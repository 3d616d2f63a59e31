"""Reads the files of a position as one DataFrame: files with the same shape together, then the union of all shapes."""

from collections.abc import Callable, Collection, Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType

from incload_assets.contract.conversion import bytes_faults, text_for
from incload_assets.declaration.source import EXTRACTED_COLUMNS, PRESENT
from incload_assets.platform.errors import SourceChanged, SourceUnreadable
from incload_assets.platform.object_stores import in_object_store
from incload_assets.platform.sql import union_of
from incload_assets.platform.wording import some
from incload_assets.sources.files.avro import read_avro
from incload_assets.sources.files.columns import FileColumns
from incload_assets.sources.files.compressed import PACKED, Format, check_frames, compression_of, format_of
from incload_assets.sources.files.csv import read_csv
from incload_assets.sources.files.csv_shape import CsvOptions
from incload_assets.sources.files.hashes import local_hashes
from incload_assets.sources.files.json import read_json
from incload_assets.sources.files.names import is_hidden
from incload_assets.sources.files.orc import read_orc
from incload_assets.sources.files.parquet import read_parquet
from incload_assets.sources.files.position import File
from incload_assets.sources.files.records import Records
from incload_assets.sources.files.template import Template

_LISTED_BY_DRIVER = 32
"""Spark's default for the number of paths that it lists without starting tasks."""

_EMPTY = (
    "_raw struct<{members}>, _payload string, _rescued string, _malformed string,"
    " _source struct<file: string, block: bigint, row: bigint>, _present array<string>"
)


def read(
    spark: SparkSession,
    table_name: str,
    template: Template,
    files: Sequence[File],
    fields: Sequence[str],
    declared: Format | None,
    csv: CsvOptions,
    targets: Mapping[str, DataType],
    required: Callable[[], Collection[str]],
    asked: Sequence[str] = (),
) -> DataFrame:
    """All records of the files, each read once, with the columns of :meth:`Source.extract` and ``_present``.

    A field has its type in the files. If the types differ, it is a string in all rows, which converts to the contract's
    type (in ``targets``) like the original value. At least one file must have each field in ``asked``. Raises
    SourceChanged if a local file does not match its etag, SourceUnreadable, with its name, if it cannot be read.
    """
    _check_unchanged(table_name, template, files)
    by_format: dict[Format, list[str]] = {}
    check_frames(table_name, template, [template.path_of(file.key) for file in files])
    for file in files:
        kind = declared or format_of(file.key)
        if kind is None:
            raise SourceUnreadable(
                f"{table_name}: the file {file.key} has no known extension",
                rule="without format=..., each file's extension determines its format",
                remedy="give the source format='json', 'csv', 'parquet', 'orc' or 'avro', or narrow its path",
            )
        if file.size:
            _check_name(table_name, file.key, kind)
            by_format.setdefault(kind, []).append(template.path_of(file.key))
    if len(files) > _LISTED_BY_DRIVER:
        # Spark would list each path in its own task, which takes half a minute for ten thousand paths
        spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", _LISTED_BY_DRIVER)
    size = sum(file.size for file in files)
    groups: list[Records] = read_json(spark, template, by_format.get("json", []), fields, size)
    columns = FileColumns(table_name, [field for field in fields if field in targets] or fields, required)
    groups += read_csv(spark, table_name, template, by_format.get("csv", []), fields, csv, columns)
    groups += read_parquet(spark, table_name, template, by_format.get("parquet", []), fields, columns)
    groups += read_orc(spark, table_name, template, by_format.get("orc", []), fields, columns, size)
    groups += read_avro(spark, table_name, template, by_format.get("avro", []), fields, columns, size)
    if not groups:
        members = ", ".join(f"`{field.replace('`', '``')}`: string" for field in fields)
        return spark.createDataFrame([], _EMPTY.format(members=members))
    _check_asked(table_name, files, groups, fields, asked)
    types = [_common_type([group.types[index] for group in groups]) for index in range(len(fields))]
    return union_of(_with_types(group, fields, types, targets) for group in groups)


def _check_unchanged(table_name: str, template: Template, files: Sequence[File]) -> None:
    """Checks that local files still have their etag. S3 needs a listing for that, which the ingestion makes later."""
    local = {path: file for file in files if not in_object_store(path := template.path_of(file.key))}
    hashes = local_hashes(local)
    for path, file in local.items():
        found = hashes.get(path)
        if found is None:
            raise SourceChanged(
                f"{table_name}: the file {file.key} has vanished",
                rule="a load reads files as they were when they were listed",
                remedy="the load is retried",
            )
        if found.startswith("unreadable"):
            raise SourceUnreadable(
                f"{table_name}: the file {file.key} cannot be opened",
                rule="the user who loads must be able to read the files",
                remedy="give that user the permission to read the file",
            )
        if found != file.etag:
            raise SourceChanged(
                f"{table_name}: the file {file.key} has changed",
                rule="a load reads files as they were when they were listed",
                remedy="the load is retried",
            )


def _check_name(table_name: str, key: str, kind: Format) -> None:
    """Refuses a file that Spark would ignore, or read without decompressing it, because of its name."""
    name = key.rpartition("/")[2]
    if is_hidden(name):
        raise SourceUnreadable(
            f"{table_name}: Spark ignores the file {key}",
            rule="Spark treats files as hidden if their names begin with '.' or '_', or end in '._COPYING_'",
            remedy="rename the file",
        )
    if kind not in PACKED and (compression := compression_of(name)) and not name.endswith(f".{compression}"):
        raise SourceUnreadable(
            f"{table_name}: Spark does not decompress the file {key}",
            rule=f"the ending for a compression must be in lower case, .{compression}",
            remedy="rename the file",
        )


def _check_asked(
    table_name: str, files: Sequence[File], groups: Sequence[Records], fields: Sequence[str], asked: Sequence[str]
) -> None:
    """Refuses files if none has a column of a condition, which would otherwise go unnoticed."""
    for index, field in enumerate(fields):
        if field in asked and not any(group.varied or group.types[index] is not None for group in groups):
            names = some([file.key for file in files], 1)
            raise SourceUnreadable(
                f"{table_name}: a condition of changes names {field!r}, which no header of the files has ({names})",
                rule="a condition on a missing column is never true, so nothing would ever be deleted",
                remedy=f"correct the name in the condition, including upper and lower case; or, if files may lack the "
                f"column, add {field!r} to the contract with nullable=True",
            )


def _common_type(types: Sequence[DataType | None]) -> DataType:
    found = {kind for kind in types if kind is not None}
    return found.pop() if len(found) == 1 else StringType()


def _with_types(
    group: Records, fields: Sequence[str], types: Sequence[DataType], targets: Mapping[str, DataType]
) -> DataFrame:
    members = [
        _as(F.col("_raw").getField(field), was, wanted, targets.get(field)).alias(field)
        for field, was, wanted in zip(fields, group.types, types, strict=True)
    ]
    named = F.array(*(F.lit(field) for field, was in zip(fields, group.types, strict=True) if was is not None))
    present = F.col(PRESENT) if group.varied else named.cast("array<string>").alias(PRESENT)
    faults = (
        fault
        for field, was, wanted in zip(fields, group.types, types, strict=True)
        if was is not None and was != wanted
        for fault in bytes_faults(field, F.col("_raw").getField(field), was, targets.get(field))
    )
    whole = group.frame.withColumn("_malformed", F.coalesce("_malformed", *faults))
    return whole.select(F.struct(*members).alias("_raw"), *EXTRACTED_COLUMNS[1:], present)


def _as(value: Column, was: DataType | None, wanted: DataType, target: DataType | None) -> Column:
    if was is None:
        return F.lit(None).cast(wanted)
    if was == wanted:
        return value
    return text_for(value, was, target)
