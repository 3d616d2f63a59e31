"""Header and line endings of CSV files, which the driver reads before Spark reads the files."""

import codecs
import csv
import io
import re
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import zstandard

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.sources.files.columns import FileColumns
from incload_assets.sources.files.compressed import compression_of, cut_off, unpacked
from incload_assets.sources.files.storage import store_errors, store_of
from incload_assets.sources.files.template import Template

Encoding = Literal["utf-8", "iso-8859-1", "us-ascii", "utf-16", "utf-16be", "utf-16le"]
"""Encodings in which Spark reads CSV."""

REPLACEMENT = "\ufffd"
"""Character with which a decoder replaces invalid bytes."""

_LINE_ENDS = re.compile(r"\r\n?|\n")
_END = "\n\0"
"""Appended to a text to find out whether it ends within quotes."""

_HEAD = 1 << 16


@dataclass(frozen=True)
class CsvOptions:
    """Format of CSV files: the delimiter, one character, and an :data:`Encoding`."""

    delimiter: str = ","
    encoding: str = "utf-8"


@dataclass(frozen=True)
class Shape:
    """The properties that files must share to be read together; names in ``header`` are stripped of spaces.

    With ``finds_line_ends`` Spark must detect the line ending itself, because the first line does not end with a line
    feed. Spark then turns every line break into a line feed, even within quotes.
    """

    header: tuple[str, ...]
    finds_line_ends: bool


def shapes_of(
    table_name: str, template: Template, paths: Sequence[str], options: CsvOptions, columns: FileColumns
) -> dict[str, Shape]:
    """The shape of each file; files without a header (nothing but blank lines) are left out.

    Reads 64 kB, or more if the header is longer. Refuses a header that cannot be decoded or decompressed, lacks
    columns, has a name twice or an open quote.
    """
    with ThreadPoolExecutor(16) as readers:
        shapes = readers.map(lambda path: _shape_of(table_name, template, path, options), paths)
        found = {path: shape for path, shape in zip(paths, shapes, strict=True) if shape}
    for path, shape in found.items():
        place = f"the header of {template.name_of(path)}"
        columns.check(place, shape.header)
        _check_distinct(table_name, place, shape.header)
    return found


def _check_distinct(table_name: str, place: str, header: Sequence[str]) -> None:
    for name in header:
        if header.count(name) > 1:
            raise SourceUnreadable(
                f"{table_name}: {place} has the name {name!r} twice",
                rule="a column is identified by its name",
                remedy="write the file with different names",
            )


def _shape_of(table_name: str, template: Template, path: str, options: CsvOptions) -> Shape | None:
    key, size = template.name_of(path), _HEAD
    # a byte order mark is not part of the first name
    encoding = "utf-8-sig" if options.encoding == "utf-8" else options.encoding
    while True:
        head, whole = head_of(table_name, key, path, size)
        text = codecs.getincrementaldecoder(encoding)("replace").decode(head, final=whole)
        found = _header(table_name, key, text, options)
        if whole or found.is_complete:
            break
        size *= 4
    if found.record is None:
        return None
    if found.is_open:
        raise SourceUnreadable(
            f"{table_name}: the header of {key} has a quote that is never closed",
            rule="what follows a quote is part of a name until the next quote",
            remedy="write the file again with the quote closed",
        )
    header = tuple(name.strip() for name in found.record)
    if any(REPLACEMENT in name for name in header):
        raise SourceUnreadable(
            f"{table_name}: the header of {key} is not {options.encoding}",
            rule="a header is read with the encoding that the source declares",
            remedy="give the source the encoding of its files, or write the file again",
        )
    return Shape(header, _finds_line_ends(table_name, key, text[: found.length]))


def _finds_line_ends(table_name: str, key: str, begun: str) -> bool:
    """True if Spark must detect the line ending; refuses files in which its first line break would mislead it."""
    blank = begun[: len(begun) - len(begun.lstrip("\r\n"))]
    if not begun.endswith("\r") and "\r" not in blank:
        return False
    first, *others = _LINE_ENDS.findall(begun)
    if {first, *others} - {"\n"} != {first} or [first, *others][-1] != first:
        raise SourceUnreadable(
            f"{table_name}: in {key} not all lines up to the header end the same way, or a name in the header has a "
            "line break",
            rule="if the first line does not end with \\n, the first line break of the file determines how lines end",
            remedy="write the file again with lines that end with \\n or with \\r\\n",
        )
    return True


def head_of(table_name: str, key: str, path: str, size: int) -> tuple[bytes, bool]:
    """The first bytes of a file, decompressed, and whether these are the whole file."""
    with store_errors(table_name, path, key):
        stored: bytes = store_of(path).cat_file(path, start=0, end=size)
    compression = compression_of(key)
    if compression is None:
        return stored, len(stored) < size
    try:
        head, ends = unpacked(stored, compression, size)
    except (zlib.error, zstandard.ZstdError):
        raise SourceUnreadable(
            f"{table_name}: the file {key} is not {compression}",
            rule="the ending of a file name determines its compression",
            remedy="write the file again, or correct its name",
        ) from None
    if len(stored) == size or len(head) >= size:
        return head, False
    if not ends:
        raise cut_off(table_name, key)
    return head, True


@dataclass(frozen=True)
class _Header:
    """The first record of a text, complete if text follows it; ``length``: characters to the end of its line."""

    record: list[str] | None
    is_open: bool
    is_complete: bool
    length: int = 0


def _header(table_name: str, key: str, text: str, options: CsvOptions) -> _Header:
    lines = io.StringIO(text + _END, newline="")
    try:
        record = next(filter(None, csv.reader(lines, delimiter=options.delimiter)))
    except csv.Error:
        raise SourceUnreadable(
            f"{table_name}: the header of {key} has a name of more than {csv.field_size_limit()} characters",
            rule="a quote in a header is closed",
            remedy="write the file again, with the quote closed or with shorter names",
        ) from None
    rest = lines.read()
    if record[-1].endswith(_END):
        return _Header(record, True, False)
    return _Header(record if rest else None, False, len(rest) > 1, len(text) + len(_END) - len(rest))
