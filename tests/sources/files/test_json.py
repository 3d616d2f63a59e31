"""JSON lines through Spark."""

import gzip
import json
from pathlib import Path

import pytest
import zstandard
from pyspark.sql import SparkSession

from incload_assets.declaration.source import EXTRACTED_COLUMNS
from incload_assets.sources.files import records
from incload_assets.sources.files.files import Files
from tests.support.detection import detected
from tests.support.files import FIRST, column, day, each_extracted, extracted, raw, write

pytestmark = pytest.mark.reads

SOURCE = Files("{landing}/{window:%Y-%m-%d}/*.json*")
FOLDER = day(1).key


def test_a_line_becomes_a_record_with_its_place(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.json", '{"id":1,"name":"x"}\r\n\r\n  {"id":2,"extra":[1,{"b":null}]}')
    assert extracted(spark, SOURCE, ["id", "name"]) == [
        {
            "_raw": {"id": "1", "name": "x"},
            "_payload": '{"id":1,"name":"x"}',
            "_rescued": None,
            "_malformed": None,
            "_source": {"file": "2026-01-01/a.json", "block": 0, "row": 1},
            "_present": ["id", "name"],
        },
        {
            "_raw": {"id": "2", "name": None},
            "_payload": '  {"id":2,"extra":[1,{"b":null}]}',
            "_rescued": '{"extra":[1,{"b":null}]}',
            "_malformed": None,
            "_source": {"file": "2026-01-01/a.json", "block": 0, "row": 2},
            "_present": ["id"],
        },
    ]


EXACTLY = [
    ("1.10000000000000000000001", "1.10000000000000000000001"),
    ("99999999999999999999.999999999999999999", "99999999999999999999.999999999999999999"),
    ("-0.000000000000000001", "-0.000000000000000001"),
    ("9223372036854775807", "9223372036854775807"),
    ("123456789012345678901234567890", "123456789012345678901234567890"),
    ("1234567890123456789012345678901234567890", "1234567890123456789012345678901234567890"),
    ("0.12345678901234567890123456789012345678901", "0.12345678901234567890123456789012345678901"),
    ("1.2345678901234567891e0", "1.2345678901234567891e0"),
    ("-1E-400", "-1E-400"),
    ("1e999", "1e999"),
    (
        '{"b":[1e999,1.5,"1e5",{"c":"2, 3e4"}],"a\\"1e5":1e05}',
        '{"a\\"1e5":1e05,"b":[1e999,1.5,"1e5",{"c":"2, 3e4"}]}',
    ),
    ('["x", 1e999]', '["x",1e999]'),
    ('["\ufdd11", 1e999]', '["\ufdd11",1e999]'),
    ('"007"', "007"),
    ('""', ""),
    ("null", None),
    ("true", "true"),
    ('{"b":[1.50,"x"],"a":{}}', '{"a":{},"b":[1.5,"x"]}'),
    ('"\\u00e9 \\ud83d\\ude00 😀 \\n"', "é 😀 😀 \n"),
    ('"2026-01-01T03:00:00.123456+02:00"', "2026-01-01T03:00:00.123456+02:00"),
]
"""Values as a file has them, and as they are kept."""


def test_a_value_is_kept_exactly(spark: SparkSession, landing: Path) -> None:
    texts = (f'{{"v":{text}}}' for text, _ in EXACTLY)
    found = each_extracted(spark, SOURCE, landing / FOLDER, ["v"], *texts)
    assert [raw(rows) for rows in found] == [[(value,)] for _, value in EXACTLY]


MALFORMED = [
    (b'{"id":', "not valid JSON"),
    (b'{"id":1,"id":2}', "the name 'id' occurs twice in an object"),
    (b'{"a":1,"\\u0061":2,"b":NULL}', "not valid JSON"),
    (b'{"b":0,"a":1,"\\u0061":2,"b":3}', "the name 'a' occurs twice in an object"),
    (b'{"id":{"x":1,"x":1e5}}', "a name occurs twice in an object within the record"),
    (b'{"id":"\\ud800"}', "it contains half a character (a surrogate without its pair)"),
    (b'{"id":"\\ude00x"}', "it contains half a character (a surrogate without its pair)"),
    (b'{"id":"\\ud83d\\ude00","id":"\\\\ud800"}', "the name 'id' occurs twice in an object"),
    (b'{"id":NaN}', "not valid JSON"),
    (b"{'id':1}", "not valid JSON"),
    (b'{"id":01e5}', "not valid JSON"),
    (b'{"id":1e5, 1e5:2}', "not valid JSON"),
    (b'{"id":1e5}{"id":1e5}', "not valid JSON"),
    (b'{"id":1},"end"', "more than one JSON value in the line"),
    ('{"id":1},"\ufdd0"'.encode(), "more than one JSON value in the line"),
    (b'{"id":1} {"id":2}', "not valid JSON"),
    (b'{"id":1},{"id":2}', "more than one JSON value in the line"),
    (b'{"id":1}], {"id":2}', "more than one JSON value in the line"),
    (b"[1,2]", "not a JSON object"),
    (b"null", "not a JSON object"),
    (b'"end"', "not a JSON object"),
    (b'{"id":"\xff\xfe"}', "not valid UTF-8"),
    ('{"id":1}'.encode("utf-16le"), "not valid JSON"),
]
"""Lines, and why they are malformed."""


def test_a_malformed_line_is_kept_with_the_reason(spark: SparkSession, landing: Path) -> None:
    texts = (b'{"id":8}\n' + line + b'\n{"id":9}\n' for line, _ in MALFORMED)
    found = each_extracted(spark, SOURCE, landing / FOLDER, ["id"], *texts)
    for rows, (line, reason) in zip(found, MALFORMED, strict=True):
        assert raw(rows) == [("8",), (None,), ("9",)], line
        assert column(rows, "_malformed") == [None, reason, None]
        assert rows[1]["_payload"] == line.decode(errors="replace")
        assert rows[1]["_rescued"] is None


def test_what_is_rescued_of_a_record_has_all_digits(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.json", '{"id":"a","more":1.2345678901234567891e0,"deep":{"n":[1e999]}}')
    rows = extracted(spark, SOURCE, ["id"])
    assert column(rows, "_rescued") == ['{"deep":{"n":[1e999]},"more":1.2345678901234567891e0}']
    assert raw(rows) == [("a",)]


def test_names_are_compared_exactly(spark: SparkSession, landing: Path) -> None:
    fields = ["id", "a b", "select", 'q"', "it's", "x.y", "both\"'", "é"]
    record = {name: str(number) for number, name in enumerate(fields)}
    write(landing / FOLDER / "a.json", json.dumps({**record, "ID": "other", "": "empty"}))
    rows = extracted(spark, SOURCE, fields)
    assert raw(rows) == [tuple("01234567")]
    assert json.loads(rows[0]["_rescued"]) == {"ID": "other", "": "empty"}


def test_three_hundred_columns(spark: SparkSession, landing: Path) -> None:
    fields = [f"c{number}" for number in range(300)]
    write(landing / FOLDER / "a.json", json.dumps({name: name.upper() for name in fields}))
    assert raw(extracted(spark, SOURCE, fields)) == [tuple(name.upper() for name in fields)]


def test_a_byte_order_mark_is_no_part_of_a_record(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.json", b'\xef\xbb\xbf{"id":1}\n\xef\xbb\xbf{"id":2}\n')
    assert raw(extracted(spark, SOURCE, ["id"])) == [("1",), ("2",)]


def test_a_string_of_ten_megabytes(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.json", json.dumps({"id": 1, "text": "x" * 10_000_000}))
    position = detected(SOURCE, "orders", [day(1)], {}, first=FIRST)[FOLDER]
    frame = SOURCE.extract(spark, "orders", position, ["id", "text"])
    assert frame.selectExpr("_raw.id", "length(_raw.text) AS n", "_malformed").first() == ("1", 10_000_000, None)


@pytest.fixture(params=[False, True], ids=["sorted", "read twice"])
def numbering(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of numbering records, however large their files are."""
    if request.param:
        monkeypatch.setattr(records, "WORTH_READING_TWICE_BYTES", 0)


@pytest.mark.usefixtures("numbering")
def test_compressed_and_plain_files_together(spark: SparkSession, landing: Path) -> None:
    lines = [f'{{"id":{number}}}\n'.encode() for number in range(6)]
    write(landing / FOLDER / "a.json.gz", gzip.compress(lines[0]) + gzip.compress(lines[1]))
    write(landing / FOLDER / "b.json.zst", zstandard.compress(lines[2]) + zstandard.compress(lines[3]))
    write(landing / FOLDER / "c.jsonl", lines[4] + lines[5])
    write(landing / FOLDER / "d.json", b"")
    write(landing / FOLDER / "e.json.gz", b"")
    source = Files("{landing}/{window:%Y-%m-%d}/*")
    rows = extracted(spark, source, ["id"])
    assert raw(rows) == [(str(number),) for number in range(6)]
    assert [row["_source"]["row"] for row in rows] == [1, 2] * 3


@pytest.mark.usefixtures("numbering")
@pytest.mark.parametrize("tasks", [None, 2], ids=["a task per block", "two tasks"])
@pytest.mark.parametrize("files", [1, 2])
def test_rows_are_numbered_in_each_block_of_a_file_that_is_read_in_parts(
    spark: SparkSession, landing: Path, files: int, tasks: int | None
) -> None:
    lines = [f'\n{{"id":{number}}}\n' for number in range(1000, 3000)]
    for of in range(files):
        write(landing / FOLDER / f"{of} a+b%é.json", "".join(lines[of * 2000 // files : (of + 1) * 2000 // files]))
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "8000")
    if tasks:
        spark.conf.set("spark.sql.files.maxPartitionNum", str(tasks))
    try:
        rows = extracted(spark, SOURCE, ["id"])
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionNum")
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(before))
    assert raw(rows) == sorted(raw(rows))
    assert len(rows) == 2000
    numbers: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        numbers.setdefault((row["_source"]["file"], row["_source"]["block"]), []).append(row["_source"]["row"])
    assert {file for file, _ in numbers} == {f"{FOLDER}/{of} a+b%é.json" for of in range(files)}
    assert len(numbers) > 2
    assert all(of_block == list(range(1, len(of_block) + 1)) for of_block in numbers.values())


def test_a_position_without_files_has_no_rows_and_the_same_columns(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.json", b"")
    empty = SOURCE.extract(spark, "orders", SOURCE.empty_position(day(1)), ["id", "a b"])
    assert tuple(empty.columns) == (*EXTRACTED_COLUMNS, "_present")
    assert empty.select("_raw.*").columns == ["id", "a b"]
    assert extracted(spark, SOURCE, ["id", "a b"]) == empty.collect() == []
