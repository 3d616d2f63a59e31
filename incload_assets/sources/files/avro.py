"""Reader of Avro files, grouped by the schema in their headers, because Spark uses one file's schema for all."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import IO, cast

from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.sql import quoted
from incload_assets.sources.files.avro_schema import (
    Node,
    WrongSchema,
    adapted,
    fields_of,
    for_files,
    inner,
)
from incload_assets.sources.files.avro_values import has_wrong_text, holds_text, rendered
from incload_assets.sources.files.columns import FileColumns
from incload_assets.sources.files.errors import avro_missing, file_error
from incload_assets.sources.files.records import (
    Records,
    in_json,
    numbered,
    reader_of,
    source_column,
    spark_path,
)
from incload_assets.sources.files.storage import store_errors, store_of
from incload_assets.sources.files.template import Template

_MAGIC = b"Obj\x01"
_LONGEST = 16 * 2**20
"""Largest size of a header."""


def read_avro(
    spark: SparkSession,
    table_name: str,
    template: Template,
    paths: Sequence[str],
    fields: Sequence[str],
    columns: FileColumns,
    size: int = 0,
) -> list[Records]:
    """The rows of the files, one group per schema; ``size`` in bytes, 0 if small."""
    with ThreadPoolExecutor(16) as readers:
        texts = list(readers.map(lambda path: schema_of(table_name, template, path), paths))
    groups: dict[str, list[str]] = {}
    for path, text in zip(paths, texts, strict=True):
        groups.setdefault(text, []).append(path)
    records = []
    for text, found in groups.items():
        node = record_of(table_name, template.name_of(found[0]), text)
        for path in found:
            columns.check(f"the file {template.name_of(path)}", dict(fields_of(node)))
        try:
            records.append(_read_group(spark, template, text, node, found, fields, size))
        except AnalysisException as error:
            raise avro_missing(table_name, str(error)) or file_error(table_name, str(error)) or error from None
    return records


def record_of(table_name: str, key: str, text: str) -> Node:
    """The adapted type of the records of a file with that schema."""
    try:
        node = adapted(text)
        if node["type"] != "record":
            raise WrongSchema("it is no record")
    except WrongSchema as error:
        raise SourceUnreadable(
            f"{table_name}: the schema of the file {key} cannot be read: {error}",
            rule="Spark reads Avro with schemas that end, and whose names are told apart without their case",
            remedy="write the file with another schema",
        ) from None
    return node


def schema_of(table_name: str, template: Template, path: str) -> str:
    """The schema of a file, read from its header."""
    key = template.name_of(path)
    with store_errors(table_name, path, key), store_of(path).open(path, "rb", cache_type="none") as file:
        try:
            header = _header(file)
        except (ValueError, UnicodeDecodeError):
            raise SourceUnreadable(
                f"{table_name}: the file {key} is not a whole Avro file",
                rule="an Avro file begins with Obj, the byte 1 and its schema",
                remedy="write the file again, with the container format of Avro",
            ) from None
    return header


def _header(file: IO[bytes]) -> str:
    """The text of the schema; raises ValueError for bytes that are no header. See *Object Container Files*."""
    start = BytesIO(file.read(65_536))
    while True:
        try:
            return _metadata(start)
        except EOFError:
            more = file.read(start.getbuffer().nbytes)
            if not more or start.getbuffer().nbytes > _LONGEST:
                raise ValueError from None
            start = BytesIO(start.getvalue() + more)


def _metadata(start: BytesIO) -> str:
    if start.read(len(_MAGIC)) != _MAGIC:
        raise ValueError
    found: dict[bytes, bytes] = {}
    while count := _long(start):
        if count < 0:  # the size of the block follows
            _long(start)
        for _ in range(abs(count)):
            name = _bytes(start)
            found[name] = _bytes(start)
    return found.get(b"avro.schema", b"").decode()


def _long(start: BytesIO) -> int:
    number, shift = 0, 0
    while True:
        byte = start.read(1)
        if not byte:
            raise EOFError
        number |= (byte[0] & 127) << shift
        shift += 7
        if byte[0] < 128:
            return (number >> 1) ^ -(number & 1)
        if shift > 63:
            raise ValueError


def _bytes(start: BytesIO) -> bytes:
    size = _long(start)
    if not 0 <= size <= _LONGEST:
        raise ValueError
    found = start.read(size)
    if len(found) < size:
        raise EOFError
    return found


def _read_group(
    spark: SparkSession,
    template: Template,
    text: str,
    node: Node,
    paths: Sequence[str],
    fields: Sequence[str],
    size: int,
) -> Records:
    options = {"avroSchema": for_files(text), "datetimeRebaseMode": "CORRECTED"}
    frame = reader_of(spark, paths, **options).format("avro").load([*map(spark_path, paths)])
    kinds = dict(fields_of(node))
    values = {name: _value(F.col(quoted(name)), kind) for name, kind in kinds.items()}
    shown = {name: rendered(F.col(quoted(name)), kind) for name, kind in kinds.items()}
    wrong = []
    for name, kind in kinds.items():
        if holds_text(kind):  # other readers of the table would refuse invalid text
            is_wrong = has_wrong_text(F.col(quoted(name)), kind)
            wrong.append(F.when(is_wrong, f"{name}: not valid UTF-8"))
            values[name] = F.when(~is_wrong, values[name])
    lines = frame.select(
        F.struct(*(values.get(field, F.lit(None).cast("string")).alias(field) for field in fields)).alias("_raw"),
        *in_json(shown, fields),
        F.coalesce(F.lit(None).cast("string"), *wrong).alias("_malformed"),
        F.col("_metadata.file_path").alias("__path"),
        F.col("_metadata.file_block_start").alias("__block"),
        F.monotonically_increasing_id().alias("__order"),
    )
    records = numbered(lines, template, paths, size)
    raw = cast(StructType, records.schema["_raw"].dataType)
    return Records(
        records.select("_raw", "_payload", "_rescued", "_malformed", source_column()),
        [raw[field].dataType if field in kinds else None for field in fields],
    )


def _value(value: Column, kind: Node) -> Column:
    """A value with a type that a contract converts from; a union of several types is text."""
    made, of = rendered(value, kind), inner(kind)
    if of["type"] == "null":
        return made.cast("string")
    return F.try_variant_get(made, "$", "string") if of["type"] == "union" and made is not value else made
