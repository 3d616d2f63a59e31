"""The words of the generator: a record, the file that carries it, and the feed both belong to."""

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
    """One record as the shop sends it, with what it means.

    Args:
        arrives: When the shop sends it, UTC; decides its file.
        fields: What is written.
        row: The table row it stands for, in the table's types; None where the contract has to reject it.
        delete: Whether it deletes the row.
        trouble: What is unusual about it, for people; None for an ordinary record.
        copied: Whether the same record is sent twice. Such a record is never corrected in a rewritten file: two
            versions with one sequence would be left, and which of them is right could not be told.
        raw: The line as written, where it is not what ``fields`` would give.
    """

    arrives: datetime
    fields: Mapping[str, Any]
    row: Mapping[str, Any] | None
    delete: bool = False
    trouble: str | None = None
    copied: bool = False
    raw: str | None = None


def send_twice(record: Record, after: timedelta) -> tuple[Record, Record]:
    """The record, and its duplicate that arrives ``after``."""
    first = replace(record, copied=True)
    return first, replace(first, arrives=record.arrives + after, trouble="duplicate")


@dataclass(frozen=True, kw_only=True)
class Feed:
    """One table's files, or a part of them.

    Args:
        table: Name of the table and of its folder in the landing area.
        keys: Columns that identify a row.
        encode: Records to the bytes of a file.
        folder: ``strftime`` pattern of a window's folder, applied to the start of the window; empty for none.
        partition: The same for the window's partition key.
        part_of: Name of the table, where several feeds make one.
    """

    table: str
    keys: tuple[str, ...]
    encode: Callable[[Sequence[Record]], bytes]
    folder: str = "%Y-%m-%d"
    partition: str = "%Y-%m-%d"
    part_of: str | None = None

    @property
    def target(self) -> str:
        """The table that its files are loaded into."""
        return self.part_of or self.table


@dataclass(frozen=True, kw_only=True)
class RecordFeed(Feed):
    """A stream of records, each of them sent in the file of the time at which it arrives.

    Args:
        sequence: Columns that order the changes of a key.
        every: How often a file is written.
        closes: Time of day, counted from midnight UTC, from which the steps of ``every`` are counted.
        window: Length of a partition: a day, or what divides one.
        file_name: ``strftime`` pattern of a file's name, applied to the start of the time it covers.
        born: All records, whenever they arrive, of the things that began on a day.
        correct: A good record with a corrected value and an unchanged sequence; None where no file is rewritten.
        lookback: Longest time from the day a thing began to the arrival of its last record, in days.
        rewritten_every: A file is rewritten on one day in so many; 0 for never.
        rewritten_on: Which of those days, 0 to ``rewritten_every - 1``.
        rewritten_age: How old, in days, the rewritten file is.
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
    """One version of a day's complete extract.

    Args:
        due: When it appears, UTC.
        records: All that there is at that time; one without a row makes the whole export a broken one.
    """

    due: datetime
    records: tuple[Record, ...]


@dataclass(frozen=True, kw_only=True)
class ExportFeed(Feed):
    """Complete extracts: one file a day, which is written again whenever something has changed.

    Args:
        file_name: ``strftime`` pattern of a file's name, applied to the day.
        exports: The versions of a day's file, oldest first, each due within the day; the last is not broken.
    """

    file_name: str
    exports: Callable[[Calendar, date], list[Export]]


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One version of one file.

    Args:
        feed: The feed it belongs to.
        window: Start of the window it belongs to, as its folder says, UTC.
        name: Name of the file in that folder.
        due: When it is complete and appears, UTC.
        records: What it holds, in order.
        rewritten: Whether it replaces an earlier version of the same file.
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
        """Key of the partition it belongs to."""
        return self.window.strftime(self.feed.partition)

    def content(self) -> bytes:
        """The bytes of the file; equal deliveries have equal bytes."""
        return self.feed.encode(self.records)


def json_lines(records: Sequence[Record]) -> bytes:
    """Records as JSON lines."""
    lines = (record.raw or json.dumps(dict(record.fields), ensure_ascii=False) for record in records)
    return "".join(f"{line}\n" for line in lines).encode()


def gzipped_json_lines(records: Sequence[Record]) -> bytes:
    """Records as gzipped JSON lines, without the time of compression, which would differ at each writing."""
    return gzip.compress(json_lines(records), mtime=0)


def csv_with_header(columns: Sequence[str]) -> Callable[[Sequence[Record]], bytes]:
    """An encoder to CSV with a header, quoted as RFC 4180 says; None is an empty cell."""

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
