"""Files as the origin of a table: their path template, delimiter and encoding, and a sample of their rows."""

import csv
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from functools import reduce
from pathlib import Path
from typing import Any, cast

import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.declaration.source import DetectRequest
from incload_assets.declaration.window import now, window_of
from incload_assets.inference.events import origin_of_events
from incload_assets.inference.file_names import Named, named
from incload_assets.inference.measure import ROWS, UNREADABLE, Field, json_fields
from incload_assets.inference.origin import WINDOW, Origin, Partitions
from incload_assets.inference.spelled import text
from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.lake import Lake
from incload_assets.platform.object_stores import in_object_store, object_store
from incload_assets.platform.settings import current_settings
from incload_assets.platform.sql import col
from incload_assets.platform.wording import several, some
from incload_assets.sources.files.avro import record_of, schema_of
from incload_assets.sources.files.avro_schema import fields_of
from incload_assets.sources.files.columns import FileColumns
from incload_assets.sources.files.compressed import PACKED, format_of
from incload_assets.sources.files.csv_shape import CsvOptions, Encoding, head_of, shapes_of
from incload_assets.sources.files.files import Files
from incload_assets.sources.files.names import UNFINISHED
from incload_assets.sources.files.orc import footer_of
from incload_assets.sources.files.position import File, files_in, position_of
from incload_assets.sources.files.records import WORTH_READING_TWICE_BYTES, reader_of, spark_path
from incload_assets.sources.files.storage import store_errors, store_of
from incload_assets.sources.files.template import Template

WINDOWS = 4
"""Most windows that a sample is from: the oldest, the newest, and some between."""
_BYTES = WORTH_READING_TWICE_BYTES
"""Bytes of a window from which no further file of it is in the sample: several large files would be read whole."""
_HEAD = 1 << 16
_DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class _Found:
    """Files with their template, read as the declared source reads them."""

    table: str
    source: Files
    names: Named
    partitions: Partitions

    @property
    def template(self) -> Template:
        """The parsed path."""
        return Template.parse(self.table, self.source.path, current_settings().landing_root)

    def files(self) -> dict[str, list[File]]:
        """Some files of some windows, by partition key, the oldest first."""
        definition, known = self.partitions.definition, self.names.windows or (self.partitions.start,)
        starts = [start for start in known if start.replace(tzinfo=UTC) <= now()] or [known[0]]
        few = sorted({starts[round(place * (len(starts) - 1) / (WINDOWS - 1))] for place in range(WINDOWS)})
        windows = [window_of(definition, self.partitions.key_of(start), self.table) for start in few]
        request = DetectRequest(self.table, windows, {}, Lake.of(current_settings()), windows[0].start)
        found = self.source.detect(request)
        return {key: _few(files_in(position)) for key, position in found.items()}

    def rows(self, spark: SparkSession, files: dict[str, list[File]], fields: Sequence[str]) -> DataFrame:
        """The sample with the columns of the source's extract, and the partition key."""
        most = max(1, ROWS // len(files))
        frames = [
            self.source.extract(spark, self.table, position_of(some_files), fields)
            .limit(most)
            .withColumn(WINDOW, F.lit(key))
            for key, some_files in files.items()
        ]
        return reduce(DataFrame.unionByName, frames)


def origin_of_files(spark: SparkSession, table: str, place: str) -> Origin:
    """The origin for a file, a folder or a path in an object store.

    Args:
        spark: The session that reads the sample.
        table: Name of the table, for messages.
        place: An absolute path, or one in an object store.

    Raises:
        SourceUnreadable: There is no file that a load could read.
    """
    names, settings = names_of(table, place), current_settings()
    path = names.path
    if path.startswith(f"{settings.landing_root}/"):
        path = f"{{landing}}{path.removeprefix(settings.landing_root)}"
    delimiter, encoding = _csv_options(table, names.files[-1])
    source = Files(path, delimiter=delimiter, encoding=encoding)
    found = _Found(table, source, names, _partitions(names))
    files = {key: some_files for key, some_files in found.files().items() if some_files}
    if not files:
        raise _nothing(table, place)
    others = [f"left out, as their names are of another form: {some(names.others, 3)}"] if names.others else []
    notes = [f"{several(len(names.files), 'file')} of this form", *others]
    if format_of(names.files[-1]) == "json":
        records = found.rows(spark, files, [])
        fields: Sequence[Field] = json_fields(records, "_rescued", "_payload")
        if not fields:
            raise _nothing(table, place)
        made, newest = _declared(source), [*files][-1]
        if events := origin_of_events(table, records, fields, made, "Files", found.partitions, newest, notes):
            return events
    else:
        fields = _fields(spark, found, files)
    declared, rows = _sample(spark, found, files, fields)
    return Origin(
        place=path,
        frame=rows,
        fields=declared,
        source=_declared(source),
        imports=["Files"],
        partitions=found.partitions,
        newest=[*files][-1],
        full=names.cadence is None,
        notes=notes,
        questions=_questions(names),
    )


def _few(files: Sequence[File]) -> list[File]:
    """The first files with a record, up to a number of bytes; at least one."""
    few: list[File] = []
    for file in files:
        if file.size and (not few or sum(one.size for one in few) + file.size <= _BYTES):
            few.append(file)
    return few


def names_of(table: str, place: str) -> Named:
    """The template of a path's files; a file stands for the files that are named like it."""
    path = place.rstrip("/")
    with store_errors(table, place):
        found = _below(path)
    single = found == [path]
    if single:
        return _like(table, path)
    fine = [name for name in found if _readable(name[len(path) :])]
    if not fine:
        raise _nothing(table, place)
    return named(fine, path)


def _like(table: str, path: str) -> Named:
    """The template of a file and of those beside it that are named like it."""
    alone = named([path], "")
    if alone.cadence is None:
        return alone
    base = alone.path[: alone.path.index("{window:")].rpartition("/")[0]
    with store_errors(table, base):
        beside = _below(base)
    mine = [name for name in beside if _readable(name[len(base) :])]
    whole = named([path], base)
    alike = [name for name in mine if named([name], base).path == whole.path]
    return named(alike, base) if len(alike) > 1 else named([path], base)


def _below(path: str) -> list[str]:
    """The full paths of the files below a path, or of the file itself."""
    found: list[str] = store_of(path).find(path)
    return [object_store(path).full_path(name) for name in found] if in_object_store(path) else found


def _readable(below: str) -> bool:
    parts = below.split("/")
    hidden = any(part.startswith((".", "_")) for part in parts)
    return not hidden and not below.lower().endswith(UNFINISHED) and format_of(parts[-1]) is not None


def _partitions(names: Named) -> Partitions:
    if names.cadence is None or not names.windows:
        today = now().replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        return Partitions("daily", today, "no date in the names: a file belongs to the day on which it was first seen")
    first, last = names.windows[0], names.windows[-1]
    key = Partitions(names.cadence, first, "").key_of
    why = f"dates in the names of {several(len(names.files), 'file')}, from {key(first)} to {key(last)}"
    return Partitions(names.cadence, first, why)


def _questions(names: Named) -> list[str]:
    if names.cadence is None:
        return [
            "a new file changes the table, a file with a date in its name would be a window of its own. "
            "Will there be dates in the names?"
        ]
    return []


def _csv_options(table: str, path: str) -> tuple[str, Encoding]:
    """Delimiter and encoding of a CSV file, by its first lines; the usual ones for other files."""
    if format_of(path) != "csv":
        return ",", "utf-8"
    head, _ = head_of(table, path, path, _HEAD)
    encoding: Encoding = "utf-8"
    try:
        begun = head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        encoding = "utf-8" if error.start > len(head) - 4 else "iso-8859-1"  # a character that is cut off at the end
        begun = head.decode(encoding, "replace")
    lines = begun.splitlines()[:10]
    counts = {mark: _columns(lines, mark) for mark in _DELIMITERS}
    return max(counts, key=lambda mark: counts[mark]), encoding


def _columns(lines: Sequence[str], delimiter: str) -> int:
    """The number of columns of lines, if all have the same."""
    with suppress(csv.Error):
        widths = {len(record) for record in csv.reader(lines[:-1] or lines, delimiter=delimiter) if record}
        return widths.pop() if len(widths) == 1 else 0
    return 0


def _fields(spark: SparkSession, found: _Found, files: dict[str, list[File]]) -> list[Field]:
    """The columns of CSV files by their headers, of typed files by the schema of the newest."""
    paths = [found.template.path_of(file.key) for some_files in files.values() for file in some_files]
    if format_of(paths[-1]) == "csv":
        options = CsvOptions(found.source.delimiter, found.source.encoding)
        shapes = shapes_of(found.table, found.template, paths, options, FileColumns(found.table, []))
        header = dict.fromkeys(name for shape in reversed(shapes.values()) for name in shape.header)
        return [Field(name, T.StringType()) for name in header]
    if format_of(paths[-1]) == "avro":
        newest = schema_of(found.table, found.template, paths[-1])
        record = record_of(found.table, found.template.name_of(paths[-1]), newest)
        return [Field(name, T.StringType()) for name, _ in fields_of(record)]  # typed when they are read
    if format_of(paths[-1]) == "orc":
        columns = footer_of(found.table, found.template, paths[-1]).columns
        return [Field(name, T.StringType()) for name, _ in columns]  # typed when they are read
    schema = reader_of(spark, [paths[-1]]).parquet(spark_path(paths[-1])).schema
    return [Field(member.name, member.dataType) for member in schema.fields]


def _sample(
    spark: SparkSession, found: _Found, files: dict[str, list[File]], fields: Sequence[Field]
) -> tuple[Sequence[Field], DataFrame]:
    """The rows as a load reads them, and the fields, for typed files with the types that a load finds."""
    rows = found.rows(spark, files, [field.name for field in fields])
    if format_of(found.names.files[-1]) in PACKED:
        raw = cast(T.StructType, rows.schema["_raw"].dataType)
        fields = [Field(field.name, raw[field.name].dataType) for field in fields]
    values = [col(field.name, "_raw").alias(field.name) for field in fields]
    return fields, rows.select(*values, F.col("_malformed").alias(UNREADABLE), WINDOW)


def _declared(source: Files) -> str:
    more: dict[str, Any] = {}
    if source.delimiter != ",":
        more["delimiter"] = source.delimiter
    if source.encoding != "utf-8":
        more["encoding"] = source.encoding
    options = "".join(f", {name}={text(value)}" for name, value in more.items())
    return f"Files({text(source.path)}{options})"


def _nothing(table: str, place: str) -> SourceUnreadable:
    exists = in_object_store(place) or Path(place).exists()
    return SourceUnreadable(
        f"{table}: {place} " + ("has no file that a load could read" if exists else "does not exist"),
        rule="files are .json, .jsonl, .ndjson, .csv, .parquet, .orc or .avro; text also with .gz or .zst; names that "
        "begin with _ or . are hidden",
        remedy="name a file, or a folder with files, of these formats",
    )
