"""Values as Debezium's connector for PostgreSQL writes them by each of its modes, most of them captured from it."""

import base64
import hashlib
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from tests.sources.debezium.test_debezium import MARKER, column, event, table, validated, write

pytestmark = pytest.mark.reads

REMEDY = "declare decimals, time_precision_mode and encodings as configured in the connector"


class Times(pa.DataFrameModel):
    """Dates and times kept as text."""

    id: T.LongType = pa.Field(nullable=False)
    d: T.StringType = pa.Field(nullable=True)
    t: T.StringType = pa.Field(nullable=True)
    ts: T.StringType = pa.Field(nullable=True)
    ds: T.ArrayType(T.StringType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    cdc_sequence: T.StringType = pa.Field(nullable=False)


USUAL = ("2026-01-02", "12:34:56.500000", "2026-01-02T03:04:05.123000", ["2026-01-02", None])
HIGH = ("infinity", "24:00:00", "infinity", ["infinity", "-infinity"])
LOW = ("-infinity", "00:00:00.000000", "-infinity", [])
BC = ("0044-03-15 BC", "23:59:59.999999", "0044-03-15T00:00:00.000000 BC", ["12026-01-02"])
FAR = ("12026-01-02", None, "12026-01-02T03:04:05.123456", None)
STREAMED, OF_SNAPSHOT = (-2147472692, -2147472691), (-622191234, -625821272)

WRITTEN: dict[str, list[tuple[dict[str, Any], tuple[Any, ...]]]] = {
    "us": [
        ({"d": 20455, "t": 45296500000, "ts": 1767323045123000, "ds": [20455, None]}, USUAL),
        ({"d": STREAMED[0], "t": 86400000000, "ts": 9223372036825200000, "ds": OF_SNAPSHOT}, HIGH),
        ({"d": OF_SNAPSHOT[0], "t": 86400000000, "ts": 9223372036825200000, "ds": STREAMED}, HIGH),
        ({"d": STREAMED[1], "t": 0, "ts": -9223372036832400000, "ds": []}, LOW),
        ({"d": OF_SNAPSHOT[1], "t": 0, "ts": -9223372036832400000, "ds": []}, LOW),
        ({"d": -735160, "t": 86399999999, "ts": -63517824000000000, "ds": [3672880]}, BC),
        ({"d": 3672880, "ts": 317336843045123456}, FAR),
    ],
    "ms": [
        ({"d": 20455, "t": 45296500, "ts": 1767323045123, "ds": [20455, None]}, USUAL),
        ({"d": STREAMED[0], "t": 86400000, "ts": 9223372036825200, "ds": OF_SNAPSHOT}, HIGH),
        ({"d": STREAMED[1], "t": 0, "ts": -9223372036832400, "ds": []}, LOW),
    ],
    "ns": [
        ({"d": 20455, "t": 45296500000000, "ts": 1767323045123000000, "ds": [20455, None]}, USUAL),
        ({"d": STREAMED[0], "t": 86400000000000, "ts": 9223372036854775807, "ds": OF_SNAPSHOT}, HIGH),
        ({"d": STREAMED[1], "t": 0, "ts": -9223372036854775808, "ds": []}, LOW),
    ],
    "iso": [
        (
            {"d": "2026-01-02Z", "t": "12:34:56.5Z", "ts": "2026-01-02T03:04:05.123Z", "ds": ["2026-01-02Z", None]},
            USUAL,
        ),
        ({"d": "+292278994-08-16Z", "ts": "+294247-01-10T04:00:25.2Z"}, ("infinity", None, "infinity", None)),
        ({"d": "-5877611-06-21Z", "t": "00:00:00Z"}, ("infinity", "00:00:00.000000", None, None)),
        ({"d": "-5877611-06-22Z", "t": "00:00:00Z", "ts": "-290308-12-21T19:59:27.6Z", "ds": []}, LOW),
        ({"d": "+292269055-12-02Z", "t": "00:00:00Z", "ts": "-290308-12-21T19:59:27.6Z", "ds": []}, LOW),
        ({"d": "-0043-03-15Z", "t": "23:59:59.999999Z", "ts": "-0043-03-15T00:00:00Z", "ds": ["+12026-01-02Z"]}, BC),
        ({"d": "+12026-01-02Z", "ts": "+12026-01-02T03:04:05.123456Z"}, FAR),
    ],
}  # fmt: skip


@pytest.mark.parametrize("unit", WRITTEN)
def test_a_text_column_has_the_same_text_of_dates_and_times_in_each_mode(
    spark: SparkSession, tmp_path: Path, unit: str
) -> None:
    rows = WRITTEN[unit]
    write(tmp_path, 1, *(event("c", {"id": i, **row}, 110 + i) for i, (row, _) in enumerate(rows)))
    mode, of = ("isostring", "us") if unit == "iso" else ("adaptive", unit)
    encodings = {"d": "date", "t": f"time[{of}]", "ts": f"timestamp[{of}]", "ds": "date"}
    loaded = table(spark, tmp_path, contract=Times, encodings=encodings, time_precision_mode=mode)
    assert sorted(validated(loaded, "id", "_reasons", "d", "t", "ts", "ds")) == [
        (i, [], *text) for i, (_, text) in enumerate(rows)
    ]


def test_schemas_tell_the_modes_of_text_columns(spark: SparkSession, tmp_path: Path) -> None:
    names = {
        "iso": ("IsoDate", "IsoTime", "IsoTimestamp"),
        "ns": ("Date", "NanoTime", "NanoTimestamp"),
        "us": ("Date", "MicroTime", "MicroTimestamp"),
        "ms": ("Date", "Time", "Timestamp"),
    }
    events = []
    for unit, (d, t, ts) in names.items():
        kind = "string" if unit == "iso" else "int64"
        item = {"type": kind, "name": f"io.debezium.time.{d}"}
        fields = [column("id", "int64"), column("ds", "array", items=item)]
        fields += [column(n, kind, f"io.debezium.time.{of}") for n, of in {"d": d, "t": t, "ts": ts}.items()]
        rows = [{"type": "struct", "fields": fields, "optional": True, "field": name} for name in ("before", "after")]
        schema = {"type": "struct", "fields": rows, "optional": False, "name": "shop.public.orders.Envelope"}
        events += [
            {"schema": schema, "payload": event("c", {"id": len(events), **WRITTEN[unit][0][0]}, 110 + len(events))}
        ]
    write(tmp_path, 1, *events)
    loaded = table(spark, tmp_path, contract=Times)
    assert validated(loaded, "_reasons", "d", "t", "ts", "ds") == [([], *USUAL)] * 4


class Typed(pa.DataFrameModel):
    """Dates and times in types that hold less than PostgreSQL's."""

    id: T.LongType = pa.Field(nullable=False)
    d: T.DateType = pa.Field(nullable=True)
    ts: T.TimestampType = pa.Field(nullable=True)
    other: T.TimestampType = pa.Field(nullable=True)
    t: T.StringType = pa.Field(nullable=True)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


def test_what_a_type_would_cut_or_cannot_hold_is_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        {"d": 20455, "ts": 1767323045123456000, "other": "2026-01-02T03:04:05.123456Z", "t": 45296500000000},
        {"ts": 1767323045123456789},
        {"other": -1},
        {"t": 45296500000001},
        {"t": 86400000000001},
        {"t": -1000},
        {"d": 2932897},
        {"d": -719163},
        {"d": 99999999999},
        {"d": 1.5},
    ]
    write(tmp_path, 1, *(event("c", {"id": i, **row}, 110 + i) for i, row in enumerate(rows)))
    loaded = table(
        spark, tmp_path, contract=Typed, time_precision_mode="nanoseconds", encodings={"t": "time[ns]"}
    )  # fmt: skip
    found = sorted(validated(loaded, "id", "_reasons", "d", "ts", "other", "t"))
    at = datetime(2026, 1, 2, 3, 4, 5, 123456, UTC)
    assert found[0] == (0, [], date(2026, 1, 2), at, at, "12:34:56.500000")
    assert [reasons[0].partition(":")[0] for _, reasons, *_ in found[1:]] == [
        "ts", "other", "t", "t", "t", "d", "d", "d", "d"
    ]  # fmt: skip
    assert found[1][1] == [f"ts: '1767323045123456789' is not encoded as timestamp[ns]: {REMEDY}"]


def test_texts_in_isostring_mode_are_read_into_types(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        {"d": "2026-01-02Z", "ts": "2026-01-02T03:04:05.5Z", "other": "2026-01-02T03:04:05Z"},
        {"d": "-5877611-06-21Z"},
        {"ts": "+294247-01-10T04:00:25.2Z"},
        {"other": "-0043-03-15T00:00:00Z"},
        {"d": 20455},
    ]
    write(tmp_path, 1, *(event("c", {"id": i, **row}, 110 + i) for i, row in enumerate(rows)))
    loaded = table(spark, tmp_path, contract=Typed, time_precision_mode="isostring")
    found = sorted(validated(loaded, "id", "_reasons", "d", "ts", "other"))
    assert found[0] == (
        0, [], date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5, 500000, UTC), datetime(2026, 1, 2, 3, 4, 5, 0, UTC)
    )  # fmt: skip
    assert all(len(reasons) == 1 for _, reasons, *_ in found[1:])


class Numbers(pa.DataFrameModel):
    """Decimals, and what else PostgreSQL's numbers may be kept as."""

    id: T.LongType = pa.Field(nullable=False)
    amt: T.DecimalType(10, 2) = pa.Field(nullable=True)  # type: ignore[valid-type]
    big: T.LongType = pa.Field(nullable=True)
    ratio: T.DoubleType = pa.Field(nullable=True)
    text: T.StringType = pa.Field(nullable=True)
    many: T.ArrayType(T.DecimalType(10, 2)) = pa.Field(nullable=True)  # type: ignore[valid-type]
    data: T.BinaryType = pa.Field(nullable=True)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


def exact(number: str) -> str:
    """A number in JSON with all its digits, as :func:`write_exactly` writes it."""
    return f"#{number}#"


def write_exactly(folder: Path, *events: object) -> None:
    write(folder, 1, *events)
    [path] = folder.glob("landing/*/events.json")
    path.write_text(path.read_text().replace('"#', "").replace('#"', ""))


RIGHT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"amt": "NaE="}, {"amt": Decimal("137.29")}),
    ({"amt": "nA=="}, {"amt": Decimal("-1.00")}),
    ({"amt": "//+c"}, {"amt": Decimal("-1.00")}),
    ({"amt": {"scale": 1, "value": "Dw=="}}, {"amt": Decimal("1.50")}),
    ({"amt": {"scale": -2, "value": "AQ=="}}, {"amt": Decimal("100.00")}),
    ({"amt": 1234}, {"amt": Decimal("1234.00")}),
    ({"amt": -0.5}, {"amt": Decimal("-0.50")}),
    ({"big": "AeJA"}, {"big": 123456}),
    ({"big": 1234}, {"big": 1234}),
    ({"amt": exact("1.23450000000000000000000000000000000000000000E3")}, {"amt": Decimal("1234.50")}),
    (
        {"text": exact("1.23456789012345678901234567890123456789012E-7")},
        {"text": "1.23456789012345678901234567890123456789012E-7"},
    ),
    ({"ratio": 0.5}, {"ratio": 0.5}),
    ({"ratio": "Infinity"}, {"ratio": float("inf")}),
    ({"text": "nA=="}, {"text": "-1.00"}),
    ({"many": ["NaE=", None, "nA=="]}, {"many": [Decimal("137.29"), None, Decimal("-1.00")]}),
    ({"many": [{"scale": 1, "value": "Dw=="}]}, {"many": [Decimal("1.50")]}),
    ({"many": [1.5, 2]}, {"many": [Decimal("1.50"), Decimal("2.00")]}),
    ({"many": []}, {"many": []}),
    ({"data": "00ff"}, {"data": b"\x00\xff"}),
    ({"data": ""}, {"data": b""}),
]
WRONG: list[dict[str, Any]] = [
    {"amt": text}
    for text in (
        "NaN", "Infinity", "-Infinity", "", "137.31", "1", "12", "nA", "nA=", "nB==", "NaE", "Na E=", "NaE=\n", "_-8=",
        "=", "====", "é", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA", "NAN", '{"scale":1,"value":"Dw=="}',
    )
] + [
    {"amt": wrong}
    for wrong in (
        {"value": "Dw=="}, {"scale": 1}, {"scale": "1", "value": "Dw=="}, {"scale": 1, "value": 15}, {},
        {"scale": 1, "value": "NaN"}, {"scale": 1, "value": "Dw==", "more": 1}, {"scale": 99999, "value": "Dw=="},
        True, ["nA=="],
    )
] + [
    {"amt": 1.239}, {"amt": exact("1.10000000000000000000001E0")}, {"big": exact("1.00000000000000000000001E2")},
    {"big": "NaN"}, {"big": "12"}, {"ratio": "nA=="}, {"ratio": "1234"}, {"ratio": "NAN"},
    {"text": "NaN"}, {"text": "DOO1oREcgQeDpOytfCPcFwK8dPHi33k="}, {"many": ["NaN"]}, {"many": ["nA==", "1"]},
    {"many": "nA=="}, {"many": {"a": 1}}, {"data": "0"}, {"data": "0G"}, {"data": "00FF"},
]  # fmt: skip


def test_precise_decimals_are_exactly_what_was_written_or_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row for row, _ in RIGHT] + WRONG
    write_exactly(tmp_path, *(event("c", {"id": i, **row}, 110 + i) for i, row in enumerate(rows)))
    loaded = table(
        spark, tmp_path, contract=Numbers, decimals="precise", encodings={"text": "decimal(2)", "data": "hex"}
    )  # fmt: skip
    names = ("amt", "big", "ratio", "text", "many", "data")
    found = sorted(validated(loaded, "id", "_reasons", *names), key=lambda row: row[0])
    expected = [(i, [], *(made.get(name) for name in names)) for i, (_, made) in enumerate(RIGHT)]
    assert found[: len(RIGHT)] == expected
    assert [rows[i] for i, reasons, *_ in found[len(RIGHT) :] if len(reasons) != 1] == []
    assert found[len(RIGHT)][1] == [f"amt: 'NaN' is not encoded as decimal: {REMEDY}"]


class Stored(pa.DataFrameModel):
    """Columns that PostgreSQL may store out of line."""

    id: T.LongType = pa.Field(nullable=False)
    n: T.LongType = pa.Field(nullable=True)
    texts: T.ArrayType(T.StringType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    ids: T.ArrayType(T.StringType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    ints: T.ArrayType(T.IntegerType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    days: T.ArrayType(T.DateType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    amounts: T.ArrayType(T.DecimalType(10, 2)) = pa.Field(nullable=True)  # type: ignore[valid-type]
    moments: T.ArrayType(T.TimestampType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    ratios: T.ArrayType(T.DoubleType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    flags: T.ArrayType(T.BooleanType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    blobs: T.ArrayType(T.BinaryType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    amount: T.DecimalType(20, 4) = pa.Field(nullable=True)  # type: ignore[valid-type]
    data: T.BinaryType = pa.Field(nullable=True)
    labels: T.MapType(T.StringType(), T.StringType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    tags: T.StringType = pa.Field(nullable=True)
    document: T.StringType = pa.Field(nullable=True)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


def of_placeholder(text: str) -> dict[str, Any]:
    """What an update has of each column that it left alone, in the forms that the connector has for types."""
    raw = text.encode()
    encoded = base64.b64encode(raw).decode()
    digest = str(uuid.UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3))
    signed = [byte - 256 if byte > 127 else byte for byte in raw]
    return {
        "texts": [text], "ids": [digest], "ints": signed, "days": signed, "amounts": [text], "moments": [text],
        "ratios": [text], "flags": [text], "blobs": [encoded], "amount": text, "data": encoded,
        "labels": {text: text}, "tags": f'{{"{text}":"{text}"}}', "document": text,
    }  # fmt: skip


@pytest.mark.parametrize(("decimals", "placeholder"), [("precise", MARKER), ("double", "hex:c3a4"), ("string", "?")])
def test_an_unavailable_value_is_none_whatever_its_form_and_unset_or_quarantined(
    spark: SparkSession, tmp_path: Path, decimals: str, placeholder: str
) -> None:
    text = "ä" if placeholder == "hex:c3a4" else placeholder
    write(tmp_path, 1, event("u", {"id": 1, "n": 5, **of_placeholder(text)}, 110))
    kept = table(spark, tmp_path, contract=Stored, decimals=decimals, unavailable=placeholder)
    columns = [name for name in kept.table.columns if name not in ("id", "n", "cdc_sequence")]
    assert validated(kept, "_reasons", "_unset", *columns) == [([], columns, *[None] * len(columns))]
    whole = table(
        spark, tmp_path, contract=Stored, decimals=decimals, unavailable=placeholder, replica_identity="full"
    )  # fmt: skip
    [(kind, [reason])] = validated(whole, "_kind", "_reasons")
    assert kind == "rejected" and reason.startswith(f"{', '.join(columns)}: not in this event")
