"""Short words for the tests of files: days as windows, files as bytes, rows as plain Python."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window
from incload_assets.sources.files.files import Files
from tests.support.detection import detected

FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def day(number: int) -> Window:
    """The window of a day of January 2026 and on, counted from 1."""
    start = FIRST + timedelta(days=number - 1)
    return Window(start, start + timedelta(days=1), f"{start:%Y-%m-%d}")


def days(count: int) -> list[Window]:
    """The first windows."""
    return [day(number) for number in range(1, count + 1)]


def write(path: Path, content: bytes | str) -> Path:
    """A file, folders included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def keys(position: Position, kind: str = "files") -> list[str]:
    """The keys of a position's files."""
    return [key for key, _, _ in position.detail[kind]]


def extracted(spark: SparkSession, source: Files, fields: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of the first day, in the order of file and row, ``_raw`` and ``_source`` as plain Python."""
    position = detected(source, "orders", [day(1)], {}, first=FIRST)[day(1).key]
    rows = source.extract(spark, "orders", position, fields).collect()
    found = [row.asDict(recursive=True) for row in rows]
    return sorted(found, key=lambda row: tuple(row["_source"].values()))


def each_extracted(
    spark: SparkSession, source: Files, folder: Path, fields: Sequence[str], *contents: bytes | str
) -> list[list[dict[str, Any]]]:
    """The rows of each of several files, which one query reads: planning it takes longer than reading them.

    Args:
        folder: That of the first day, without files so far.
        contents: Of the files; what is compressed by gzip is named so.
    """
    names = []
    for number, content in enumerate(contents):
        packed = isinstance(content, bytes) and content.startswith(b"\x1f\x8b")
        names.append(f"{number:02}{Path(source.path).suffix.rstrip('*')}{'.gz' * packed}")
        write(folder / names[-1], content)
    by_file: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for row in extracted(spark, source, fields):
        by_file[Path(row["_source"]["file"]).name].append(row)
    return [*by_file.values()]


def raw(rows: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The values of the fields only."""
    return [tuple(row["_raw"].values()) for row in rows]


def column(rows: Sequence[dict[str, Any]], name: str) -> list[Any]:
    """One column."""
    return [row[name] for row in rows]
