"""Reading whatever the format: names, changes, permissions, numbers."""

import gzip
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import zstandard
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.declaration.source import Position
from incload_assets.ingest.source_errors import read_error
from incload_assets.platform.errors import DeclarationError, SourceChanged, SourceUnreadable
from incload_assets.sources.files.files import Files
from incload_assets.sources.files.hashes import local_hashes
from incload_assets.sources.files.position import File
from incload_assets.sources.files.position import position_of as position_of_files
from incload_assets.sources.files.records import reader_of
from tests.sources.case import Place
from tests.sources.case_files import S3Files
from tests.support.detection import detected
from tests.support.files import FIRST, day, days, extracted, raw, write

pytestmark = pytest.mark.reads

SOURCE = Files("{landing}/{window:%Y-%m-%d}/*.json*")
FOLDER = day(1).key
NAMES = [
    "a b.json", "é😀.json", "100%.json", "a%20b.json", "a+b.json", "x[1].json", "x1.json", "y{2,3}.json", "q?.json",
    "st*r.json", "h#sh.json", "b\\slash.json", "quote'\".json", "a=b&c;d,e.json", "e\u0301.json", "\u00e9.json",
    "10:00.json", "file:a.json", "line\nbreak.json", "\r.json", " a .json", "\\.json", "%.json", "%2F.json", "+.json",
    "\u00a0.json", "[!a].json", "]{.json",
]  # fmt: skip
STALE = b"crc\0" + (512).to_bytes(4, "big") + b"else"
"""What Hadoop writes beside a file, of a content that it no longer has."""


@contextmanager
def as_nobody() -> Iterator[None]:
    """As a user to whom permissions apply."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def position_of(source: Files) -> Position:
    return detected(source, "orders", [day(1)], {}, first=FIRST)[FOLDER]


def test_any_file_name_is_its_key(spark: SparkSession, landing: Path) -> None:
    for number, name in enumerate(NAMES):
        write(landing / FOLDER / name, f'{{"id":{number}}}')
    rows = extracted(spark, SOURCE, ["id"])
    assert {(row["_source"]["file"], row["_raw"]["id"]) for row in rows} == {
        (f"2026-01-01/{name}", str(number)) for number, name in enumerate(NAMES)
    }
    assert len(rows) == len(NAMES)


def written_as(kind: str, value: int) -> bytes:
    """A file with one record."""
    if kind in ("parquet", "orc"):
        file = io.BytesIO()
        (orc if kind == "orc" else pq).write_table(pa.table({"id": [str(value)]}), file)
        return file.getvalue()
    text = (f'{{"id":{value}}}\n' if "json" in kind else f"id\n{value}\n").encode()
    return gzip.compress(text) if kind.endswith("gz") else zstandard.compress(text) if kind.endswith("zst") else text


@pytest.mark.parametrize("kind", ["json", "csv", "parquet", "orc", "json.gz", "csv.zst"])
def test_every_file_is_read_once_whatever_its_name_and_the_checksum_file_beside_it(
    spark: SparkSession, landing: Path, kind: str
) -> None:
    names = [name.replace(".json", f".{kind}") for name in NAMES]
    for number, name in enumerate(names):
        for window in days(2):
            write(landing / window.key / name, written_as(kind, number))
            write(landing / window.key / f".{name}.crc", STALE)
    source = Files(f"{{landing}}/{{window:%Y-%m-%d}}/*.{kind}")
    positions = detected(source, "orders", days(2), {})
    rows = source.extract_windows(spark, "orders", positions, ["id"]).collect()
    assert sorted((row["_window"], row["_source"]["file"], row["_raw"]["id"]) for row in rows) == sorted(
        (window.key, f"{window.key}/{name}", str(number)) for number, name in enumerate(names) for window in days(2)
    )


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("kind", ["json", "parquet", "orc"])
def test_every_object_is_read_once_whatever_its_key(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, kind: str
) -> None:
    place = Place(tmp_path, spark, monkeypatch, request)
    # the server of the tests does not take keys with line breaks
    names = [name.replace(".json", f".{kind}") for name in NAMES if not {"\n", "\r"} & set(name)]
    with place.closing:
        store = S3Files(place)
        for number, name in enumerate(names):
            store.put(f"{FOLDER}/{name}", written_as(kind, number))
        for name in (f"_a.{kind}", f"/a.{kind}", f".{names[0]}.crc"):
            store.put(f"{FOLDER}/{name}", written_as(kind, -1))
        rows = extracted(spark, Files(f"{{landing}}/{{window:%Y-%m-%d}}/**/*.{kind}"), ["id"])
    assert {(row["_source"]["file"], row["_raw"]["id"]) for row in rows} == {
        (f"{FOLDER}/{name}", str(number)) for number, name in enumerate(names)
    }
    assert len(rows) == len(names)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("{landing}/u/_{window:%Y-%m-%d}.csv", "u/2026-01-01.csv"),
        ("{landing}/u/{window:%Y/._%m-%d}.csv", "u/2026/01-01.csv"),
    ],
)
def test_a_path_to_hidden_names_is_refused_and_what_the_remedy_says_is_read(
    spark: SparkSession, landing: Path, path: str, name: str
) -> None:
    with pytest.raises(DeclarationError, match="Spark treats such files as hidden") as refused:
        Files(path).validate("orders")
    [better] = re.findall(r"for example '(.*)'", str(refused.value))
    write(landing / name, "id,seq\n7,1\n")
    source = Files(f"{path.rpartition('/')[0].replace('{window:%Y', '{window:%Y}')}/{better}")
    source.validate("orders")
    assert raw(extracted(spark, source, ["id", "seq"])) == [("7", "1")]


@pytest.mark.parametrize("folder", ["_in", ".in", "_in/.deep", "k=v", "_k=v", "a._COPYING_", "_temporary"])
@pytest.mark.parametrize("above", ["", "*/", "**/"])
def test_files_in_a_folder_that_the_path_names_are_read_though_no_glob_would_match_it(
    spark: SparkSession, landing: Path, folder: str, above: str
) -> None:
    write(landing / FOLDER / above.replace("*", "x") / folder / "a.json", '{"id":1}')
    source = Files(f"{{landing}}/{{window:%Y-%m-%d}}/{above}{folder}/*.json")
    source.validate("orders")
    assert raw(extracted(spark, source, ["id"])) == [("1",)]


@pytest.mark.parametrize("kind", ["json", "csv", "parquet", "orc"])
@pytest.mark.parametrize("name", ["_a", ".a", "_metadata", "_SUCCESS", ".a=b", "a._COPYING_"])
def test_a_file_that_spark_would_not_see_fails_by_its_name(
    spark: SparkSession, landing: Path, kind: str, name: str
) -> None:
    write(landing / FOLDER / name, written_as(kind, 1))
    write(landing / FOLDER / "b", written_as(kind, 2))
    hashes = local_hashes(str(landing / FOLDER / each) for each in (name, "b"))
    position = position_of_files(File(path.removeprefix(f"{landing}/"), etag, 9) for path, etag in hashes.items())
    source = Files("{landing}/{window:%Y-%m-%d}/*", format=kind)  # type: ignore[arg-type]
    with pytest.raises(SourceUnreadable, match=rf"Spark ignores the file 2026-01-01/{re.escape(name)}\."):
        source.extract(spark, "orders", position, ["id"])


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize("name", ["a.GZ", "a.Gz", "a.ZST"])
def test_a_compressed_file_that_spark_would_take_for_text_fails_by_its_name(
    spark: SparkSession, landing: Path, kind: str, name: str
) -> None:
    # to Spark it is one long line, and of CSV one more header
    write(landing / FOLDER / name, written_as(f"{kind}.{name[2:].lower()}", 1))
    with pytest.raises(SourceUnreadable, match=rf"does not decompress the file 2026-01-01/{name}.*lower case"):
        extracted(spark, Files("{landing}/{window:%Y-%m-%d}/*", format=kind), ["id"])  # type: ignore[arg-type]


def test_a_name_that_ends_in_capitals_is_of_its_format(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "A.JSON", '{"id":1}')
    write(landing / FOLDER / "B.CSV", "id\n2\n")
    write(landing / FOLDER / "C.PARQUET", written_as("parquet", 3))
    assert raw(extracted(spark, Files("{landing}/{window:%Y-%m-%d}/*"), ["id"])) == [("1",), ("2",), ("3",)]


def test_what_a_session_would_pass_over_is_an_error(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.json.gz", written_as("json.gz", 1)[:-9])
    path = write(landing / FOLDER / "b.json", '{"id":2}')
    names = ["spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles"]
    for name in names:
        spark.conf.set(name, "true")
    try:
        frame = SOURCE.extract(spark, "orders", position_of(SOURCE), ["id"])
        with pytest.raises(PySparkException, match="FAILED_READ_FILE"):
            frame.agg(F.max("_raw.id")).collect()
        write(landing / FOLDER / "a.json.gz", b"")
        frame = SOURCE.extract(spark, "orders", position_of(SOURCE), ["id"])
        path.unlink()
        with pytest.raises(PySparkException):
            frame.agg(F.max("_raw.id")).collect()
    finally:
        for name in names:
            spark.conf.unset(name)


def test_a_path_outside_the_landing_area_is_its_own_key(spark: SparkSession, landing: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "else [where]" / f"{FOLDER}.json", '{"id":1}')
    rows = extracted(spark, Files(f"{tmp_path}/else [where]/{{window:%Y-%m-%d}}.json"), ["id"])
    assert [(row["_source"]["file"], row["_raw"]["id"]) for row in rows] == [(str(path), "1")]


def test_a_file_changed_since_is_noticed(spark: SparkSession, landing: Path) -> None:
    path = write(landing / FOLDER / "a.json", '{"id":1}')
    position = position_of(SOURCE)
    write(path, '{"id":2}')
    with pytest.raises(SourceChanged, match=r"the file 2026-01-01/a.json has changed"):
        SOURCE.extract(spark, "orders", position, ["id"])


def test_a_file_vanished_since_is_noticed(spark: SparkSession, landing: Path) -> None:
    path = write(landing / FOLDER / "a.json", '{"id":1}')
    position = position_of(SOURCE)
    path.unlink()
    with pytest.raises(SourceChanged, match=r"the file 2026-01-01/a.json has vanished"):
        SOURCE.extract(spark, "orders", position, ["id"])


def test_a_file_that_vanishes_before_spark_opens_it_is_named(spark: SparkSession, landing: Path) -> None:
    path = write(landing / FOLDER / "a.json", '{"id":1}')
    frame = SOURCE.extract(spark, "orders", position_of(SOURCE), ["id"])
    path.unlink()
    with pytest.raises(PySparkException) as raised:
        frame.count()
    error = read_error("orders", raised.value)
    assert isinstance(error, SourceChanged)
    assert "2026-01-01/a.json has vanished" in str(error)


@pytest.mark.parametrize("name", ["a.json.gz", "a.json.zst"])
def test_a_compressed_file_cut_off_is_named(spark: SparkSession, landing: Path, name: str) -> None:
    lines = b"".join(b'{"id":%d}\n' % number for number in range(20_000))
    whole = gzip.compress(lines) if name.endswith("gz") else zstandard.compress(lines)
    write(landing / FOLDER / name, whole[: len(whole) // 2])
    frame = SOURCE.extract(spark, "orders", position_of(SOURCE), ["id"])
    with pytest.raises(PySparkException) as raised:
        frame.agg(F.max("_raw.id")).collect()
    error = read_error("orders", raised.value)
    assert isinstance(error, SourceUnreadable)
    assert f"2026-01-01/{name}" in str(error)


SKIPPED = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip"
"""A frame of Zstandard that holds no data."""


@pytest.mark.parametrize("lines", [0, 500, 60_000])
@pytest.mark.parametrize("kept", [1, 3, 4, 5, 11, 13, 16, 17, 100, -4, -1])
def test_a_file_of_several_frames_that_is_cut_off_in_the_last_one_is_named(
    spark: SparkSession, landing: Path, lines: int, kept: int
) -> None:
    # Spark reads on to the end in silence, unless the frame is the first or a block of it is whole
    text = b"".join(b'{"id":%d}\n' % number**3 for number in range(lines))
    last = zstandard.ZstdCompressor(write_checksum=True).compress(b"".join(b"%d\n" % n**3 for n in range(100)))
    write(landing / FOLDER / "a.json.zst", (zstandard.compress(text) if text else b"") + (SKIPPED + last)[:kept])
    with pytest.raises(SourceUnreadable, match=r"the file 2026-01-01/a.json.zst is cut off"):
        extracted(spark, SOURCE, ["id"])


def test_what_looks_like_the_beginning_of_a_frame_is_no_reason_to_refuse_a_file(
    spark: SparkSession, landing: Path
) -> None:
    magic = b"\x28\xb5\x2f\xfd"
    lines = b'{"id":1}\n' + magic + b"\n"
    header = magic + b"\x00\x58" + (len(lines) << 3 | 1).to_bytes(3, "little")
    write(landing / FOLDER / "a.json.zst", header + lines)
    write(landing / FOLDER / "b.json.zst", SKIPPED + zstandard.compress(b'{"id":2}\n') + SKIPPED)
    assert raw(extracted(spark, SOURCE, ["id"])) == [("1",), (None,), ("2",)]


def test_other_errors_are_not_about_files(spark: SparkSession) -> None:
    with pytest.raises(PySparkException) as raised:
        spark.sql("SELECT 1 / 0").collect()
    assert read_error("orders", raised.value) is None
    assert read_error("orders", ValueError("no")) is None


def test_a_file_without_permission_belongs_to_its_window_and_is_named(
    spark: SparkSession, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(landing / FOLDER / "a.json", "{}")
    write(landing / day(2).key / "a.json", "{}")
    for folder in path.parents:
        if folder != Path("/tmp") and Path("/tmp") in folder.parents:
            folder.chmod(0o755)
    path.chmod(0)
    with as_nobody():
        found = detected(SOURCE, "orders", [day(1), day(2)], {})
        with pytest.raises(SourceUnreadable, match=r"the file 2026-01-01/a.json cannot be opened"):
            SOURCE.extract(spark, "orders", found[FOLDER], ["id"])
    assert set(found) == {day(1).key, day(2).key}


def test_a_folder_without_permission_is_named(landing: Path) -> None:
    path = write(landing / FOLDER / "a.json", "{}")
    for folder in path.parents:
        if folder != Path("/tmp") and Path("/tmp") in folder.parents:
            folder.chmod(0o755)
    path.parent.chmod(0)
    try:
        with (
            as_nobody(),
            pytest.raises(SourceUnreadable, match=r"folder .*2026-01-01 cannot be read \(PermissionError\)"),
        ):
            detected(SOURCE, "orders", [day(1)], {})
    finally:
        path.parent.chmod(0o755)


def test_a_file_of_unknown_format_is_named(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.txt", "x")
    with pytest.raises(SourceUnreadable, match=r"the file 2026-01-01/a.txt has no known extension"):
        extracted(spark, Files("{landing}/{window:%Y-%m-%d}/*"), ["id"])


def test_a_declared_format_goes_before_the_extension(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.txt", "id\n1\n")
    assert raw(extracted(spark, Files("{landing}/{window:%Y-%m-%d}/*", format="csv"), ["id"])) == [("1",)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_ten_thousand_small_files_in_a_window(spark: SparkSession, landing: Path, kind: str) -> None:
    for number in range(10_000):
        write(landing / FOLDER / f"{number}.{kind}", f'{{"id":{number}}}' if kind == "json" else f"id\n{number}\n")
    source = Files(f"{{landing}}/{{window:%Y-%m-%d}}/*.{kind}")
    frame = source.extract(spark, "orders", position_of(source), ["id"])
    found = frame.agg(F.count("*"), F.countDistinct("_source.file"), F.sum(F.col("_raw.id").cast("bigint"))).first()
    assert found == (10_000, 10_000, sum(range(10_000)))


@pytest.mark.parametrize(("path", "expected"), [("/landing/a.json", True), ("s3://landing/a.json", False)])
def test_readers_change_how_local_files_are_read_only_for_local_files(
    spark: SparkSession, path: str, expected: bool
) -> None:
    """The file system of a bucket keeps the options of its first reader, and writes through local files."""
    options = reader_of(spark, [path])._options  # type: ignore[attr-defined]
    assert any(name.startswith("fs.file.") for name in options) is expected
    assert options["ignoreCorruptFiles"] == options["ignoreMissingFiles"] == "false"
