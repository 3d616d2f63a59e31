"""File formats and the extensions that name them."""

from typing import Literal

Format = Literal["json", "csv", "parquet"]

_EXTENSIONS: dict[str, Format] = {
    "json": "json", "jsonl": "json", "ndjson": "json", "csv": "csv", "parquet": "parquet",
}  # fmt: skip


def extensions_of(kind: Format | None) -> tuple[str, ...]:
    """The extensions of a format, or of all formats."""
    return tuple(extension for extension, format_ in _EXTENSIONS.items() if kind in (None, format_))


def compression_of(name: str) -> Literal["gz", "zst"] | None:
    """The compression that a file name ends in."""
    return "gz" if name.lower().endswith(".gz") else "zst" if name.lower().endswith(".zst") else None


def format_of(name: str) -> Format | None:
    """The format that a file name ends in, a compression aside.

    Example:
        >>> format_of("orders.jsonl.gz")
        'json'
    """
    lower = name.lower()
    compression = compression_of(name)
    extension = lower.removesuffix(f".{compression}").rpartition(".")[2]
    found = _EXTENSIONS.get(extension) if "." in lower else None
    return None if found == "parquet" and compression else found
