"""Files compressed with gzip or Zstandard: decompression of their first bytes, and detection of truncated files.

Spark detects truncated files, with one exception, which is checked here before reading: if a Zstandard frame other than
the first has no complete block, Spark takes the data before it for the whole file.
"""

import io
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Literal

import zstandard

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.sources.files.storage import store_errors, store_of
from incload_assets.sources.files.template import Template

_PIECE = 1 << 10
"""Bytes decompressed at a time; a few bytes may expand to very many."""

_FRAME = zstandard.FRAME_HEADER
_SKIPPED = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
"""Magic numbers of frames without data."""

_HEADER = 18
_BLOCK = 1 << 17
"""Bytes of the longest frame header and of the longest block."""


def unpacked(stored: bytes, compression: Literal["gz", "zst"], size: int) -> tuple[bytes, bool]:
    """The first bytes of a file decompressed, a little more than ``size``, and whether it may end there.

    Raises zlib.error or zstandard.ZstdError if the bytes are not of this compression.
    """
    data, at, stream = b"", 0, None
    while at < len(stored) and len(data) < size:
        if stream is None or stream.eof:
            stream = zlib.decompressobj(31) if compression == "gz" else zstandard.ZstdDecompressor().decompressobj()
        piece = stored[at : at + _PIECE]
        data += stream.decompress(piece)
        at += len(piece) - len(stream.unused_data)
    return data, at == len(stored) and (stream is None or stream.eof)


def cut_off(table_name: str, key: str) -> SourceUnreadable:
    """The error for a file that ends too early."""
    return SourceUnreadable(
        f"{table_name}: the file {key} is cut off: its compression does not end",
        rule="a file is read whole or not at all",
        remedy="write the file again",
    )


def check_frames(table_name: str, template: Template, paths: Iterable[str]) -> None:
    """Refuses truncated Zstandard files where Spark does not detect it; ignores other files.

    Reads the last 128 kB of each file, and all of its headers if these bytes may contain the beginning of a frame.
    """
    compressed = [path for path in paths if compression_of(path) == "zst"]
    with ThreadPoolExecutor(16) as readers:
        whole = readers.map(lambda path: _is_whole(table_name, template.name_of(path), path), compressed)
        for path, ends in zip(compressed, whole, strict=True):
            if not ends:
                raise cut_off(table_name, template.name_of(path))


def _is_whole(table_name: str, key: str, path: str) -> bool:
    with store_errors(table_name, path, key), store_of(path).open(path, "rb") as file:
        size = file.seek(0, io.SEEK_END)
        start = file.seek(max(0, size - _HEADER - 3 - _BLOCK))
        tail: bytes = file.read()
        # Spark detects a truncated first frame
        looked_at = tail[1:] if start == 0 and tail.startswith(_FRAME) else tail
        begun = any(looked_at.endswith(begin[:count]) for begin in (_FRAME, *_SKIPPED) for count in (1, 2, 3))
        if not begun and not any(begin in looked_at for begin in (_FRAME, *_SKIPPED)):
            return True
        return _ends_with_a_frame(file, size)


def _ends_with_a_frame(file: IO[bytes], size: int) -> bool:
    """True if a file ends with a complete frame, or with data that is not a frame, which Spark reports."""
    at = 0
    while at < size:
        file.seek(at)
        header = file.read(_HEADER)
        if header.startswith(_SKIPPED):
            at += 8 + int.from_bytes(header[4:8], "little") if len(header) >= 8 else 8
            continue
        if not header.startswith(_FRAME):
            return len(header) >= len(_FRAME)
        try:
            at += zstandard.frame_header_size(header)
            has_checksum = zstandard.get_frame_parameters(header).has_checksum
        except zstandard.ZstdError:
            return len(header) == _HEADER
        last = False
        while not last and at < size:
            file.seek(at)
            block = int.from_bytes(file.read(3), "little")
            last, kind, length = bool(block & 1), block >> 1 & 3, block >> 3
            at += 3 + (1 if kind == 1 else length)  # 1: a repeated byte
        at += 4 * has_checksum
        if not last:
            return False
    return at == size


Format = Literal["json", "csv", "parquet", "orc", "avro"]
PACKED: frozenset[Format | None] = frozenset({"parquet", "orc", "avro"})
"""Formats of typed values, which are compressed inside their files."""


_EXTENSIONS: dict[str, Format] = {
    "json": "json", "jsonl": "json", "ndjson": "json", "csv": "csv", "parquet": "parquet", "orc": "orc",
    "avro": "avro",
}  # fmt: skip


def extensions_of(kind: Format | None) -> tuple[str, ...]:
    """The extensions of a format, or of all formats."""
    return tuple(extension for extension, format_ in _EXTENSIONS.items() if kind in (None, format_))


def compression_of(name: str) -> Literal["gz", "zst"] | None:
    """The compression that the ending of a file name determines."""
    return "gz" if name.lower().endswith(".gz") else "zst" if name.lower().endswith(".zst") else None


def format_of(name: str) -> Format | None:
    """The format that a file name's extension determines, without regard to compression."""
    lower = name.lower()
    compression = compression_of(name)
    extension = lower.removesuffix(f".{compression}").rpartition(".")[2]
    found = _EXTENSIONS.get(extension) if "." in lower else None
    return None if found in PACKED and compression else found
