"""ORC through Spark."""

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest
from pyspark.sql import SparkSession

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.sources.files.files import Files
from incload_assets.sources.files.orc import check_zone
from tests.support.detection import detected
from tests.support.files import FIRST, column, day, extracted, raw, write
from tests.support.orc_library import OrcLibrary, orc_library

SOURCE = Files("{landing}/{window:%Y-%m-%d}/*.orc")
FOLDER = day(1).key
NOON = dt.datetime(2026, 1, 1, 12, 0, 0, 123456)
SECOND = int(NOON.replace(tzinfo=dt.UTC).timestamp()) * 10**9


@pytest.fixture(scope="module")
def library() -> Iterator[OrcLibrary]:
    """The Java library of ORC."""
    with orc_library() as found:
        yield found


TRANSACTIONAL = ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"]


def micros(time: dt.datetime) -> int:
    return (time - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


def put(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    orc.write_table(pa.table(columns), path)
    return path


def written_by_spark(spark: SparkSession, folder: Path, *columns: str) -> None:
    """One file of Spark in the folder of the first day."""
    spark.range(1).selectExpr(*columns).coalesce(1).write.orc(str(folder / "spark"))
    [file] = (folder / "spark").glob("*.orc")
    (folder / FOLDER).mkdir(exist_ok=True)
    file.rename(folder / FOLDER / "spark.orc")


def test_values_keep_their_types_and_times_all_their_digits(spark: SparkSession, landing: Path) -> None:
    numbers = [SECOND + 123_456_789, SECOND, -1, None]
    put(
        landing / FOLDER / "a.orc",
        id=pa.array([1, 2, 3, 4], pa.int64()),
        price=pa.array([Decimal("1.000000000000000001"), None, None, None], pa.decimal128(38, 18)),
        zoned=pa.array(numbers, pa.timestamp("ns", "UTC")),
        local=pa.array(numbers, pa.timestamp("ns")),
        extra=pa.array([[1, 2], None, None, None], pa.list_(pa.int32())),
    )
    position = detected(SOURCE, "orders", [day(1)], {}, first=FIRST)[FOLDER]
    frame = SOURCE.extract(spark, "orders", position, ["id", "price", "zoned", "local", "none"])
    assert [kind for _, kind in frame.select("_raw.*").dtypes] == ["bigint", "decimal(38,18)", *["string"] * 3]
    rows = extracted(spark, SOURCE, ["id", "price", "zoned", "local"])
    texts = ["2026-01-01 12:00:00.123456789", "2026-01-01 12:00:00", "1969-12-31 23:59:59.999999999", None]
    price = Decimal("1.000000000000000001")
    assert raw(rows) == [(n + 1, None if n else price, text, text) for n, text in enumerate(texts)]
    assert json.loads(column(rows, "_rescued")[0]) == {"extra": [1, 2]}
    assert '"price":1.000000000000000001' in rows[0]["_payload"]
    shown = json.loads(rows[0]["_payload"])
    assert (shown["zoned"], shown["local"]) == ("2026-01-01T12:00:00.123456789Z", "2026-01-01T12:00:00.123456789")
    assert rows[3]["_source"] == {"file": f"{FOLDER}/a.orc", "block": 0, "row": 4}


def test_times_and_days_within_lists_structs_and_maps_are_text(spark: SparkSession, landing: Path) -> None:
    zoned, inner = pa.timestamp("us", "UTC"), pa.struct([("at", pa.timestamp("us")), ("on", pa.date32())])
    put(
        landing / FOLDER / "a.orc",
        many=pa.array([[NOON, None], None], pa.list_(zoned)),
        one=pa.array([{"at": NOON, "on": NOON.date()}, None], inner),
        by=pa.array([[(NOON, {"at": None, "on": None})], None], pa.map_(zoned, inner)),
    )
    first, second = (json.loads(payload) for payload in column(extracted(spark, SOURCE, []), "_payload"))
    at = "2026-01-01T12:00:00.123456"
    assert first == {
        "many": [f"{at}Z", None],
        "one": {"at": at, "on": "2026-01-01"},
        "by": {f"{at}Z": {"at": None, "on": None}},
    }
    assert second == {"many": None, "one": None, "by": None}


def test_days_and_times_are_of_one_calendar_whoever_wrote_them(
    spark: SparkSession, landing: Path, library: OrcLibrary
) -> None:
    days = [dt.date(1, 1, 1), dt.date(1500, 3, 1), dt.date(1582, 10, 10), dt.date(9999, 12, 31)]
    times = [dt.datetime.combine(day, dt.time(1, 2, 3)) for day in days]
    put(landing / FOLDER / "arrow.orc", on=pa.array(days), at=pa.array(times, pa.timestamp("us")))
    number, time, schema = (dt.date(1500, 3, 1) - dt.date(1970, 1, 1)).days + 9, "1500-03-01 01:02:03", "on:date,at"
    for zone in ("timestamp", "timestamp with local time zone"):
        path = landing / FOLDER / f"hive-{len(zone)}.orc"
        library.write(path, f"struct<{schema}:{zone}>", (number, time))
        library.write(path.with_suffix(".new.orc"), f"struct<{schema}:{zone}>", (number, time), proleptic=True)
    written_by_spark(spark, landing, "date'1500-03-01' AS `on`", "timestamp'1500-03-01 01:02:03' AS at")
    texts = [(f"{day}", f"{day} 01:02:03") for day in days]
    assert raw(extracted(spark, SOURCE, ["on", "at"])) == [*texts, *[texts[1]] * 5]


def test_a_fraction_before_1970_is_exact_or_marked_if_arrow_wrote_it(
    spark: SparkSession, landing: Path, library: OrcLibrary
) -> None:
    texts = ["0001-01-01 01:02:03", "1969-12-30 01:02:03.000004", "1500-01-01 01:02:03.5", "1969-12-31 23:59:58.999999"]
    numbers = [micros(dt.datetime.fromisoformat(text)) for text in texts]
    put(landing / FOLDER / "arrow.orc", at=pa.array(numbers, pa.timestamp("us")))
    library.write(landing / FOLDER / "hive.orc", "struct<at:timestamp>", *([text] for text in texts))
    unsure = [f"{text.replace(':03.', ':02.')} or a second later" for text in texts[1:3]]
    assert [at for (at,) in raw(extracted(spark, SOURCE, ["at"]))] == [texts[0], *unsure, texts[3], *texts]


def test_local_times_are_as_they_were_at_the_writer_and_instants_are_in_utc(
    spark: SparkSession, landing: Path, library: OrcLibrary
) -> None:
    schema, times = "struct<local:timestamp,at:timestamp with local time zone>", ["2026-03-29 03:30:00.000000001"] * 2
    for number, zone in enumerate(["UTC", "Europe/Berlin", "America/New_York"]):
        library.write(landing / FOLDER / f"{number}.orc", schema, times, zone=zone)
    local = "2026-03-29 03:30:00.000000001"
    instants = [local, "2026-03-29 01:30:00.000000001", "2026-03-29 07:30:00.000000001"]
    assert raw(extracted(spark, SOURCE, ["local", "at"])) == [(local, instant) for instant in instants]


def test_a_spark_in_another_time_zone_is_refused() -> None:
    with pytest.raises(SourceUnreadable, match="has times, and the Java of Spark has the time zone Europe/Berlin"):
        check_zone("orders", "a.orc", "Europe/Berlin")


def test_local_times_of_spark_are_told_from_numbers(spark: SparkSession, landing: Path) -> None:
    written_by_spark(spark, landing, "timestamp_ntz'2026-03-29 02:30:00' AS at", "1 AS id")
    put(landing / FOLDER / "z.orc", at=pa.array([7], pa.int64()), id=pa.array([2], pa.int32()))
    assert raw(extracted(spark, SOURCE, ["id", "at"])) == [(1, "2026-03-29 02:30:00"), (2, "7")]


def test_blanks_at_the_end_of_char_are_no_part_of_it(spark: SparkSession, landing: Path, library: OrcLibrary) -> None:
    path = landing / FOLDER / "a.orc"
    library.write(path, "struct<c:char(5),v:varchar(5)>", (b"ab   ", b"ab "), (b"  ", b""), (b"abcdefg", b"abcdefg"))
    assert raw(extracted(spark, SOURCE, ["c", "v"])) == [("ab", "ab "), ("", ""), ("abcde", "abcde")]


def test_rows_are_counted_through_files_that_are_read_in_several_parts(spark: SparkSession, landing: Path) -> None:
    for name in ("a", "b"):
        path = landing / FOLDER / f"{name}.orc"
        path.parent.mkdir(exist_ok=True)
        table = pa.table({"id": range(20_000), "text": [f"{number * 7919 % 20_011:040}" for number in range(20_000)]})
        orc.write_table(table, path, stripe_size=1 << 16, compression="uncompressed")
    spark.conf.set("spark.sql.files.maxPartitionBytes", 1 << 18)
    try:
        rows = extracted(spark, SOURCE, ["id"])
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    places = {tuple(row["_source"].values()) for row in rows}
    assert len(rows) == len(places) == 40_000
    assert len({block for _, block, _ in places}) > 1
    assert [row["_raw"]["id"] for row in rows] == [*range(20_000)] * 2


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        (b"PAR1 and more than a few bytes of it PAR1", "is not a whole ORC file"),
        (b"x", "is not a whole ORC file"),
        (b'{"id": 1}\n' * 100, "is not a whole ORC file"),
    ],
)
def test_files_that_cannot_be_read_are_named(spark: SparkSession, landing: Path, stored: bytes, says: str) -> None:
    write(landing / FOLDER / "a.orc", stored)
    with pytest.raises(SourceUnreadable, match=rf"orders: the .*file 2026-01-01/a.orc {says}"):
        extracted(spark, SOURCE, ["name"])


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (
            {"_col0": [1], "_col1": ["a"]},
            r"columns of the file 2026-01-01/a.orc have no names, but numbers \(_col0",
        ),
        ({key: [1] for key in TRANSACTIONAL}, "the file 2026-01-01/a.orc is of a transactional table of Hive"),
        ({"other": [1]}, "the file 2026-01-01/a.orc has none of the contract's columns"),
        (
            {"id": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1]), pa.array(["a"])])},
            r"the column 'id' in 2026-01-01/a.orc is sparse_union.*no unions",
        ),
    ],
)
def test_columns_that_cannot_be_read_are_named(
    spark: SparkSession, landing: Path, columns: dict[str, Any], says: str
) -> None:
    put(landing / FOLDER / "a.orc", **columns)
    with pytest.raises(SourceUnreadable, match=says):
        extracted(spark, SOURCE, ["id"])


def test_encrypted_columns_are_refused_because_they_would_be_null(
    spark: SparkSession, landing: Path, library: OrcLibrary
) -> None:
    rows, mask = (b"123", b"a"), "nullify:ssn"
    library.write(landing / FOLDER / "a.orc", "struct<ssn:string,name:string>", rows, encrypt="pii:ssn", mask=mask)
    with pytest.raises(SourceUnreadable, match=r"the column 'ssn' of the file 2026-01-01/a.orc is encrypted"):
        extracted(spark, SOURCE, ["name"])


def test_a_file_whose_rows_are_damaged_fails_the_read(spark: SparkSession, landing: Path) -> None:
    path = put(landing / FOLDER / "a.orc", id=pa.array([f"{number}" for number in range(999)]))
    whole = path.read_bytes()
    path.write_bytes(whole[:3] + b"\xff" * 200 + whole[203:])
    with pytest.raises(Exception, match=r"a\.orc"):
        extracted(spark, SOURCE, ["id"])
