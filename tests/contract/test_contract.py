"""The contract: what a table's columns have to be, and what is said about rows that are not."""

import datetime as dt
import json
from base64 import b64encode, encodebytes
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Optional

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from incload_assets.contract.contract import Contract, column_of, compile_contract
from incload_assets.contract.conversion import MAX_LEVELS
from incload_assets.platform.errors import DeclarationError

pytestmark = pytest.mark.reads

TEXT = T.StringType()


class Order(pa.DataFrameModel):
    order_id: T.LongType = pa.Field(nullable=False, gt=0)
    status: T.StringType = pa.Field(isin=["new", "paid", "sent"], description="Where it stands")
    email: T.StringType = pa.Field(nullable=True, str_contains="@", metadata={"personal": True})
    amount: Annotated[T.DecimalType, 10, 2] = pa.Field(nullable=True, ge=0)
    updated_at: T.TimestampType

    class Config:
        unique = "order_id"


def raw(name: str) -> Column:
    return F.col("raw").getField(name)


def typed(
    spark: SparkSession, contract: Contract, rows: list[dict[str, Any]], types: dict[str, T.DataType]
) -> list[Any]:
    schema = T.StructType([T.StructField("raw", T.StructType([T.StructField(n, t) for n, t in types.items()]))])
    frame = spark.createDataFrame([(tuple(row.get(name) for name in types),) for row in rows], schema)
    out = frame.select(*contract.typed(raw, types), contract.type_reasons(raw, types).alias("reasons"))
    assert out.schema[: len(contract.fields)] == contract_schema(contract)
    return [tuple(row) for row in out.collect()]


def contract_schema(contract: Contract) -> list[tuple[str, str]] | Any:
    return T.StructType([T.StructField(f.name, f.data_type) for f in contract.fields])


def validated(
    spark: SparkSession, contract: Contract, *rows: tuple[Any, ...], only: set[str] | None = None
) -> list[list[str]]:
    frame = spark.createDataFrame(list(rows), contract.schema)
    return [row[0] for row in frame.select(contract.reasons(only=only)).collect()]


def one_field(annotation: Any, field: Any = None) -> type[Any]:
    return type(
        "One",
        (pa.DataFrameModel,),
        {"__annotations__": {"value": annotation}, "value": field or pa.Field(nullable=True)},
    )


def convert(spark: SparkSession, annotation: Any, *values: Any, source: T.DataType = TEXT) -> list[Any]:
    contract = compile_contract(one_field(annotation), "t")
    return [row[0] for row in typed(spark, contract, [{"value": v} for v in values], {"value": source})]


AT = dt.datetime(2026, 1, 3, 1)


def test_a_model_becomes_fields_in_its_order() -> None:
    contract = compile_contract(Order, "orders")
    assert contract.model_name == "Order"
    assert contract.names == ("order_id", "status", "email", "amount", "updated_at")
    assert contract.unique == ("order_id",)
    assert contract.personal == {"email"}
    assert contract.schema.simpleString() == (
        "struct<order_id:bigint,status:string,email:string,amount:decimal(10,2),updated_at:timestamp>"
    )
    assert [field.nullable for field in contract.fields] == [False, False, True, True, False]
    assert contract.schema["status"].metadata == {"comment": "Where it stands"}


def test_each_broken_rule_is_a_reason_with_column_value_and_rule(spark: SparkSession) -> None:
    contract = compile_contract(Order, "orders")
    rows = [
        (1, "new", "a@b", Decimal("1.00"), AT),
        (0, "lost", "ab", Decimal("-0.01"), None),
        (None, None, None, None, AT),
    ]
    assert validated(spark, contract, *rows) == [
        [],
        [
            "order_id: '0' not > 0",
            "status: 'lost' not in [new, paid, sent]",
            "email: *** does not contain @",
            "amount: '-0.01' not >= 0",
            "updated_at: NULL is not allowed",
        ],
        ["order_id: NULL is not allowed", "status: NULL is not allowed"],
    ]


def test_deletes_can_be_validated_by_their_key_alone(spark: SparkSession) -> None:
    contract = compile_contract(Order, "orders")
    rows = [(1, None, None, None, None), (0, "lost", None, None, None)]
    assert validated(spark, contract, *rows, only={"order_id"}) == [[], ["order_id: '0' not > 0"]]


def test_a_raw_value_that_cannot_become_its_type_is_null_and_named_unless_it_is_personal(spark: SparkSession) -> None:
    class Person(pa.DataFrameModel):
        id: T.LongType
        born: T.DateType = pa.Field(metadata={"personal": True})
        note: T.StringType = pa.Field(nullable=True)

    types = {"id": TEXT, "born": TEXT, "note": TEXT}
    rows = [
        {"id": "1", "born": "2001-02-03", "note": "x"},
        {"id": "x" * 100, "born": "yesterday", "note": None},
        {"id": None, "born": None, "note": ""},
    ]
    assert typed(spark, compile_contract(Person, "people"), rows, types) == [
        (1, dt.date(2001, 2, 3), "x", []),
        (None, None, None, [f"id: '{'x' * 77}...' is not bigint", "born: *** is not date"]),
        (None, None, "", []),
    ]


def test_a_field_the_source_does_not_have_is_null_without_a_reason(spark: SparkSession) -> None:
    contract = compile_contract(Order, "orders")
    assert typed(spark, contract, [{"order_id": "7"}], {"order_id": TEXT}) == [(7, None, None, None, None, [])]


def test_text_becomes_whole_numbers_only_from_whole_numbers(spark: SparkSession) -> None:
    values = ["7", " -7 ", "+7", "1.5", "1.0", "1e3", "9223372036854775807", "9223372036854775808", "", "abc"]
    assert convert(spark, T.LongType, *values) == [7, -7, 7, None, 1, 1000, 2**63 - 1, None, None, None]
    written = ["9007199254740993.0", "92233720368547758.07e2", "9223372036854775808.0", "1e-1", "5e-1", "1.25e1"]
    assert convert(spark, T.LongType, *written) == [2**53 + 1, 2**63 - 1, None, None, None, None]
    assert convert(spark, T.LongType, "-1.50E+01", ".5e1", "1.", "0e0", "1e018", "1e19") == [-15, 5, 1, 0, 10**18, None]
    assert convert(spark, T.LongType, "true", "1_000", "0x1F", "1L", "\u0661", "1,0", "1e", "e1", ".") == [None] * 9
    assert convert(spark, T.ByteType, "127", "128", "12.7e1", "128.0") == [127, None, 127, None]


def test_text_becomes_decimals_without_rounding(spark: SparkSession) -> None:
    d = Annotated[T.DecimalType, 10, 2]
    values = ["1.23", "1.230", "1.239", "12345678.90", "123456789", "1.5e2", "1.2345e1", "1e-7", "NaN", ".5"]
    assert convert(spark, d, *values) == [
        Decimal("1.23"), Decimal("1.23"), None, Decimal("12345678.90"), None, Decimal("150.00"), None, None, None,
        Decimal("0.50"),
    ]  # fmt: skip
    widest = "12345678901234567890.123456789012345678"
    assert convert(spark, Annotated[T.DecimalType, 38, 18], widest, widest + "1") == [Decimal(widest), None]
    exponents = ["12345678901234567890.4e0", "12345678901234567890e0", "123456789012345678901.0e-1", "1E37", "0e0"]
    whole = [None, Decimal("12345678901234567890"), None, Decimal(10**37), Decimal(0)]
    assert convert(spark, Annotated[T.DecimalType, 38, 0], *exponents) == whole
    assert convert(spark, d, "１.２３９", "１.２") == [None, None]
    tiny = ["1234567890.12345678901e0", "1234567890.1234567890e0", "-5e-10", "9.99e-10", "1e-999999999", "1e999999999"]
    exact = [None, Decimal("1234567890.1234567890"), Decimal("-5e-10"), None, None, None]
    assert convert(spark, Annotated[T.DecimalType, 20, 10], *tiny) == exact


def test_text_becomes_floats_but_not_infinity_by_overflow_nor_java_notation(spark: SparkSession) -> None:
    values = ["1.5", "-1e3", "1e400", "1.0f", "0x1p3", "Infinity", "-inf", "5."]
    inf = float("inf")
    assert convert(spark, T.DoubleType, *values) == [1.5, -1000.0, None, None, None, inf, -inf, 5.0]
    assert str(convert(spark, T.DoubleType, "NaN")[0]) == "nan"
    assert convert(spark, T.DoubleType, "1e-400", "0e-400", "-0.0") == [None, 0.0, 0.0]
    whole = ["9007199254740992", "9007199254740993", "9007199254740993.0", "1152921504606846976", "1152921504606846975"]
    assert convert(spark, T.DoubleType, *whole) == [2.0**53, None, None, 2.0**60, None]
    assert convert(spark, T.DoubleType, "0.10000000000000001", "9.9999999999999992e+22") == [0.1, 1e23]
    assert convert(spark, T.FloatType, "16777216", "16777217", "0.5", "1e30", "3.5e38", "1e-60") == [
        2.0**24, None, 0.5, pytest.approx(1e30), None, None,
    ]  # fmt: skip


def test_text_becomes_dates_only_from_whole_dates(spark: SparkSession) -> None:
    day = dt.date(2026, 1, 2)
    values = ["2026-01-02", "2026-1-2", "2026-01-02T00:00:00Z", "2026-01-02 00:00", "2026", "2026-01-02 xyz"]
    assert convert(spark, T.DateType, *values) == [day, day, day, day, None, None]
    assert convert(spark, T.DateType, "2026-02-30", "2026-01-02T23:00:00-05:00", "02/01/2026") == [None] * 3


def test_text_becomes_instants_with_offsets_honoured_and_utc_without(spark: SparkSession) -> None:
    values = [
        "2026-01-03T03:00+02:00",
        "2026-01-03T01:00:00Z",
        "2026-01-03t01:00:00z",
        "2026-01-03 01:00",
        "2026-01-03 01:00:00",
        "2026-01-03 03:00:00 +02:00",
        "2026-01-03T02:00:00 Europe/Berlin",
        "2026-01-03T03:00:00+0200",
    ]
    assert convert(spark, T.TimestampType, *values) == [AT, AT, None, AT, AT, AT, AT, AT]
    assert convert(spark, T.TimestampType, "2026-01-03", "2026-01-03T02:00:30+01:00:30") == [AT.replace(hour=0), AT]
    assert convert(spark, T.TimestampType, "12:30", "2026", "1700000000", "2026-02-30T00:00:00") == [None] * 4


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-01-03T01:00:00.123456000Z", AT.replace(microsecond=123456)),
        ("2026-01-03T01:00:00.12345600", AT.replace(microsecond=123456)),
        ("2026-01-03T01:00:00.1234561Z", None),
        ("2026-01-03 01:00:00.000000001", None),
        ("2026-01-03T03:00:00.123456789+02:00", None),
        ("9999-12-31T23:59:59.999999Z", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
        ("9999-12-31T23:30:00-01:00", None),
        ("9999-12-31T23:30:00+01:00", dt.datetime(9999, 12, 31, 22, 30)),
        ("0001-01-01", dt.datetime(1, 1, 1)),
        ("0001-01-01T00:30:00+01:00", None),
        ("0000-12-31T23:30:00-01:00", dt.datetime(1, 1, 1, 0, 30)),
        ("0000-12-31T23:30:00", None),
        ("10000-01-01T00:00:00Z", None),
        ("+10000-01-01T00:00:00Z", None),
        ("-0001-01-01T00:00:00Z", None),
    ],
)
def test_an_instant_has_six_digits_of_a_second_and_a_year_of_four(
    spark: SparkSession, text: str, at: dt.datetime | None
) -> None:
    assert convert(spark, T.TimestampType, text) == [at]
    assert convert(spark, T.ArrayType(T.TimestampType()), f'["{text}"]') == [at and [at]]


def test_members_without_a_zone_and_dates_are_held_to_the_same(spark: SparkSession) -> None:
    local = ["2026-01-03T01:00:00.1234560", "2026-01-03T01:00:00.1234561", "0000-12-31T23:30:00"]
    assert convert(spark, T.ArrayType(T.TimestampNTZType()), *(f'["{text}"]' for text in local)) == [
        [AT.replace(microsecond=123456)], None, None,
    ]  # fmt: skip
    assert convert(spark, T.DateType, "0001-01-01", "9999-12-31", "0000-12-31", "10000-01-01") == [
        dt.date(1, 1, 1), dt.date(9999, 12, 31), None, None,
    ]  # fmt: skip


def test_instants_of_typed_files_are_held_to_the_same_years(spark: SparkSession) -> None:
    contract = compile_contract(one_field(T.TimestampType), "t")
    micros = [-62_135_596_800_000_000, 253_402_300_799_999_999]
    numbers = [micros[0] - 1, micros[0], micros[1], micros[1] + 1, 2**62, None]
    frame = spark.createDataFrame([(number,) for number in numbers], "n bigint")
    types: dict[str, T.DataType] = {"value": T.TimestampType()}
    [value] = contract.typed(lambda _: F.timestamp_micros("n"), types)
    told = contract.type_reasons(lambda _: F.timestamp_micros("n"), types)
    found = [tuple(row) for row in frame.select(F.unix_micros(value), F.size(told)).collect()]
    assert found == [(None, 1), (micros[0], 0), (micros[1], 0), (None, 1), (None, 1), (None, 0)]

    nested = T.StructType([T.StructField("days", T.MapType(TEXT, T.ArrayType(T.DateType())))])
    days = F.struct(F.create_map(F.lit("a"), F.array(F.lit(None), F.date_from_unix_date(F.col("n")))).alias("days"))
    frame = spark.createDataFrame([(-719_163,), (-719_162,), (2_932_896,), (2_932_897,), (None,)], "n int")
    [value] = compile_contract(one_field(nested), "t").typed(lambda _: days, {"value": nested})
    assert [row[0] for row in frame.select(value.isNotNull()).collect()] == [False, True, True, False, True]


def test_text_becomes_booleans_and_binary(spark: SparkSession) -> None:
    assert convert(spark, T.BooleanType, "true", "F", "1", "no", "2") == [True, False, True, False, None]
    assert convert(spark, T.BooleanType, "1.0", "0e5", "1.5", "-1", "0.1e1") == [True, False, None, None, True]
    assert convert(spark, T.BinaryType, "aGk=", "!!", "", "a\nGk=") == [b"hi", None, b"", b"hi"]
    assert convert(spark, T.BinaryType, "NaN", "aGk", "aGl=") == [None] * 3
    long = bytes(range(256))  # longer than the lines that base64 is often written in
    assert convert(spark, T.BinaryType, b64encode(long).decode(), encodebytes(long).decode()) == [long] * 2


def test_json_text_becomes_nested_values_or_nothing(spark: SparkSession) -> None:
    point = T.StructType([T.StructField("x", T.LongType()), T.StructField("tags", T.ArrayType(TEXT))])
    values = ['{"x": 1, "tags": ["a", null]}', '{"x": "one"}', '{"x": 1.5}', "[1]", "nope", '{"x":1}, "v": {"x":2}']
    assert convert(spark, point, *values) == [(1, ["a", None]), None, None, None, None, None]
    assert convert(spark, T.ArrayType(T.LongType()), "[1, 2]", '[1, "b"]', "[]") == [[1, 2], None, []]
    assert convert(spark, T.MapType(TEXT, T.LongType()), '{"a": 1}', '{"a": "z"}') == [{"a": 1}, None]


MONEY = T.StructType([T.StructField("sum", T.DecimalType(10, 2)), T.StructField("to", T.DateType())])


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (T.ArrayType(T.DecimalType(10, 2)), "[1.23, 1.230, null]", [Decimal("1.23"), Decimal("1.23"), None]),
        (T.ArrayType(T.DecimalType(10, 2)), "[1.23, 1.239]", None),
        (T.ArrayType(T.DecimalType(38, 0)), "[12345678901234567890123456789e1]", [123456789012345678901234567890]),
        (
            T.ArrayType(T.DecimalType(38, 30)),
            "[1.100000000000000000000000000001]",
            [Decimal("1.100000000000000000000000000001")],
        ),
        (T.ArrayType(T.DoubleType()), "[1e999]", None),
        (T.ArrayType(T.DoubleType()), "[1e99, -1]", [1e99, -1.0]),
        (T.ArrayType(T.DateType()), '["2026"]', None),
        (T.ArrayType(T.DateType()), '["2026-01-02T13:00:00Z"]', None),
        (T.ArrayType(T.DateType()), '["2026-01-02"]', [dt.date(2026, 1, 2)]),
        (T.ArrayType(T.TimestampType()), '["12:30"]', None),
        (T.ArrayType(T.TimestampType()), '["2026-01-03T03:00:00.123456+02:00"]', [AT.replace(microsecond=123456)]),
        (T.ArrayType(T.LongType()), "[1.0, 1e2]", [1, 100]),
        (T.ArrayType(T.LongType()), "[true]", None),
        (T.ArrayType(TEXT), '[1.50, {"b": 1e5, "a": [true]}, "1e5"]', ["1.50", '{"b":1e5,"a":[true]}', "1e5"]),
        (T.ArrayType(T.ArrayType(T.LongType())), "[[1, 2], null, []]", [[1, 2], None, []]),
        (T.ArrayType(T.ArrayType(T.LongType())), "[[1, 2], 3]", None),
        (T.ArrayType(MONEY), '[{"sum": 1.5, "to": "2026-01-02"}]', [(Decimal("1.50"), dt.date(2026, 1, 2))]),
        (T.ArrayType(MONEY), '[{"sum": 1.5}, {"sum": 1e-20}]', None),
        (T.MapType(TEXT, MONEY), '{"a.b": {"sum": 1}}', {"a.b": (Decimal("1.00"), None)}),
        (T.MapType(TEXT, MONEY), '{"a": {"sum": 1.005}}', None),
        (T.MapType(T.LongType(), TEXT), '{"1": "x", "2": null}', {1: "x", 2: None}),
        (T.MapType(T.LongType(), TEXT), '{"1": "x", "01": "y"}', None),
        (T.MapType(T.LongType(), TEXT), '{"1.5": "x"}', None),
        (T.ArrayType(TEXT), "['a']", None),
        (T.ArrayType(T.DoubleType()), "[NaN]", None),
        (T.ArrayType(T.LongType()), '[{"a": 1, "a": 2}]', None),
        (T.ArrayType(T.TimestampNTZType()), '["2026-01-03T01:00:00.5"]', [AT.replace(microsecond=500000)]),
        (T.ArrayType(T.TimestampNTZType()), '["2026-01-03T01:00:00+02:00"]', None),
        (MONEY, "null", None),
    ],
)
def test_members_of_nested_values_become_their_types_by_the_rules_of_columns(
    spark: SparkSession, annotation: Any, text: str, value: Any
) -> None:
    assert convert(spark, annotation, text) == [value]


def test_deeply_nested_values_are_converted(spark: SparkSession) -> None:
    deep: T.DataType = T.LongType()
    text = "1"
    for level in range(MAX_LEVELS // 2):
        deep = T.ArrayType(T.StructType([T.StructField(f"l{level}", deep), T.StructField("more", T.DateType())]))
        text = f'[{{"l{level}": {text}, "more": "2026-01-02"}}]'
    found = convert(spark, deep, text, text.replace(": 1,", ": 1.5,"), text.replace(": 1,", ': 1, "x": 1,'))
    for level in reversed(range(MAX_LEVELS // 2)):
        found[0] = found[0][0][f"l{level}"]
    assert found[0] == 1
    assert found[1] is None
    assert found[2] is not None


def test_members_that_a_struct_does_not_declare_are_told_of(spark: SparkSession) -> None:
    class Model(pa.DataFrameModel):
        one: MONEY = pa.Field(nullable=True)  # type: ignore[valid-type]
        many: T.ArrayType(MONEY) = pa.Field(nullable=True)  # type: ignore[valid-type]
        by_name: T.MapType(TEXT, MONEY) = pa.Field(nullable=True)  # type: ignore[valid-type]
        plain: T.ArrayType(TEXT) = pa.Field(nullable=True)  # type: ignore[valid-type]

    contract = compile_contract(Model, "t")
    types = dict.fromkeys(contract.names, TEXT)
    rows = [
        {"one": '{"sum": 1, "note": "x"}', "many": '[{"sum": 1}, {"Sum": 2}]', "by_name": '{"a": {"b": null}}'},
        {"one": '{"sum": 1}', "many": '[{"to": null}, null]', "by_name": '{"a": {}}', "plain": '[{"a": 1}]'},
        {"one": "[1]", "many": "nope", "by_name": None},
    ]
    schema = T.StructType([T.StructField("raw", T.StructType([T.StructField(n, TEXT) for n in types]))])
    frame = spark.createDataFrame([(tuple(row.get(name) for name in types),) for row in rows], schema)
    found = contract.undeclared(raw, types)
    assert found is not None
    texts = [row[0] for row in frame.select(found).collect()]
    assert [text and json.loads(text) for text in texts] == [
        {"one": {"sum": 1, "note": "x"}, "many": [{"sum": 1}, {"Sum": 2}], "by_name": {"a": {"b": None}}},
        None,
        None,
    ]
    assert compile_contract(Order, "orders").undeclared(raw, {"order_id": TEXT}) is None


def test_typed_files_convert_only_without_loss(spark: SparkSession) -> None:
    assert convert(spark, T.LongType, 7, source=T.IntegerType()) == [7]
    assert convert(spark, T.ByteType, 127, 128, source=T.LongType()) == [127, None]
    assert convert(spark, T.LongType, 2.0, 1.5, float("nan"), 1e300, source=T.DoubleType()) == [2, None, None, None]
    assert convert(spark, Annotated[T.DecimalType, 10, 2], 0.1, 0.123, source=T.DoubleType()) == [Decimal("0.10"), None]
    assert convert(spark, T.DoubleType, 2**53, 2**53 + 1, source=T.LongType()) == [2.0**53, None]
    assert convert(spark, T.TimestampType, 1700000000, source=T.LongType()) == [None]
    assert convert(spark, T.TimestampType, AT, source=T.TimestampNTZType()) == [AT]
    assert convert(spark, T.DateType, AT, dt.datetime(2026, 1, 3), source=T.TimestampType()) == [None, AT.date()]
    assert convert(spark, T.StringType, b"hi", b"\xff", source=T.BinaryType()) == ["hi", None]
    assert convert(spark, T.StringType, 7, source=T.LongType()) == ["7"]
    assert convert(spark, T.LongType, 2.0**63, -(2.0**63), source=T.DoubleType()) == [None, -(2**63)]
    assert convert(spark, T.ArrayType(TEXT), [b"ab"], source=T.ArrayType(T.BinaryType())) == [None]
    assert convert(spark, T.LongType, True, source=T.BooleanType()) == [None]
    assert convert(spark, T.DoubleType, False, source=T.BooleanType()) == [None]
    assert convert(spark, Annotated[T.DecimalType, 10, 2], True, source=T.BooleanType()) == [None]
    assert convert(spark, T.BooleanType, 1, 0, 2, source=T.LongType()) == [True, False, None]
    assert convert(spark, T.BooleanType, 1.0, 1.5, source=T.DoubleType()) == [True, None]
    assert convert(spark, T.FloatType, 16777216.0, 16777217.0, 1e-60, 1e300, 0.1, source=T.DoubleType()) == [
        2.0**24, None, None, None, pytest.approx(0.1),
    ]  # fmt: skip


def test_nested_values_of_typed_files_convert_by_name(spark: SparkSession) -> None:
    stored = T.StructType(
        [T.StructField("b", T.IntegerType()), T.StructField("a", TEXT), T.StructField("at", T.TimestampType())]
    )
    declared = T.StructType(
        [T.StructField("a", TEXT), T.StructField("b", T.LongType()), T.StructField("at", T.TimestampType())]
    )
    at = AT.replace(microsecond=123456)
    assert convert(spark, declared, (1, "x", at), source=stored) == [("x", 1, at)]
    assert json.loads(convert(spark, T.StringType, (1, "x", None), source=stored)[0]) == {"b": 1, "a": "x"}


def test_any_column_name_is_quoted(spark: SparkSession) -> None:
    names = ["select", "a.b", "back`tick", "with space", "🙂", "it's", "percent%"]
    fields = {f"f{i}": pa.Field(alias=name, ge=1) for i, name in enumerate(names)}
    model = type("Odd", (pa.DataFrameModel,), {"__annotations__": dict.fromkeys(fields, T.LongType), **fields})
    contract = compile_contract(model, "odd")
    assert contract.names == tuple(names)
    assert validated(spark, contract, (0,) * 7) == [[f"{name}: '0' not >= 1" for name in names]]
    rows = typed(spark, contract, [dict.fromkeys(names, "5")], dict.fromkeys(names, TEXT))
    assert rows == [(5,) * 7 + ([],)]


def test_three_hundred_columns_are_validated_at_once(spark: SparkSession) -> None:
    fields = {f"c{i}": pa.Field(ge=0, le=10) for i in range(300)}
    model = type("Wide", (pa.DataFrameModel,), {"__annotations__": dict.fromkeys(fields, T.LongType), **fields})
    contract = compile_contract(model, "wide")
    assert validated(spark, contract, (5,) * 299 + (11,), (5,) * 300) == [["c299: '11' not <= 10"], []]


def test_optional_and_not_required_mean_nullable() -> None:
    class Loose(pa.DataFrameModel):
        a: Optional[T.LongType]  # noqa: UP045 - a type instance knows no "|"
        b: T.LongType = pa.Field(required=False)
        c: T.LongType

    assert [f.nullable for f in compile_contract(Loose, "t").fields] == [True, True, False]


def test_a_changed_check_changes_the_representation_of_the_contract() -> None:
    def shown(values: Any) -> str:
        return repr(compile_contract(one_field(T.LongType, pa.Field(isin=values)), "t").fields)

    assert shown(range(20)) != shown([*range(19), 99])
    assert shown({3, 1, 2}) == shown(frozenset([2, 3, 1]))
    assert "0x" not in shown([1])


def _custom_field_check() -> type[Any]:
    class Model(pa.DataFrameModel):
        value: T.LongType

        @pa.check("value", name="is_even")
        def is_even(cls, data: Any) -> bool:
            return True

    return Model


def _custom_frame_check() -> type[Any]:
    class Model(pa.DataFrameModel):
        value: T.LongType

        @pa.dataframe_check
        def adds_up(cls, data: Any) -> bool:
            return True

    return Model


def _config(**options: Any) -> Callable[[], type[Any]]:
    config = type("Config", (), options)
    return lambda: type("Model", (pa.DataFrameModel,), {"__annotations__": {"value": T.LongType}, "Config": config})


def _named(*names: str) -> Callable[[], type[Any]]:
    fields = {f"f{i}": pa.Field(alias=name) for i, name in enumerate(names)}
    return lambda: type("Model", (pa.DataFrameModel,), {"__annotations__": dict.fromkeys(fields, T.LongType), **fields})


def _field(annotation: Any = T.LongType, **options: Any) -> Callable[[], type[Any]]:
    return lambda: one_field(annotation, pa.Field(**options))


def _underscore() -> type[Any]:
    class Model(pa.DataFrameModel):
        value: T.LongType
        _window: T.StringType

    return Model


def _without_annotation() -> type[Any]:
    class Model(pa.DataFrameModel):
        value = pa.Field(ge=1)

    return Model


def _nested(levels: int) -> T.DataType:
    return T.ArrayType(_nested(levels - 1)) if levels else T.LongType()


TWO_CASES = T.StructType([T.StructField("x", T.LongType()), T.StructField("X", T.LongType())])

REFUSED: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "a custom check": (_custom_field_check, ["field value", "is_even", "which rows fail", "eq=True"]),
    "a check of the frame": (_custom_frame_check, ["the frame", "adds_up", "which rows fail", "asset check"]),
    "a check of the whole column": (_field(unique_values_eq=[1]), ["unique_values_eq", "built-in checks"]),
    "a bound of another type": (_field(ge=1.5), ["field value", "1.5", "bigint"]),
    "a bound too large": (_field(T.ByteType, le=1000), ["1000", "tinyint"]),
    "a bound finer than the scale": (_field(T.DecimalType(10, 2), ge=0.001), ["0.001", "decimal(10,2)"]),
    "a text for a set": (_field(T.StringType, isin=("new",)), ["its values are 'new'", "give a list"]),
    "NaN as a bound": (_field(T.DoubleType, ge=float("nan")), ["nan", "double"]),
    "NULL in a set": (_field(isin=[1, None]), ["None", "nullable="]),
    "an empty set": (_field(isin=[]), ["its values are []"]),
    "a text check on a number": (_field(str_matches="a"), ["str_matches", "bigint", "string"]),
    "an order of texts": (_field(T.StringType, ge="a"), ["does not apply to string"]),
    "a pattern Java lacks": (_field(T.StringType, str_matches="(a)?(?(1)b|c)"), ["Java", "(?("]),
    "a check that only warns": (_field(ge=1, raise_warning=True), ["raise_warning=True", "asset check"]),
    "a check of NULL": (_field(ge=1, ignore_na=False), ["ignore_na=False", "nullable=False"]),
    "a pattern of names": (_field(regex=True), ["regex=True", "fixed names"]),
    "a timestamp without zone": (_field(T.TimestampNTZType), ["without time zone", "T.TimestampType"]),
    "a mark that is no boolean": (_field(metadata={"personal": "yes"}), ["personal", "'yes'"]),
    "names that differ by case": (_named("id", "ID"), ["fields id and ID", "only by case"]),
    "members that differ by case": (_field(TWO_CASES), ["value.x", "only by case"]),
    "a type nested too deep": (_field(_nested(11)), ["11 levels", "10 levels", "T.StringType"]),
    "an alias of the loader's": (_named("_hash"), ["'_hash'", "underscore", "alias"]),
    "a name of the loader's": (_underscore, ["'_window'", "underscore"]),
    "unique of no field": (_config(unique=["id"]), ["Config.unique", "'id'", "value"]),
    "strict": (_config(strict=True), ["Config.strict", "kept beside the row"]),
    "dropping of rows": (_config(drop_invalid_rows=True), ["drop_invalid_rows", "quarantined"]),
    "a type for all": (_config(dtype=T.LongType), ["Config.dtype", "each field's type"]),
    "an unknown option": (_config(no_such_option=1), ["no_such_option"]),
    "a field without a type": (_without_annotation, ["value", "annotations"]),
    "a model without fields": (_named(), ["no fields"]),
    "another class": (lambda: dict, ["pandera.pyspark.DataFrameModel"]),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_held_is_refused_with_table_place_and_remedy(what: str) -> None:
    model, parts = REFUSED[what]
    with pytest.raises(DeclarationError) as refused:
        compile_contract(model(), "shop/orders")
    message = str(refused.value)
    assert message.startswith("shop/orders: ")
    assert [part for part in parts if part not in message] == []
    assert refused.value.remedy


def test_unique_of_a_single_field_points_to_the_configuration() -> None:
    # pandera itself refuses it while the class is made, before there is a contract to compile
    with pytest.raises(Exception, match="unique"):
        pa.Field(unique=True)


@pytest.mark.parametrize("options", [{"coerce": True}, {"ordered": True}, {"strict": "filter"}, {"unique": "value"}])
def test_options_that_a_load_honours_anyway_are_accepted(options: dict[str, Any]) -> None:
    contract = compile_contract(_config(**options)(), "t")
    assert contract.names == ("value",)
    assert contract.unique == (("value",) if "unique" in options else ())


def test_column_of_reads_a_name_with_a_dot(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1,)], T.StructType([T.StructField("a.b`c", T.LongType())]))
    assert frame.select(column_of("a.b`c")).collect() == [(1,)]
