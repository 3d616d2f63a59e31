"""The generator's types: records, the files that contain them, and the feeds to which both belong."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

from incload_assets.shop.calendar import Calendar


@dataclass(frozen=True, kw_only=True)
class Record:
    """One record as the shop sends it, with its meaning.

    Args:
        arrives: When the shop sends the record, UTC; determines its file.
        row: The expected table row, in the table's types; None if the contract has to reject the record.
        trouble: Description of what is unusual about the record; None for an ordinary record.
        copied: Whether the record is sent twice. Such a record is never corrected in a rewritten file: two versions
            with the same sequence would remain, and neither could be recognised as the right one.
        raw: The line as written, if it differs from the encoded ``fields``.
    """

    arrives: datetime
    fields: Mapping[str, Any]
    row: Mapping[str, Any] | None
    delete: bool = False
    trouble: str | None = None
    copied: bool = False
    raw: str | None = None


def send_twice(record: Record, after: timedelta) -> tuple[Record, Record]:
    """The record, and a duplicate that arrives ``after`` that time."""
    first = replace(record, copied=True)
    return first, replace(first, arrives=record.arrives + after, trouble="duplicate")


@dataclass(frozen=True, kw_only=True)
class Feed:
    """The files of one table, or some of them (``part_of``).

    ``folder`` and ``partition`` are ``strftime`` patterns of a window's folder and partition key, applied to its start;
    an empty folder is none. The table's name is also the name of its folder in the landing area.
    """

    table: str
    keys: tuple[str, ...]
    encode: Callable[[Sequence[Record]], bytes]
    folder: str = "%Y-%m-%d"
    partition: str = "%Y-%m-%d"
    part_of: str | None = None

    @property
    def target(self) -> str:
        """The table into which the files are loaded."""
        return self.part_of or self.table


@dataclass(frozen=True, kw_only=True)
class RecordFeed(Feed):
    """A stream of records, each written to the file of its arrival time.

    Args:
        every: Interval between files.
        closes: Time of day, as an offset from midnight UTC, from which the steps of ``every`` are counted.
        window: Length of a partition: a day, or a fraction of one.
        file_name: ``strftime`` pattern of a file's name, applied to the start of the time that it covers.
        born: Returns all records of the entities that began on a day, regardless of their arrival.
        correct: Returns a good record with a corrected value and an unchanged sequence; None: no file is rewritten.
        lookback: Longest time from the day an entity began to the arrival of its last record, in days.
        rewritten_every: A file is rewritten once in this many days; 0: never.
        rewritten_on: Which of those days, 0 to ``rewritten_every - 1``.
        rewritten_age: Age of the rewritten file in days.
    """

    sequence: tuple[str, ...]
    every: timedelta
    closes: timedelta = timedelta(0)
    window: timedelta = timedelta(days=1)
    file_name: str
    born: Callable[[Calendar, date], list[Record]]
    correct: Callable[[Record, Random], Record] | None = None
    lookback: int
    rewritten_every: int = 0
    rewritten_on: int = 0
    rewritten_age: int = 2


@dataclass(frozen=True, kw_only=True)
class Export:
    """One version of a day's full extract, at an instant in UTC; a record without a row makes all of it invalid."""

    due: datetime
    records: tuple[Record, ...]


@dataclass(frozen=True, kw_only=True)
class ExportFeed(Feed):
    """Full extracts: one file a day, which is rewritten whenever a record has changed.

    ``exports`` returns the versions of a day's file, oldest first, each due within the day; the last one is valid.
    """

    file_name: str
    exports: Callable[[Calendar, date], list[Export]]


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One version of one file, complete when it is due (UTC); ``rewritten`` if it replaces an earlier version.

    ``window`` is the start of the file's window, UTC, which determines its folder.
    """

    feed: Feed
    window: datetime
    name: str
    due: datetime
    records: tuple[Record, ...]
    rewritten: bool = False

    @property
    def path(self) -> str:
        """Path under the landing root."""
        return "/".join(filter(None, (self.feed.table, self.window.strftime(self.feed.folder), self.name)))

    @property
    def partition(self) -> str:
        """Key of the file's partition."""
        return self.window.strftime(self.feed.partition)

    def content(self) -> bytes:
        """The bytes of the file; equal deliveries have equal bytes."""
        return self.feed.encode(self.records)


def json_lines(records: Sequence[Record]) -> bytes:
    """Records as JSON lines."""
    lines = (record.raw or json.dumps(dict(record.fields), ensure_ascii=False) for record in records)
    return "".join(f"{line}\n" for line in lines).encode()


def gzipped_json_lines(records: Sequence[Record]) -> bytes:
    """Records as gzipped JSON lines, without the time of compression, which would make equal files differ."""
    return gzip.compress(json_lines(records), mtime=0)


def csv_with_header(columns: Sequence[str]) -> Callable[[Sequence[Record]], bytes]:
    """An encoder for CSV with a header, quoted according to RFC 4180; None is an empty cell."""

    def encode(records: Sequence[Record]) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        for record in records:
            if record.raw is not None:
                text.write(f"{record.raw}\n")
            else:
                writer.writerow([record.fields[column] for column in columns])
        return text.getvalue().encode()

    return encode
