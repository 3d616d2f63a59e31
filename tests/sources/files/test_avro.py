"""Avro files through Spark."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.contract.contract import compile_contract
from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.failures import translate
from incload_assets.sources.files.errors import avro_missing
from incload_assets.sources.files.files import Files
from tests.support.detection import detected
from tests.support.files import FIRST, day, extracted

SOURCE = Files("{landing}/{window:%Y-%m-%d}/*.avro")
FOLDER = day(1).key


def record(**fields: Any) -> dict[str, Any]:
    members = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "Row", "namespace": "org.example", "fields": members}


def content(schema: Any, rows: Sequence[Mapping[str, Any]], codec: str = "null", **metadata: str) -> bytes:
    file = BytesIO()
    fastavro.writer(file, fastavro.parse_schema(schema), rows, codec=codec, metadata=metadata)
    return file.getvalue()


def put(path: Path, stored: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(stored)
    return path


TYPES = record(
    id="long",
    price={"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18},
    at={"type": "long", "logicalType": "timestamp-micros"},
    day={"type": "int", "logicalType": "date"},
    clock={"type": "long", "logicalType": "time-micros"},
    either=["null", "string", "long"],
    data="bytes",
    extra={"type": "array", "items": "int"},
)
ROW = {
    "id": 2**63 - 1, "price": Decimal("1.000000000000000001"), "at": datetime(2026, 1, 1, 12, 0, 0, 123456, UTC),
    "day": date(1500, 1, 2), "clock": time(1, 2, 3, 4), "either": "text", "data": b"\0\xff", "extra": [1, 2],
}  # fmt: skip


def test_values_keep_their_types_and_files_of_other_schemas_are_read_beside(spark: SparkSession, landing: Path) -> None:
    long = "x" * 100_000
    rows = [ROW, ROW | {"id": 1, "either": 2**60}]
    put(landing / FOLDER / "a.avro", content(TYPES, rows, codec="deflate", comment=long))
    put(landing / FOLDER / "b.avro", content(record(id="int", day="string"), [{"id": 7, "day": "2026-01-02"}]))
    put(landing / FOLDER / "c.avro", content(TYPES, []))
    put(landing / FOLDER / "d.avro", b"")
    position = detected(SOURCE, "orders", [day(1)], {}, first=FIRST)[FOLDER]
    names = ["id", "price", "at", "day", "clock", "either", "data", "none"]
    frame = SOURCE.extract(spark, "orders", position, names)
    assert dict(frame.select("_raw.*").dtypes) == {
        "id": "string", "price": "decimal(38,18)", "at": "timestamp", "day": "string", "clock": "string",
        "either": "string", "data": "binary", "none": "string",
    }  # fmt: skip
    first, second, third = extracted(spark, SOURCE, [name for name in names if name != "at"])
    assert first["_raw"] == {
        "id": "9223372036854775807", "price": ROW["price"], "day": "1500-01-02", "clock": "01:02:03.000004",
        "either": "text", "data": bytearray(b"\0\xff"), "none": None,
    }  # fmt: skip
    assert json.loads(first["_rescued"]) == {"at": "2026-01-01T12:00:00.123456Z", "extra": [1, 2]}
    assert '"price":1.000000000000000001' in first["_payload"] and '"data":"AP8="' in first["_payload"]
    assert first["_source"] == {"file": f"{FOLDER}/a.avro", "block": 0, "row": 1}
    assert (second["_raw"]["either"], second["_source"]["row"]) == (str(2**60), 2)
    assert (third["_raw"]["id"], third["_raw"]["day"]) == ("7", "2026-01-02")
    assert third["_present"] == ["id", "day"]


def test_what_spark_would_change_is_exact_or_told(spark: SparkSession, landing: Path) -> None:
    schema = record(amount={"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, text="string")
    stored = content(record(amount="bytes", text="bytes"), [{"amount": (10**20).to_bytes(9, "big"), "text": b"\xff"}])
    as_text = json.dumps(record(amount="bytes", text="bytes")).encode()
    start = BytesIO(stored)
    written = fastavro.reader(start).metadata["avro.schema"].encode()
    longer = json.dumps(schema).encode()
    assert as_text and written in stored

    def sized(text: bytes) -> bytes:
        buffer = BytesIO()
        fastavro.schemaless_writer(buffer, {"type": "bytes"}, text)
        return buffer.getvalue()

    put(landing / FOLDER / "a.avro", stored.replace(sized(written), sized(longer)))
    [row] = extracted(spark, SOURCE, ["amount", "text"])
    assert row["_raw"]["amount"] == Decimal(10**18)
    assert row["_malformed"] == "text: not valid UTF-8"


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        (b"PAR1", "is not a whole Avro file"),
        (b"Obj\x01", "is not a whole Avro file"),
        (b"Obj\x01\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "is not a whole Avro file"),
        (b"Obj\x01\x02\x16avro.schema\xff\xff\xff\x7f", "is not a whole Avro file"),
        (content("string", ["a"]), "cannot be read: it is no record"),
        (content(record(id="int", Id="int"), [{"id": 1, "Id": 2}]), "differ at most in case"),
        (content(record(id="int", next=["null", "org.example.Row"]), [{"id": 1}]), "contains itself"),
        (content(record(other="int"), [{"other": 1}]), "has none of the contract's columns"),
    ],
)
def test_files_that_cannot_be_read_are_named(spark: SparkSession, landing: Path, stored: bytes, says: str) -> None:
    put(landing / FOLDER / "a.avro", stored)
    with pytest.raises(SourceUnreadable, match=rf"orders: the (file|schema of the file) 2026-01-01/a.avro .*{says}"):
        extracted(spark, SOURCE, ["id"])


def test_a_file_that_is_cut_off_fails_the_read(spark: SparkSession, landing: Path) -> None:
    class Row(pa.DataFrameModel):
        id: T.LongType = pa.Field(nullable=False)

    whole = content(record(id="long"), [{"id": number} for number in range(9999)], codec="deflate")
    put(landing / FOLDER / "a.avro", whole[:-40])
    source = SOURCE.for_contract(compile_contract(Row, "orders"))
    with pytest.raises(Exception) as caught:
        extracted(spark, source, ["id"])
    assert "a.avro" in str(translate(caught.value) or caught.value)


def test_a_spark_without_the_jar_says_what_to_do() -> None:
    text = "Failed to find data source: avro. Avro is built-in but external data source module since Spark 2.4."
    assert "set INCLOAD_AVRO=true" in str(avro_missing("orders", text))
