"""Reading whatever the format: names, changes, permissions, numbers."""

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.loading.errors import SourceChanged, SourceUnreadable
from incload_assets.loading.sources import Files, Position, read_error
from tests.loading.sources.support import FIRST, day, extracted, raw, write

SOURCE = Files("{landing}/{window:%Y-%m-%d}/*.json*")
FOLDER = day(1).key
NAMES = [
    "a b.json", "é😀.json", "100%.json", "a%20b.json", "a+b.json", "x[1].json", "x1.json", "y{2,3}.json", "q?.json",
    "st*r.json", "h#sh.json", "b\\slash.json", "quote'\".json", "a=b&c;d,e.json",
]  # fmt: skip


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
    return source.detect("orders", [day(1)], {}, first=FIRST)[FOLDER]


def test_any_file_name_is_its_key(spark: SparkSession, landing: Path) -> None:
    for number, name in enumerate(NAMES):
        write(landing / FOLDER / name, f'{{"id":{number}}}')
    rows = extracted(spark, SOURCE, ["id"])
    assert {(row["_source"]["file"], row["_raw"]["id"]) for row in rows} == {
        (f"2026-01-01/{name}", str(number)) for number, name in enumerate(NAMES)
    }
    assert len(rows) == len(NAMES)


def test_a_path_outside_the_landing_area_is_its_own_key(spark: SparkSession, landing: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "else [where]" / f"{FOLDER}.json", '{"id":1}')
    rows = extracted(spark, Files(f"{tmp_path}/else [where]/{{window:%Y-%m-%d}}.json"), ["id"])
    assert [(row["_source"]["file"], row["_raw"]["id"]) for row in rows] == [(str(path), "1")]


def test_a_local_name_with_a_colon_is_refused(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "10:00.json", "{}")
    with pytest.raises(SourceUnreadable, match=r"the file 2026-01-01/10:00.json has a colon in its name"):
        extracted(spark, SOURCE, ["id"])


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
        found = SOURCE.detect("orders", [day(1), day(2)], {})
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
            SOURCE.detect("orders", [day(1)], {})
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
