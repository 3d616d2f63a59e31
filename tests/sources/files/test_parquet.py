"""Parquet through Spark."""

import base64
import datetime as dt
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest
from pyspark.sql import SparkSession

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.sources.files.files import Files
from tests.support.detection import detected
from tests.support.files import FIRST, column, day, extracted, raw

SOURCE = Files("{landing}/{window:%Y-%m-%d}/*.parquet")
FOLDER = day(1).key
NOON = dt.datetime(2026, 1, 1, 12, 0, 0, 123456)


def put(path: Path, **columns: pa.Array) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def test_values_keep_their_types(spark: SparkSession, landing: Path) -> None:
    put(
        landing / FOLDER / "a.parquet",
        id=pa.array([1, 2], pa.int64()),
        price=pa.array([Decimal("1.000000000000000001"), None], pa.decimal128(38, 18)),
        at=pa.array([NOON, None], pa.timestamp("us", "UTC")),
        extra=pa.array([[1, 2], None], pa.list_(pa.int32())),
    )
    position = detected(SOURCE, "orders", [day(1)], {}, first=FIRST)[FOLDER]
    frame = SOURCE.extract(spark, "orders", position, ["id", "price", "at", "none"])
    assert frame.select("_raw.*").dtypes == [
        ("id", "bigint"), ("price", "decimal(38,18)"), ("at", "timestamp"), ("none", "string"),
    ]  # fmt: skip
    first, second = extracted(spark, SOURCE, ["id", "price", "none"])
    assert first["_raw"] == {"id": 1, "price": Decimal("1.000000000000000001"), "none": None}
    assert json.loads(first["_rescued"]) == {"at": "2026-01-01T12:00:00.123456Z", "extra": [1, 2]}
    assert '"price":1.000000000000000001' in first["_payload"]
    assert first["_source"] == {"file": "2026-01-01/a.parquet", "block": 0, "row": 1}
    assert json.loads(second["_payload"]) == {"id": 2, "price": None, "at": None, "extra": None}
    assert second["_source"]["row"] == 2


def read_as(spark: SparkSession, *names: str) -> list[tuple[Any, ...]]:
    position = detected(SOURCE, "orders", [day(1)], {}, first=FIRST)[FOLDER]
    frame = SOURCE.extract(spark, "orders", position, names).orderBy("_source.row").select("_raw.*")
    return [tuple(row) for row in frame.collect()]


def test_nanoseconds_as_pandas_writes_them_are_text_with_all_digits(spark: SparkSession, landing: Path) -> None:
    second = int(NOON.replace(tzinfo=dt.UTC).timestamp()) * 10**9
    numbers = [second + 123_456_789, second + 123_456_000, second, -1, None]
    put(
        landing / FOLDER / "a.parquet",
        zoned=pa.array(numbers, pa.timestamp("ns", "UTC")),
        local=pa.array(numbers, pa.timestamp("ns")),
    )
    texts = [
        "2026-01-01 12:00:00.123456789", "2026-01-01 12:00:00.123456", "2026-01-01 12:00:00",
        "1969-12-31 23:59:59.999999999", None,
    ]  # fmt: skip
    assert read_as(spark, "zoned", "local") == [(text, text) for text in texts]
    payloads = map(json.loads, column(extracted(spark, SOURCE, []), "_payload"))
    assert [(payload["zoned"], payload["local"]) for payload in payloads][:2] == [
        ("2026-01-01T12:00:00.123456789Z", "2026-01-01T12:00:00.123456789"),
        ("2026-01-01T12:00:00.123456Z", "2026-01-01T12:00:00.123456"),
    ]


@pytest.mark.parametrize("int96", [False, True], ids=["int64", "int96"])
def test_times_are_exact_whatever_the_nanoseconds(spark: SparkSession, landing: Path, int96: bool) -> None:
    random = Random(1)
    # the bounds of the type, and numbers that a double does not hold
    numbers = [-(2**63), 2**63 - 1, 0, *(random.randrange(-(10**18), 18 * 10**17) for _ in range(2000))]
    numbers += [number // 1000 * 1000 for number in numbers[3:]]
    path = landing / FOLDER / "a.parquet"
    put(path, at=pa.array(numbers, pa.timestamp("ns", "UTC")))
    pq.write_table(pq.read_table(path), path, use_deprecated_int96_timestamps=int96)

    def text(number: int) -> str:
        whole = (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=number // 1000)).isoformat(" ", "microseconds")
        return f"{whole}{number % 1000:03}" if number % 1000 else whole.rstrip("0").rstrip(".")

    assert read_as(spark, "at") == [(text(number),) for number in numbers]


def test_nanoseconds_within_lists_structs_and_maps_are_text_as_well(spark: SparkSession, landing: Path) -> None:
    zoned, local = pa.timestamp("ns", "UTC"), pa.timestamp("ns")
    inner = pa.struct([("at", local), ("i", pa.int64()), ("x.y", pa.list_(zoned))])
    put(
        landing / FOLDER / "a.parquet",
        list=pa.array([[NOON, None], None], pa.list_(zoned)),
        struct=pa.array([{"at": NOON, "i": 1, "x.y": [NOON]}, None], inner),
        map=pa.array([[("k", {"at": None, "i": 2, "x.y": None}), ("n", None)], None], pa.map_(pa.string(), inner)),
        deep=pa.array([[[{"at": NOON, "i": 1, "x.y": []}, None]], [None]], pa.list_(pa.large_list(inner))),
        plain=pa.array([[1], None], pa.list_(pa.int64())),
    )
    position = detected(SOURCE, "orders", [day(1)], {}, first=FIRST)[FOLDER]
    names = ["list", "struct", "map", "deep", "plain"]
    frame = SOURCE.extract(spark, "orders", position, names).orderBy("_source.row")
    struct = "struct<at:string,i:bigint,x.y:array<string>>"
    assert [kind for _, kind in frame.select("_raw.*").dtypes] == [
        "array<string>", struct, f"map<string,{struct}>", f"array<array<{struct}>>", "array<bigint>",
    ]  # fmt: skip
    at = "2026-01-01T12:00:00.123456"
    first, second = (json.loads(row[0]) for row in frame.select("_payload").collect())
    assert first == {
        "list": [f"{at}Z", None],
        "struct": {"at": at, "i": 1, "x.y": [f"{at}Z"]},
        "map": {"k": {"at": None, "i": 2, "x.y": None}, "n": None},
        "deep": [[{"at": at, "i": 1, "x.y": []}, None]],
        "plain": [1],
    }
    assert second == {"list": None, "struct": None, "map": None, "deep": [None], "plain": None}


def test_nanoseconds_in_the_keys_of_a_map_are_refused(spark: SparkSession, landing: Path) -> None:
    put(landing / FOLDER / "a.parquet", m=pa.array([[(NOON, 1)]], pa.map_(pa.timestamp("ns"), pa.int64())))
    with pytest.raises(SourceUnreadable, match=r"the keys of the map 'm' in 2026-01-01/a.parquet are nanoseconds"):
        extracted(spark, SOURCE, ["m"])


def test_times_written_as_int96_are_instants_also_beside_other_ways_to_write_times(
    spark: SparkSession, landing: Path
) -> None:
    times = [NOON, dt.datetime(1, 1, 1), dt.datetime(1500, 2, 28), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), None]
    within = [pa.list_, lambda t: pa.struct([("n", pa.int64()), ("at", t)]), lambda t: pa.map_(t, pa.list_(t))]
    made = [lambda t: [t], lambda t: {"n": 1, "at": t}, lambda t: [(NOON, [t])]]

    def columns(kind: pa.DataType, times: Sequence[dt.datetime | None]) -> dict[str, pa.Array]:
        nested = {
            str(number): pa.array([make(time) for time in times], outer(kind))
            for number, (outer, make) in enumerate(zip(within, made, strict=True))
        }
        return {"name": pa.array(["x"] * len(times)).dictionary_encode(), **nested, "at": pa.array(times, kind)}

    path = put(landing / FOLDER / "a.parquet", **columns(pa.timestamp("us"), times))
    pq.write_table(pq.read_table(path), path, use_deprecated_int96_timestamps=True)
    put(landing / FOLDER / "b.parquet", **columns(pa.timestamp("us", "UTC"), times))
    short = columns(pa.timestamp("ns", "UTC"), [NOON, None])
    put(landing / FOLDER / "c.parquet", **{name: column for name, column in short.items() if name != "2"})
    position = detected(SOURCE, "orders", [day(1)], {}, first=FIRST)[FOLDER]
    frame = SOURCE.extract(spark, "orders", position, ["at", "0", "1"])
    found = frame.orderBy("_source.file", "_source.row").selectExpr("_raw.at::string", "_payload").collect()
    assert [at for at, _ in found[:5]] == [
        "2026-01-01 12:00:00.123456", "0001-01-01 00:00:00", "1500-02-28 00:00:00", "9999-12-31 23:59:59.999999", None,
    ]  # fmt: skip
    payloads = [json.loads(payload) for _, payload in found]
    assert payloads[0]["2"] == {"2026-01-01T12:00:00.123456Z": ["2026-01-01T12:00:00.123456Z"]}
    for payload in payloads:
        payload.pop("2", None)  # Spark writes the keys of a map as the numbers that they are
    assert payloads[:5] == payloads[5:10]
    assert [at for at, _ in found[5:10]] == [at for at, _ in found[:5]]
    assert [at for at, _ in found[10:]] == ["2026-01-01 12:00:00.123456", None]
    assert payloads[0]["1"] == payloads[10]["1"] == {"n": 1, "at": "2026-01-01T12:00:00.123456Z"}


def test_an_encrypted_file_is_named(spark: SparkSession, landing: Path) -> None:
    class Keys(encryption.KmsClient):  # type: ignore[misc]
        def wrap_key(self, key: bytes, _: str) -> bytes:
            return base64.b64encode(key)

    factory = encryption.CryptoFactory(lambda _: Keys())
    wanted = encryption.EncryptionConfiguration(footer_key="k", column_keys={"k": ["id"]})
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), wanted)
    (landing / FOLDER).mkdir(parents=True)
    table = pa.table({"id": [1]})
    with pq.ParquetWriter(landing / FOLDER / "a.parquet", table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    with pytest.raises(SourceUnreadable, match=r"a\.parquet is encrypted"):
        extracted(spark, SOURCE, ["id"])


@pytest.mark.parametrize("outer", [lambda kind: kind, pa.list_])
def test_a_decimal_with_too_many_digits_is_refused(spark: SparkSession, landing: Path, outer: Any) -> None:
    put(landing / FOLDER / "a.parquet", d=pa.array([None], outer(pa.decimal256(50, 3))))
    with pytest.raises(SourceUnreadable, match=r"the column 'd' in 2026-01-01/a.parquet is .*decimal256\(50, 3\)"):
        extracted(spark, SOURCE, ["d"])


def test_a_decimal_of_256_bits_whose_digits_have_a_place_is_read(spark: SparkSession, landing: Path) -> None:
    put(landing / FOLDER / "a.parquet", d=pa.array([Decimal("1.5"), None], pa.decimal256(20, 3)))
    assert raw(extracted(spark, SOURCE, ["d"])) == [(Decimal("1.500"),), (None,)]


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (pa.array([dt.time(1, 2)]), r"'odd' in 2026-01-01/a.parquet is time64\[us\]\. Rule: .*no time of day.*strings"),
        (pa.array([[{"t": dt.time(1, 2)}]]), r"'odd' in 2026-01-01/a.parquet is list.*time64.*no time of day"),
        (pa.array([1.5]).cast(pa.float16()), r"'odd' in 2026-01-01/a.parquet is halffloat\. Rule: .*32 and 64 bits"),
    ],
)
def test_a_column_of_a_type_that_spark_does_not_read_is_named(
    spark: SparkSession, landing: Path, array: pa.Array, said: str
) -> None:
    put(landing / FOLDER / "a.parquet", id=pa.array([1]), odd=array)
    with pytest.raises(SourceUnreadable, match=said):
        extracted(spark, SOURCE, ["id"])
