"""CSV through Spark."""

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.sources.files.files import Files
from tests.support.detection import detected
from tests.support.files import FIRST, column, day, each_extracted, extracted, raw, write

pytestmark = pytest.mark.reads

SOURCE = Files("{landing}/{window:%Y-%m-%d}/*.csv*")
FOLDER = day(1).key


def test_a_record_has_its_place_its_text_and_its_unknown_fields(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv", 'id,extra,name\n1,,"a, ""b""\nc"\n2,x,""\n')
    assert extracted(spark, SOURCE, ["name", "id", "none"]) == [
        {
            "_raw": {"name": 'a, "b"\nc', "id": "1", "none": None},
            "_payload": '{"id":"1","extra":null,"name":"a, \\"b\\"\\nc"}',
            "_rescued": '{"extra":null}',
            "_malformed": None,
            "_source": {"file": "2026-01-01/a.csv", "block": 0, "row": 1},
            "_present": ["name", "id"],
        },
        {
            "_raw": {"name": "", "id": "2", "none": None},
            "_payload": '{"id":"2","extra":"x","name":""}',
            "_rescued": '{"extra":"x"}',
            "_malformed": None,
            "_source": {"file": "2026-01-01/a.csv", "block": 0, "row": 2},
            "_present": ["name", "id"],
        },
    ]


def test_columns_are_known_by_the_header_of_their_own_file(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv", "id,name\n1,a\n")
    write(landing / FOLDER / "b.csv", "name,id\nb,2\n")
    write(landing / FOLDER / "c.csv", "id, city ,name\n3,Rome,c\n")
    rows = extracted(spark, SOURCE, ["id", "name"])
    assert raw(rows) == [("1", "a"), ("2", "b"), ("3", "c")]
    assert column(rows, "_rescued") == [None, None, '{"city":"Rome"}']


def test_unquoted_empty_is_null_and_quoted_empty_is_text(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv", 'a,b\n,""\n"",\n" ", x\n')
    assert raw(extracted(spark, SOURCE, ["a", "b"])) == [(None, ""), ("", None), (" ", " x")]


def test_fields_of_control_characters_are_kept(spark: SparkSession, landing: Path) -> None:
    lines = ["a,b", "\0,", '"\0","\r\x85"', '"\r",', '"\r"', "1,2", ""]
    for rows in each_extracted(
        spark, SOURCE, landing / FOLDER, ["a", "b"], *(end.join(lines) for end in ("\n", "\r\n"))
    ):
        assert raw(rows) == [("\0", None), ("\0", "\r\x85"), ("\r", None), (None, None), ("1", "2")]
        assert [row["_malformed"] is None for row in rows] == [True, True, True, False, True]


def test_too_many_or_too_few_fields_are_malformed(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv", "id,name\n1,a\n2\n3,b,c\n4,d\n")
    rows = extracted(spark, SOURCE, ["id", "name"])
    assert raw(rows) == [("1", "a"), (None, None), (None, None), ("4", "d")]
    assert column(rows, "_malformed") == [None, *["not the 2 fields of the header"] * 2, None]
    assert column(rows, "_payload")[1:3] == ["2", "3,b,c"]


def test_an_open_quote_does_not_swallow_records_in_silence(spark: SparkSession, landing: Path) -> None:
    texts = ('id,name\n1,a\n2,"open\n3,c\n4,d\n', 'id,name\n1,a\n"2,open\n3,c\n4,d\n')
    for rows in each_extracted(spark, SOURCE, landing / FOLDER, ["id", "name"], *texts):
        assert [row["_malformed"] is None for row in rows] == [True, False]
        assert "4,d" in rows[1]["_payload"]


def test_a_line_break_in_the_last_field_of_a_file_is_fine_when_the_quote_is_closed(
    spark: SparkSession, landing: Path
) -> None:
    write(landing / FOLDER / "a.csv", 'id,name\n1,"a\nb"')
    write(landing / FOLDER / "b.csv", 'id,name\n1,"a\nb"\n2,c\n')
    rows = extracted(spark, SOURCE, ["id", "name"])
    assert raw(rows) == [("1", "a\nb"), ("1", "a\nb"), ("2", "c")]
    assert column(rows, "_malformed") == [None] * 3


def test_each_way_to_end_a_line(spark: SparkSession, landing: Path) -> None:
    texts = (end.join(["", "id,name", "1,a", "", '2,"b"', "", ""]) for end in ("\n", "\r\n", "\r"))
    for rows in each_extracted(spark, SOURCE, landing / FOLDER, ["id", "name"], *texts):
        assert (raw(rows), column(rows, "_malformed")) == ([("1", "a"), ("2", "b")], [None, None])


def test_mixed_line_ends_lose_nothing(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv", "id,name\n1,a\r\n2,b\n\r\n3,c\r\n")
    rows = extracted(spark, SOURCE, ["id", "name"])
    assert (raw(rows), column(rows, "_malformed")) == ([("1", "a"), ("2", "b"), ("3", "c")], [None] * 3)


def test_line_breaks_within_quotes_are_kept_as_they_are(spark: SparkSession, landing: Path) -> None:
    values = ["a\r\nb", "a\nb", "a\rb", "x\r", "x\n", "x\r\n", "\r", "\n", 'x"\r', '"', "", "x"]
    lines = ["id,name", *('"{0}","{0}"'.format(value.replace('"', '""')) for value in values)]
    texts = [end.join(lines).encode() for end in ("\n", "\r\n")]
    for rows in each_extracted(spark, SOURCE, landing / FOLDER, ["id", "name"], *texts, *map(gzip.compress, texts)):
        assert (raw(rows), column(rows, "_malformed")) == ([(value, value) for value in values], [None] * len(values))


def test_an_unquoted_last_field_has_nothing_of_its_line_end(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv", 'id,name\r\n1,x\r\n2,x"\r\n3,\r\n4,""\r\n5,x\n6,"x\r"\r\n7, \r')
    assert [name for _, name in raw(extracted(spark, SOURCE, ["id", "name"]))] == [
        "x", 'x"', None, "", "x", "x\r", " "
    ]  # fmt: skip


UNSURE = [
    ('1,"x" ', "text after a closing quote"),
    ('1,"x"y', "text after a closing quote"),
    ('"1" ,x', "text after a closing quote"),
    ('"1"\0,x', "text after a closing quote"),
    ("1,a\rb", "a line break without quotes"),
    ("1,x\r\r", "a line break without quotes"),
    ("1,x\r2,y", "a line break without quotes"),
    ('"1\uffff""2",x', "U+FFFF in quotes, which is not a character"),
    ("1,x,y,z", "not the 2 fields of the header"),
    ('"1","x', "a quote is not closed"),
    ('1,"', "a quote is not closed"),
]
"""Lines, and why they are malformed."""


def test_what_cannot_be_told_for_sure_is_malformed(spark: SparkSession, landing: Path) -> None:
    found = each_extracted(
        spark, SOURCE, landing / FOLDER, ["id", "name"], *(f'id,name\n0,a"b\n{line}' for line, _ in UNSURE)
    )
    for rows, (line, reason) in zip(found, UNSURE, strict=True):
        assert (raw(rows), column(rows, "_malformed")) == ([("0", 'a"b'), (None, None)], [None, reason]), line


def test_a_carriage_return_in_quotes_is_malformed_where_lines_end_with_one(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv", 'id,name\r1,"a\nb"\r2,"a\rb"\r3,c\n4,d\r')
    rows = extracted(spark, SOURCE, ["id", "name"])
    assert raw(rows) == [("1", "a\nb"), (None, None), (None, None)]
    assert column(rows, "_malformed")[1:] == [
        "a carriage return in quotes, in a file whose lines end with one",
        "a line break without quotes",
    ]


@pytest.mark.parametrize("text", ["\n\r\nid,name\r\n1,a\r\n", "\r\nid,name\n1,a\n", '"i\nd",name\r1,a\r'])
def test_a_file_that_begins_with_several_line_ends_is_refused(spark: SparkSession, landing: Path, text: str) -> None:
    write(landing / FOLDER / "a.csv", text)
    with pytest.raises(SourceUnreadable, match=r"in 2026-01-01/a.csv not all lines up to the header end the same way"):
        extracted(spark, SOURCE, ["name"])


def test_long_fields_and_records_of_many_fields(spark: SparkSession, landing: Path) -> None:
    names = [f"n{number}" for number in range(21_000)]
    write(landing / FOLDER / "a.csv", f"{','.join(names)}\n{','.join(map(str, range(21_000)))}\n")
    write(landing / FOLDER / "b.csv", 'n0,n20999\n"' + 'x""\n' * 300_000 + '",' + "y" * 300_000 + "\n")
    rows = extracted(spark, SOURCE, ["n0", "n20999"])
    assert raw(rows) == [("0", "20999"), ('x"\n' * 300_000, "y" * 300_000)]


def test_lines_of_nothing_but_carriage_returns_are_blank(spark: SparkSession, landing: Path) -> None:
    texts = (f'id,name\n1,a\n{blank}"\r",b\n{blank}' for blank in ("\r\n", "\r\r\n", "\n\r\r\r\n"))
    for rows in each_extracted(spark, SOURCE, landing / FOLDER, ["id", "name"], *texts):
        assert (raw(rows), column(rows, "_malformed")) == ([("1", "a"), ("\r", "b")], [None, None])


def test_one_column(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv", 'id\r\n1\r\n\r\n""\r\n2')
    assert raw(extracted(spark, SOURCE, ["id"])) == [("1",), ("",), ("2",)]


def test_compressed_files(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv.gz", gzip.compress(b"id,name\n1,a\n"))
    write(landing / FOLDER / "b.csv.zst", zstandard.compress(b"name,id\n" + b"b,2\n" * 50_000))
    write(landing / FOLDER / "c.csv.gz", gzip.compress(b"id,name\n"))
    position = detected(SOURCE, "orders", [day(1)], {}, first=FIRST)[FOLDER]
    frame = SOURCE.extract(spark, "orders", position, ["id", "name"])
    assert sorted(map(tuple, frame.groupBy("_raw.id", "_raw.name").count().collect())) == [
        ("1", "a", 1),
        ("2", "b", 50_000),
    ]


def test_files_without_records(spark: SparkSession, landing: Path) -> None:
    contents = (b"", b"\n\r\n", b"id,name", b"id,name\n", b"\xef\xbb\xbfid,name\r\n\r\n")
    assert each_extracted(spark, SOURCE, landing / FOLDER, ["id"], *contents) == [[]] * len(contents)


def test_a_header_longer_than_the_first_read(spark: SparkSession, landing: Path) -> None:
    names = [f"{'x' * 400}{number}" for number in range(300)]
    write(landing / FOLDER / "a.csv", f"{','.join(names)}\n{','.join(map(str, range(300)))}\n")
    assert raw(extracted(spark, SOURCE, [names[299], names[0]])) == [("299", "0")]


def test_a_name_twice_in_the_header_is_refused(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv", "id,name,id\n1,a,2\n")
    with pytest.raises(SourceUnreadable, match=r"the header of 2026-01-01/a.csv has the name 'id' twice"):
        extracted(spark, SOURCE, ["id"])


@pytest.mark.parametrize("text", ['id,"name\n1,a\n2,b\n', '"id,name\n1,a', 'id,"name'])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_quote_that_the_header_never_closes_is_refused(
    spark: SparkSession, landing: Path, name: str, text: str
) -> None:
    write(landing / FOLDER / name, gzip.compress(text.encode()) if name.endswith("gz") else text)
    with pytest.raises(SourceUnreadable, match=rf"the header of 2026-01-01/{name} has a quote that is never closed"):
        extracted(spark, SOURCE, ["id"])


@pytest.mark.parametrize("text", ['id,"name\n' + "1,a\n" * 40_000, "x" * 140_000])
def test_a_header_with_a_name_too_long_is_refused(spark: SparkSession, landing: Path, text: str) -> None:
    write(landing / FOLDER / "a.csv", text)
    with pytest.raises(
        SourceUnreadable, match=r"the header of 2026-01-01/a.csv has a name of more than 131072 characters.*quote"
    ):
        extracted(spark, SOURCE, ["id"])


def test_a_header_with_line_breaks_and_odd_characters(spark: SparkSession, landing: Path) -> None:
    texts = {"a\nb": '"a\nb"\n1\n', "a": '"a\n"\r\n1', "\0": "\0\n1", '"a"': '\r\r"""a"""\r1'}
    for name, [row] in zip(
        texts, each_extracted(spark, SOURCE, landing / FOLDER, [*texts], *texts.values()), strict=True
    ):
        assert row["_raw"] == dict.fromkeys(texts) | {name: "1"}


def test_names_that_differ_in_case_are_different(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv", "id,ID\n1,2\n")
    rows = extracted(spark, SOURCE, ["id"])
    assert (raw(rows), column(rows, "_rescued")) == ([("1",)], ['{"ID":"2"}'])


def test_records_in_another_encoding_are_malformed(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv", b"\xef\xbb\xbfid,name\n1,\xe9\n2,b\n")
    rows = extracted(spark, SOURCE, ["id", "name"])
    assert (raw(rows), column(rows, "_malformed")) == ([(None, None), ("2", "b")], ["not valid utf-8", None])


def test_a_header_in_another_encoding_is_refused(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv", "id,größe\n1,2\n".encode("latin-1"))
    with pytest.raises(SourceUnreadable, match=r"the header of 2026-01-01/a.csv is not utf-8"):
        extracted(spark, SOURCE, ["id"])


@pytest.mark.parametrize("encoding", ["iso-8859-1", "utf-16", "utf-16le", "utf-16be"])
def test_declared_encodings_and_delimiters(spark: SparkSession, landing: Path, encoding: str) -> None:
    write(landing / FOLDER / "a.csv", 'id;größe\n1;é\n2;"a;b"\n'.encode(encoding))
    source = Files(SOURCE.path, delimiter=";", encoding=encoding)
    assert raw(extracted(spark, source, ["id", "größe"])) == [("1", "é"), ("2", "a;b")]


@pytest.mark.parametrize(
    "delimiter", ["\\", "\t", " ", "\0", "|", "#", "'", "x", "\x1f", "\u00a7", "\u2028", "\U0001f600"]
)
def test_any_one_character_is_a_delimiter(spark: SparkSession, landing: Path, delimiter: str) -> None:
    write(landing / FOLDER / "a.csv", 'id,name\n1,a\n2,"b,c"\n,\n'.replace(",", delimiter))
    source = Files(SOURCE.path, delimiter=delimiter)
    source.validate("orders")
    assert raw(extracted(spark, source, ["id", "name"])) == [("1", "a"), ("2", f"b{delimiter}c"), (None, None)]


def test_malformed_records_can_be_counted_without_reading_anything_else(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv", "id,name\n1,a\n2\n3,b,c\n")
    position = detected(SOURCE, "orders", [day(1)], {}, first=FIRST)[FOLDER]
    frame = SOURCE.extract(spark, "orders", position, ["id", "name"])
    assert frame.where("_malformed IS NOT NULL").count() == 2
    assert frame.select("_malformed").where("_malformed IS NULL").count() == 1
    assert sorted(row["id"] or "" for row in frame.select("_raw.id").collect()) == ["", "", "1"]


def test_a_gzip_name_on_something_else_is_refused(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv.gz", "id\n1\n")
    with pytest.raises(SourceUnreadable, match=r"the file 2026-01-01/a.csv.gz is not gz"):
        extracted(spark, SOURCE, ["id"])


@pytest.mark.parametrize("kept", [4, 12, 14, -1])
@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv.zst"])
def test_a_compressed_file_cut_off_before_its_header_is_named(
    spark: SparkSession, landing: Path, name: str, kept: int
) -> None:
    text = b"id\n" + b"1\n" * 20_000
    whole = gzip.compress(text) if name.endswith("gz") else zstandard.compress(text)
    write(landing / FOLDER / name, whole[:kept])
    with pytest.raises(SourceUnreadable, match=rf"the file 2026-01-01/{name} is cut off: its compression does not end"):
        extracted(spark, SOURCE, ["id"])


def test_a_compressed_file_of_several_parts_and_one_of_nothing_are_whole(spark: SparkSession, landing: Path) -> None:
    parts = [b"id", b"\n1\n", b"", b"2\n"]
    write(landing / FOLDER / "a.csv.gz", b"".join(map(gzip.compress, parts)))
    write(landing / FOLDER / "b.csv.zst", b"".join(map(zstandard.compress, parts)))
    write(landing / FOLDER / "c.csv.gz", gzip.compress(b""))
    write(landing / FOLDER / "d.csv.zst", zstandard.compress(b""))
    assert raw(extracted(spark, SOURCE, ["id"])) == [("1",), ("2",)] * 2


def test_a_header_after_more_compressed_nothing_than_the_first_read(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv.gz", gzip.compress(b"") * 5000 + gzip.compress(b"id\n1\n"))
    write(landing / FOLDER / "b.csv.zst", zstandard.compress(b"") * 9000 + zstandard.compress(b"id\n1\n"))
    assert raw(extracted(spark, SOURCE, ["id"])) == [("1",)] * 2


FIELD = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], include_characters='\n",;'), max_size=6)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(st.tuples(FIELD, FIELD, FIELD), min_size=1, max_size=6), last=st.sampled_from(["", "\n"]))
def test_whatever_the_csv_module_writes_is_read_back(
    spark: SparkSession, landing: Path, records: list[tuple[str, str, str]], last: str
) -> None:
    records = [tuple(field.replace("\ufffd", "?") for field in record) for record in records]
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([("a", "b", "c"), *records])
    write(landing / FOLDER / "a.csv", text.getvalue().removesuffix("\n") + last)
    rows = extracted(spark, SOURCE, ["a", "b"])
    assert column(rows, "_malformed") == [None] * len(records)
    assert raw(rows) == [record[:2] for record in records]
    assert [json.loads(value)["c"] for value in column(rows, "_rescued")] == [record[2] for record in records]
