"""Contents of files without their compression, which is told by their first bytes, whatever their names are."""

import bz2
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Mapping
from typing import TypeVar

import pyarrow as pa

Meaning = TypeVar("Meaning")


class CannotUnpack(Exception):
    """Nothing can be read in a file as it is."""


def _by_arrow(codec: str) -> Callable[[bytes], bytes]:
    return lambda data: pa.CompressedInputStream(pa.BufferReader(data), codec).read()


_COMPRESSED: dict[bytes, tuple[str, Callable[[bytes], bytes]]] = {
    rb"\x1f\x8b": ("gzip", gzip.decompress),
    rb"BZh[1-9]1AY&SY": ("bzip2", bz2.decompress),
    rb"\xfd7zXZ\x00": ("xz", lzma.decompress),
    rb"\x28\xb5\x2f\xfd": ("Zstandard", _by_arrow("zstd")),
    rb"\x04\x22\x4d\x18": ("LZ4", _by_arrow("lz4")),
}
_CLOSED = {
    rb"PK\x03\x04": "ZIP",
    rb"7z\xbc\xaf\x27\x1c": "7z",
    rb"\xff\x06\x00\x00sNaPpY": "Snappy",
    rb"Obj\x01": "Avro",
    rb"ORC.*ORC.\Z": "ORC",
    rb"PARE": "encrypted Parquet",
}
"""Formats whose texts are compressed or encrypted, and that are not read here."""
_LAYERS = 8
"""The most compressions of one file that are undone."""


def is_parquet(start: bytes) -> bool:
    """Returns True for the first bytes of a Parquet file.

    Example:
        >>> is_parquet(b"PAR1")
        True
    """
    return start.startswith(b"PAR1")


def unpacked(data: bytes) -> bytes:
    """The content of a file without its compression.

    Args:
        data: All bytes of the file.

    Raises:
        CannotUnpack: With the format, if it is compressed in a way that is not read here, or damaged.

    Example:
        >>> unpacked(gzip.compress(b"text"))
        b'text'
    """
    for _ in range(_LAYERS):
        if (closed := _matching(_CLOSED, data)) is not None:
            raise CannotUnpack(f"{closed} is not read")
        if (found := _matching(_COMPRESSED, data)) is None:
            return data
        name, decompress = found
        try:
            data = decompress(data)
        except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, pa.ArrowException) as error:
            raise CannotUnpack(f"{name} that is damaged or cut off") from error
    raise CannotUnpack(f"compressed more than {_LAYERS} times")


def _matching(formats: Mapping[bytes, Meaning], data: bytes) -> Meaning | None:
    return next((meaning for form, meaning in formats.items() if re.match(form, data, re.DOTALL)), None)
