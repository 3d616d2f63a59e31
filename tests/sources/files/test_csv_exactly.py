"""CSV is read as it was written, or quarantined: random files against a reader of a few lines of plain Python.

Hundreds of small files go through one read. What fails is told as the content of the file, and INCLOAD_TEST_SEED
repeats it.
"""

import csv
import gzip
import io
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.sources.files.files import Files
from tests.support.files import day, extracted, write

SEED = os.environ.get("INCLOAD_TEST_SEED", "0")
FILES = 200
NAMES = ("a", "b", "c")
SIGNS = ["a", "é", " ", "\\", "\0", "\t", '"', '""', "\r", "\n", "\r\n", "#"]

Record = tuple[str | None, ...]


def read(text: str, delimiter: str) -> tuple[list[Record], bool, set[str]]:
    """The records of a CSV text as Python's csv module reads them, whether all is as in RFC 4180, and how lines end.

    An unquoted empty field is None here, which that module does not tell from a quoted one.
    """
    records: list[Record] = []
    fields: list[str | None] = []
    clean, at, ends = True, 0, set()
    while at < len(text) or fields:
        field, quoted = "", text.startswith('"', at)
        if quoted:
            rest = re.match(r'"((?:[^"]|"")*)("?)', text[at:])
            assert rest is not None
            field, clean, at = rest[1].replace('""', '"'), clean and rest[2] == '"', at + rest.end()
        rest = re.match(rf"[^{re.escape(delimiter)}\r\n]*", text[at:])
        assert rest is not None
        field, clean, at = field + rest[0], clean and not (quoted and rest[0]), at + rest.end()
        fields.append(field if quoted or field else None)
        if text.startswith(delimiter, at):
            at += 1
            continue
        end = re.match(r"\r\n?|\n|", text[at:])
        assert end is not None
        ends |= {end[0]} - {""}
        at += end.end()
        if fields != [None]:
            records.append(tuple(fields))
        fields = []
    return records, clean, ends


def as_csv_reads_it(text: str, delimiter: str) -> list[Record]:
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return [tuple(field or None for field in row) for row in rows if row]


def fits(found: Sequence[Record | None], right: Sequence[Record], exactly: bool) -> bool:
    """Whether rows are the right ones, each run of malformed ones (None) standing for one or more of these."""
    if exactly:
        return list(found) == list(right)
    if not found:
        return not right
    first, *others = found
    if first is not None:
        return bool(right) and first == right[0] and fits(others, right[1:], exactly)
    while others and others[0] is None:
        others = others[1:]
    return any(fits(others, right[skipped:], exactly) for skipped in range(1, len(right) + 1))


def contents(draw: random.Random, delimiter: str) -> str:
    """A file of one to three columns: written by Python's csv module, or of any signs."""
    names, end = NAMES[: draw.randint(1, 3)], draw.choice(["\n", "\n", "\r\n", "\r\n", "\r"])
    header = delimiter.join(names) + end
    signs = [*SIGNS, delimiter, delimiter]
    if draw.random() < 0.4:
        return header + "".join(draw.choices(signs, k=draw.randint(0, 14)))
    text = io.StringIO(newline="")
    for _ in range(draw.randint(1, 4)):
        row = ["".join(draw.choices(signs, k=draw.randint(0, 4))) for _ in names]
        csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=draw.choice([0, 1])).writerow(row)
    return header + (text.getvalue().removesuffix(end) if draw.random() < 0.3 else text.getvalue())


@pytest.mark.parametrize(
    ("delimiter", "encoding", "name"),
    [
        (",", "utf-8", "{}.csv"),
        (";", "utf-16", "{}.csv"),
        ("\\", "utf-16le", "{}.csv"),
        ("|", "iso-8859-1", "{}.csv.gz"),
    ],
)
def test_whatever_is_in_a_file_is_read_as_it_was_written_or_quarantined(
    spark: SparkSession, landing: Path, delimiter: str, encoding: str, name: str
) -> None:
    draw = random.Random(f"{SEED} {encoding}")
    texts = {f"{number:04}": contents(draw, delimiter) for number in range(FILES)}
    for number, text in texts.items():
        content = text.encode(encoding)
        path = landing / day(1).key / name.format(number)
        write(path, gzip.compress(content) if name.endswith("gz") else content)
    source = Files("{landing}/{window:%Y-%m-%d}/*", delimiter=delimiter, encoding=encoding)
    found: dict[str, list[Record | None]] = {number: [] for number in texts}
    reasons: dict[str, list[str]] = {number: [] for number in texts}
    for row in extracted(spark, source, NAMES):
        number = row["_source"]["file"].split("/")[1].split(".")[0]
        count = len(texts[number].split(delimiter + "a")[0].splitlines()[0].split(delimiter))
        values = tuple(row["_raw"].values())[:count]
        found[number].append(values if row["_malformed"] is None else None)
        reasons[number].append(row["_malformed"])
    wrong, exact = [], 0
    for number, text in texts.items():
        (header, *right), clean, ends = read(text, delimiter)
        if "\0" not in text:  # Python 3.11 reads no NUL
            assert [tuple(f or None for f in r) for r in (header, *right)] == as_csv_reads_it(text, delimiter), repr(
                text
            )
        exactly = clean and all(len(record) == len(header) for record in right) and header not in right
        # Spark cannot read all of a file whose lines end with carriage returns alone
        exactly &= "\r" not in ends or (ends == {"\r"} and not any("\r" in (f or "") for r in right for f in r))
        exact += exactly and bool(right)
        # where only some lines end with a carriage return, which is told, it decides which quotes belong together
        mixed = "\r" in ends and len(ends) > 1 and '"' in text and None in found[number]
        if mixed or (not clean and "\r" in ends):  # which quote is the one too many depends on where lines end
            continue
        if not fits(found[number], right, exactly):
            wrong.append((text, found[number], right, reasons[number]))
    assert not wrong, f"{len(wrong)} of {FILES} files are read wrong, INCLOAD_TEST_SEED={SEED}: {wrong[:5]}"
    assert exact > FILES / 4
