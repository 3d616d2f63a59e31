"""The source of files in a landing area, in local folders or on S3."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal, get_args

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.contract.contract import Contract
from incload_assets.declaration.field_types import check_types
from incload_assets.declaration.source import Absent, DetectRequest, Position, Shows, Source, Survey, Watch
from incload_assets.declaration.window import Window
from incload_assets.platform.errors import DeclarationError, SchemaMismatch, SourceUnreadable
from incload_assets.platform.object_stores import in_object_store
from incload_assets.platform.settings import current_settings
from incload_assets.sources.files.assignment import by_window
from incload_assets.sources.files.compressed import PACKED, Format, extensions_of, format_of
from incload_assets.sources.files.csv import csv_payloads
from incload_assets.sources.files.csv_shape import REPLACEMENT, CsvOptions, Encoding
from incload_assets.sources.files.folder_watch import FolderWatch
from incload_assets.sources.files.hashes import local_hashes
from incload_assets.sources.files.json import json_records
from incload_assets.sources.files.left_out import left_out
from incload_assets.sources.files.listing import Listed, files_of
from incload_assets.sources.files.position import File, files_in, gone_from, groups_of, position_of
from incload_assets.sources.files.reading import read
from incload_assets.sources.files.template import Template

Deleted = Literal["keep", "retract"]
_TYPED = (
    "the payload of a Parquet, ORC or Avro record does not keep the types of its values, so it cannot be parsed to the "
    "same row"
)


@dataclass(frozen=True)
class Files(Source):
    """JSON lines, CSV, Parquet, ORC or Avro files, found by a path template.

    See :mod:`incload_assets.sources.files.template`.

    - A window's position is the set of its files and their contents; rewriting a file changes the position.
    - A path without time fields is a flat folder: a file belongs to the window in which it was first seen; see
      :mod:`incload_assets.sources.files.assignment`.
    - A CSV, Parquet, ORC or Avro file is refused if it has none of the contract's columns, or lacks a column that every
      row needs.
    - Hidden files, files with a temporary name, and folders are ignored. An empty file is a file without rows.
    - A file that the path leaves out by its name alone is reported by ``incload status`` and the check
      ``source_files``.
    - Files that end in ``.gz`` or ``.zst`` after the extension are decompressed.

    Args:
        path: The template, for example ``{landing}/orders/{window:%Y-%m-%d}/*.json``.
        format: ``json`` (JSON lines), ``csv`` (with a header), ``parquet``, ``orc`` or ``avro``; None: by each file's
            extension.
        absent: Whether a window without files waits for them (``wait``) or is an empty window (``empty``).
        deleted: Meaning of a deleted file: ``keep`` its rows and report it, or ``retract`` its rows.
        delimiter: Character between the fields of a CSV record.
        encoding: Encoding of CSV files, one that Spark reads: utf-8, iso-8859-1, us-ascii, utf-16, utf-16be, utf-16le.

    Example:
        >>> Files("{landing}/orders/{window:%Y-%m-%d}/*.json", absent="wait").deleted
        'keep'
    """

    path: str
    format: Format | None = None
    absent: Absent = "wait"
    deleted: Deleted = "keep"
    delimiter: str = ","
    encoding: Encoding = "utf-8"
    contract: Contract | None = field(init=False, default=None, repr=False, compare=False)
    asked: tuple[str, ...] = field(init=False, default=(), repr=False, compare=False)
    required: Callable[[], Collection[str]] = field(init=False, default=frozenset, repr=False, compare=False)

    shows: ClassVar[Shows] = Shows(inserts=True, updates=True, deletes=True)

    def __str__(self) -> str:
        return f"Files({self.path!r})"

    def explained(self) -> list[str]:
        """Sentences for people; see :meth:`Source.explained`."""
        kind = self.format or format_of(self.path.rpartition("/")[2])
        whose = (
            "A file belongs to the window in its path, however late it comes."
            if "{window" in self.path
            else "A file belongs to the window in which it was first seen."
        )
        gone = (
            "The rows of a deleted file stay, and the check source_files reports it."
            if self.deleted == "keep"
            else "The rows of a deleted file leave the table."
        )
        return [
            f"Rows are read from the {f'{kind} ' if kind else ''}files {self.path}.",
            whose,
            "If a file is added or its content changes, its window is loaded again: rows that left the file leave the "
            "table.",
            gone,
        ]

    def for_contract(self, contract: Contract) -> "Files":
        """These files, read with the contract's types, by which columns of different types are unified."""
        return self._with(contract=contract)

    def asked_for(self, fields: Sequence[str]) -> "Files":
        """These files; at least one of them must have each of these fields. See :meth:`Source.asked_for`."""
        return self._with(asked=tuple(fields))

    def requiring(self, required: Callable[[], Collection[str]]) -> "Files":
        """These files; a file without a required column is refused. See :meth:`Source.requiring`."""
        return self._with(required=required)

    def _with(self, **attributes: object) -> "Files":
        """A copy with some attributes of the table that the files are read for."""
        made = copy(self)
        for name, value in attributes.items():
            object.__setattr__(made, name, value)
        return made

    def validate(self, table_name: str) -> None:
        """Checks path, format and options; see :meth:`Source.validate`."""
        check_types(table_name, "source: ", self)
        Template.parse(table_name, self.path, "/landing")
        self._check_delimiter(table_name)
        last = self.path.rpartition("/")[2]
        # if the name ends in a glob, the extension of each file decides
        if self.format is None and not last.endswith(("*", "?")) and format_of(last) is None:
            raise DeclarationError(
                f"{table_name}: source: path {self.path!r} ends in an unknown extension and format is not given",
                rule="extensions are .json, .jsonl, .ndjson, .csv, .parquet, .orc, .avro; text also with .gz or .zst",
                remedy="give format='json', 'csv', 'parquet', 'orc' or 'avro'",
            )
        kind = self.format or format_of(last)
        for name, usual in (("delimiter", ","), ("encoding", "utf-8")):
            if kind not in (None, "csv") and (value := getattr(self, name)) != usual:
                raise DeclarationError(
                    f"{table_name}: source: {name} is {value!r}, and the files are {kind}",
                    rule="it is for CSV files only; JSON is UTF-8, and Parquet, ORC and Avro are binary",
                    remedy=f"drop {name}, or give format='csv'",
                )

    def validate_windows(self, table_name: str, windows: Sequence[Window]) -> None:
        """Checks that the path identifies windows, and is not finer; see :meth:`Source.validate_windows`."""
        Template.parse(table_name, self.path, "/landing").check_windows(table_name, windows)

    def check_landed(self, table_name: str, ingested: Iterable[tuple[Window, Position]]) -> None:
        """Checks that the path assigns no file of an ingested window to another one; see :meth:`Source.check_landed`.

        A file that the path no longer matches counts as gone from the source, and belongs to no window.
        """
        template = self._template(table_name)
        if template.is_flat:
            return
        for window, position in ingested:
            for file in files_in(position):
                times = template.match(template.path_of(file.key))
                if times is not None and times != template.times_of(window):
                    raise _moved(table_name, self.path, template, window, file)

    def _check_delimiter(self, table_name: str) -> None:
        if len(self.delimiter) != 1 or self.delimiter in f'"\r\n{REPLACEMENT}':
            raise DeclarationError(
                f"{table_name}: source: delimiter is {self.delimiter!r}",
                rule="a delimiter is one character, and not a quote, a line break or the replacement character U+FFFD",
                remedy="write ',' or ';' or a tab, '\\t'",
            )
        try:
            self.delimiter.encode(self.encoding)
        except UnicodeEncodeError:
            raise DeclarationError(
                f"{table_name}: source: delimiter is {self.delimiter!r}, which is not a character of {self.encoding}",
                rule="a delimiter is a character of the encoding of the files",
                remedy="write ',' or ';' or a tab, '\\t', or correct the encoding",
            ) from None

    def detect(self, request: DetectRequest) -> dict[str, Position]:
        """The files of each window; see :meth:`Source.detect`."""
        return self.survey(request).positions

    def survey(self, request: DetectRequest) -> Survey:
        """The positions of windows, and the files that the path leaves out by their names; see :mod:`.left_out`."""
        template = self._template(request.table_name)
        listed = _listed(request.table_name, template, request.windows, request.ingested)
        present = _present(request.table_name, template, listed, request.windows, request.ingested, request.first)
        positions = {}
        for window in request.windows:
            before = request.ingested.get(window.key)
            files = present.get(window.key, [])
            gone = _gone(before, files) if self.deleted == "keep" else []
            # A window that was ingested keeps having a position: without files it is ingested empty.
            emptied = self.deleted == "retract" and before is not None and before.fingerprint != "empty"
            if files or gone or emptied:
                positions[window.key] = position_of(files, gone)
        times = None if template.is_flat else {template.times_of(window) for window in request.windows}
        others = left_out(template, self.format, listed, times)
        return Survey(positions, sorted(template.name_of(file.path) for file in others))

    def watch(self, table_name: str, windows: Sequence[Window]) -> Watch | None:
        """A watch over the folders of the windows, if they are on this machine; see :meth:`Source.watch`."""
        template = self._template(table_name)
        return None if in_object_store(template.base) else FolderWatch.of(table_name, template, windows)

    def extract(self, spark: SparkSession, table_name: str, position: Position, fields: Sequence[str]) -> DataFrame:
        """The rows of the files that a position lists as present; see :meth:`Source.extract`.

        Field names are compared exactly, including case. ``_source.file`` is the key in the position, ``block`` the
        byte at which Spark began to read, ``row`` the number of the record from there, beginning with 1.
        """
        options = CsvOptions(self.delimiter, self.encoding)
        targets = self.contract.types if self.contract else {}
        template, files = self._template(table_name), files_in(position)
        lacking = (self.required, self.asked)
        return read(spark, table_name, template, files, fields, self.format, options, targets, *lacking)

    def extract_windows(
        self, spark: SparkSession, table_name: str, positions: Mapping[str, Position], fields: Sequence[str]
    ) -> DataFrame:
        """The rows of all windows in one read; the file of a row determines its window."""
        files = {file: key for key, position in positions.items() for file in files_in(position)}
        if len(positions) == 1 or len({file.key for file in files}) < sum(len(files_in(p)) for p in positions.values()):
            return super().extract_windows(spark, table_name, positions, fields)
        rows = self.extract(spark, table_name, position_of(files), fields)
        names = [(file.key, key) for file, key in files.items()]
        place = F.broadcast(spark.createDataFrame(names, "file string, _window string"))
        # a left join, so that a row without a known file, should there ever be one, is counted and not lost
        return rows.join(place, rows["_source.file"] == place["file"], "left").drop("file")

    def unreadable_payloads(self, fields: Sequence[str]) -> str:
        """See :meth:`Source.unreadable_payloads`: payloads of typed files do not show the types of their values."""
        return _TYPED if (self.format or format_of(self.path)) in PACKED else ""

    @property
    def is_text(self) -> bool:
        """True if all files are CSV or JSON."""
        return (self.format or format_of(self.path)) in ("csv", "json")

    def read_payloads(self, kept: DataFrame, fields: Sequence[str]) -> DataFrame:
        """The records of kept payloads, read by the extension of their file; see :meth:`Source.read_payloads`."""
        of = F.lit(self.format) if self.format else _format(F.col("_source.file"))
        if self.format is None and not kept.filter(of.isNull() | of.isin(*PACKED)).isEmpty():
            raise SourceUnreadable(
                f"{self}: rejected rows of Parquet, ORC and Avro files cannot be validated again",
                rule=_TYPED,
                remedy="deliver the files again, and load their windows",
            )
        json = json_records(kept.filter(of == "json").withColumn("value", F.col("_payload")), fields, "_window")
        return json.unionByName(csv_payloads(kept.filter(of == "csv"), fields))

    def missing(
        self,
        table_name: str,
        windows: Sequence[Window],
        ingested: Mapping[str, Position],
    ) -> dict[str, list[str]]:
        """Ingested files that no longer exist, by partition key; none if deleted files retract their rows."""
        if self.deleted == "retract":
            return {}
        template = self._template(table_name)
        present = _present(
            table_name, template, _listed(table_name, template, windows, ingested), windows, ingested, None
        )
        gone = {w.key: [file.key for file in _gone(ingested.get(w.key), present.get(w.key, []))] for w in windows}
        return {key: names for key, names in gone.items() if names}

    def carried(self, position: Position) -> list[str]:
        """The keys of the files that are gone and whose rows stay."""
        return [file.key for file in gone_from(position)]

    def divided(
        self, table_name: str, position: Position, number: int, known: Sequence[Position] = ()
    ) -> list[Position]:
        """Groups of files; see :meth:`Source.divided`."""
        return groups_of(position, number, known)

    def gained(self, before: Position, now: Position) -> Position | None:
        """The new files; None if another file has changed or is gone, or was gone before."""
        old, new = set(files_in(before)), set(files_in(now))
        if gone_from(before) or gone_from(now) or not old or not old < new:
            return None
        return position_of(new - old)

    def _template(self, table_name: str) -> Template:
        return Template.parse(table_name, self.path, current_settings().landing_root)


def _format(file: Column) -> Column:
    """The format that the extension of a file determines, as :func:`~.compressed.format_of` finds it."""
    extension = F.regexp_extract(F.regexp_replace(F.lower(file), r"\.(?:gz|zst)\z", ""), r"\.([^.]*)\z", 1)
    formats = [(kind, extensions_of(kind)) for kind in get_args(Format)]
    return F.coalesce(*(F.when(extension.isin(*extensions), kind) for kind, extensions in formats))


def _listed(
    table_name: str, template: Template, windows: Sequence[Window], ingested: Mapping[str, Position]
) -> list[Listed]:
    return list(
        files_of(
            table_name, template, windows, was_there=lambda: any(files_in(position) for position in ingested.values())
        )
    )


def _present(
    table_name: str,
    template: Template,
    listed: Sequence[Listed],
    windows: Sequence[Window],
    ingested: Mapping[str, Position],
    first: datetime | None,
) -> dict[str, list[File]]:
    assigned = by_window(table_name, template, listed, windows, ingested, first)
    etags = local_hashes(file.path for files in assigned.values() for file in files if file.etag is None)
    return {
        key: [
            File(template.name_of(file.path), etag, file.size)
            for file in files
            if (etag := file.etag or etags.get(file.path))
        ]
        for key, files in assigned.items()
    }


def _moved(table_name: str, path: str, template: Template, window: Window, file: File) -> SchemaMismatch:
    by_utc = template.in_utc
    fits = by_utc.match(template.path_of(file.key)) == by_utc.times_of(window)
    keep = "write {window_utc:...} instead of {window:...} in the path" if fits else "restore the path"
    return SchemaMismatch(
        f"{table_name} {window.key}: the window holds the file {file.key}, which the path {path!r} now assigns to "
        "another window",
        rule=f"a file stays in its window; {{window:...}} is the start of the window in {window.zone}",
        remedy=f"{keep} to leave files in the windows that hold them, or give the table another name and load it again",
    )


def _gone(before: Position | None, present: Sequence[File]) -> list[File]:
    there = {file.key for file in present}
    return [file for file in (*files_in(before), *gone_from(before)) if file.key not in there]
