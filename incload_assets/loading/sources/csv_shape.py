"""What the driver has to know of a CSV file before Spark reads it: its header, and whether it ends inside quotes."""

import codecs
import csv
import io
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import zstandard

from incload_assets.loading.errors import SourceUnreadable
from incload_assets.loading.sources.compressed import cut_off, unpacked
from incload_assets.loading.sources.formats import compression_of
from incload_assets.loading.sources.storage import store_errors, store_of
from incload_assets.loading.sources.template import Template

ENCODINGS = ("utf-8", "iso-8859-1", "us-ascii", "utf-16", "utf-16be", "utf-16le")
"""The encodings of CSV that Spark reads."""

REPLACEMENT = "\ufffd"
"""What a decoder puts in the place of bytes that are no character."""

_END = "\n\0"
"""Put after a text: shows whether it ends within quotes."""

_HEAD = 1 << 16
_TAIL = 1 << 12


@dataclass(frozen=True)
class CsvOptions:
    """How CSV files are written: the delimiter, one character, and one of :data:`ENCODINGS`."""

    delimiter: str = ","
    encoding: str = "utf-8"


@dataclass(frozen=True)
class Shape:
    """What files have to share to be read together.

    Args:
        header: The column names, without the spaces around them.
        ends_unquoted: The last character, line breaks aside, is no quote: then the last field is not a quoted one, and
            a line break in it means that a quote was never closed. False where that is unknown.
    """

    header: tuple[str, ...]
    ends_unquoted: bool


def shapes_of(table: str, template: Template, paths: Sequence[str], options: CsvOptions) -> dict[str, Shape]:
    """The shape of each file; files without a header (nothing but blank lines) are left out.

    Reads the first 64 kB of a file, and of a larger one that is not compressed the last 4 kB.

    Raises:
        SourceUnreadable: A header cannot be decoded, decompressed, has a name twice or a quote that is never closed.
        SourceChanged: A file has vanished.
    """
    with ThreadPoolExecutor(16) as readers:
        shapes = readers.map(lambda path: _shape_of(table, template, path, options), paths)
        return {path: shape for path, shape in zip(paths, shapes, strict=True) if shape}


def _shape_of(table: str, template: Template, path: str, options: CsvOptions) -> Shape | None:
    key, size = template.name_of(path), _HEAD
    # a mark of the byte order is no part of the first name
    encoding = "utf-8-sig" if options.encoding == "utf-8" else options.encoding
    while True:
        head, whole = _head_of(table, key, path, size)
        text = codecs.getincrementaldecoder(encoding)("replace").decode(head, final=whole)
        found = _header(table, key, text, options)
        if whole or found.is_complete:
            break
        size *= 4
    if found.record is None:
        return None
    if found.is_open:
        raise SourceUnreadable(
            f"{table}: the header of {key} has a quote that is never closed",
            rule="what follows a quote is part of a name until the next quote",
            remedy="write the file again with the quote closed",
        )
    header = tuple(name.strip() for name in found.record)
    if any(REPLACEMENT in name for name in header):
        raise SourceUnreadable(
            f"{table}: the header of {key} is not {options.encoding}",
            remedy="give the source the encoding of its files, or write the file again",
        )
    for name in header:
        if header.count(name) > 1:
            raise SourceUnreadable(
                f"{table}: the header of {key} has the name {name!r} twice",
                rule="a column is known by its name",
                remedy="write the file with different names",
            )
    if whole:
        ending = head
    elif compression_of(key) is None:
        with store_errors(table, path, key):
            ending = store_of(path).cat_file(path, start=-_TAIL)
    else:
        return Shape(header, False)
    return Shape(header, not ending.rstrip(b"\r\n\x00").endswith(b'"'))


def _head_of(table: str, key: str, path: str, size: int) -> tuple[bytes, bool]:
    """The first bytes of a file, decompressed, and whether that is all of it."""
    with store_errors(table, path, key):
        stored: bytes = store_of(path).cat_file(path, start=0, end=size)
    compression = compression_of(key)
    if compression is None:
        return stored, len(stored) < size
    try:
        head, ends = unpacked(stored, compression, size)
    except (zlib.error, zstandard.ZstdError):
        raise SourceUnreadable(
            f"{table}: the file {key} is not {compression}", remedy="write the file again, or correct its name"
        ) from None
    if len(stored) == size or len(head) >= size:
        return head, False
    if not ends:
        raise cut_off(table, key)
    return head, True


@dataclass(frozen=True)
class _Header:
    """The first record of a text, if it has one; whether its last quote is open; whether something follows it."""

    record: list[str] | None
    is_open: bool
    is_complete: bool


def _header(table: str, key: str, text: str, options: CsvOptions) -> _Header:
    lines = io.StringIO(text + _END, newline="")
    try:
        record = next(filter(None, csv.reader(lines, delimiter=options.delimiter)))
    except csv.Error:
        raise SourceUnreadable(
            f"{table}: the header of {key} has a name of more than {csv.field_size_limit()} characters",
            rule="a quote in a header is closed",
            remedy="write the file again, with the quote closed or with shorter names",
        ) from None
    rest = lines.read()
    if record[-1].endswith(_END):
        return _Header(record, True, False)
    return _Header(record if rest else None, False, len(rest) > 1)
