"""One value, however a file holds it, becomes the same: its declared type, or a quarantined row."""

import csv
import datetime as dt
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyarrow
import pyarrow.orc
import pyarrow.parquet as pq
import pyspark.sql.types as T
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.contract.contract import Contract, compile_contract
from incload_assets.sources.files.files import Files
from tests.support.detection import detected
from tests.support.files import FIRST, day, write

pytestmark = pytest.mark.reads

REFUSED = "refused"
BIG, TEXT, DOUBLE, FLOAT = T.LongType(), T.StringType(), T.DoubleType(), T.FloatType()
FLAG, BYTES, DAY, INSTANT = T.BooleanType(), T.BinaryType(), T.DateType(), T.TimestampType()
MONEY = T.DecimalType(10, 2)
VISIT = T.StructType([T.StructField("at", INSTANT), T.StructField("sum", MONEY)])

int8, int32, int64 = pyarrow.int8(), pyarrow.int32(), pyarrow.int64()
uint8, uint64, single, double = pyarrow.uint8(), pyarrow.uint64(), pyarrow.float32(), pyarrow.float64()
text, large, flag, binary = pyarrow.string(), pyarrow.large_string(), pyarrow.bool_(), pyarrow.binary()
date32, date64 = pyarrow.date32(), pyarrow.date64()
coded = pyarrow.dictionary(int32, text)
ms, us, ns = (pyarrow.timestamp(unit) for unit in ("ms", "us", "ns"))
zoned_ms, zoned_us, zoned_ns = (pyarrow.timestamp(unit, "UTC") for unit in ("ms", "us", "ns"))
exact: Callable[[int, int], pyarrow.DataType] = pyarrow.decimal128
many = pyarrow.list_

SECOND = 1_767_225_600  # 2026-01-01 in UTC
MICROS, NANOS = SECOND * 10**6 + 123_456, SECOND * 10**9 + 123_456_000
AFTER, BEFORE = 253_402_300_800_000, -62_135_596_800_001  # the milliseconds that years 1 to 9999 lie between
NOON = dt.datetime(2026, 1, 1, 10)


@dataclass(frozen=True)
class Case:
    """A value: the type declared, its outcome as text, and how it stands in files, Parquet as value and type."""

    target: T.DataType
    outcome: str | None
    json: Sequence[str] = ()
    csv: Sequence[str] = ()
    parquet: Sequence[tuple[Any, pyarrow.DataType]] = ()
    int96: Sequence[tuple[Any, pyarrow.DataType]] = field(default=())


CASES = [
    Case(
        BIG, "100", ["100", "100.0", "1e2", "1.0E+2", '"100"', '" 1e2 "'], ["100", "100.0", "1e2", "+100", "0100."],
        [(100, int8), (100, int64), (100, uint8), (100, uint64), (100, single), (100, double),
         (Decimal("100.00"), exact(5, 2)), ("100", text), ("1e2", large), ("100", coded)],
    ),
    Case(BIG, REFUSED, ["true", '"true"'], ["true"], [(True, flag), ("true", text)]),
    Case(BIG, REFUSED, ["1.5", "15e-1", '"1.5"'], ["1.5", "15e-1"],
         [(1.5, single), (1.5, double), (Decimal("1.5"), exact(3, 1)), ("1.5", text)]),
    Case(BIG, str(2**63 - 1), [str(2**63 - 1), f"{2**63 - 1}.0"], [str(2**63 - 1), f"{2**63 - 1}.0"],
         [(2**63 - 1, int64), (2**63 - 1, uint64), (Decimal(2**63 - 1), exact(38, 2))]),
    Case(BIG, REFUSED, [str(2**63), "1e19"], [str(2**63)],
         [(2**63, uint64), (2.0**63, double), (Decimal(2**63), exact(38, 0)), (str(2**63), text)]),
    Case(BIG, str(2**53 + 1), [str(2**53 + 1)], [str(2**53 + 1)], [(2**53 + 1, int64),
         (Decimal(2**53 + 1), exact(38, 2))]),
    Case(BIG, REFUSED, ['"NaN"', '"inf"', '""', "[1]", '{"a":1}'],
         ["NaN", "inf", "[1]", "0x1F", "1_000", "\u0661", "1L"],
         [(float("nan"), double), (float("inf"), single), ([1], many(int64)), (b"7", binary), (b"\x08\x01\x08", binary),
          (NOON, us), (NOON, ns), (dt.date(2026, 1, 1), date32), ("x", text)]),
    Case(BIG, None, ["null"], [""], [(None, pyarrow.null()), (None, int64), (None, text), (None, flag), (None, ns)]),
    Case(T.IntegerType(), REFUSED, [str(2**31), "2147483648.0"], [str(2**31)],
         [(2**31, int64), (2.0**31, double), (2**31, uint64)]),
    Case(T.ByteType(), REFUSED, ["128", "1.28e2"], ["128"], [(128, uint8), (128, int64), (128.0, single)]),
    Case(MONEY, "1.10", ["1.1", "1.10", "110e-2", '"1.1"'], ["1.1", "1.100", "11e-1"],
         [(1.1, double), (1.1, single), (Decimal("1.1"), exact(5, 1)), (Decimal("1.1"), exact(38, 18)),
         ("1.10", text)]),
    Case(MONEY, "100.00", ["1e2", "100"], ["1e2", "100.0"], [(100, int64), (100.0, double), (100, uint8)]),
    Case(MONEY, REFUSED, ["1.239", '"1.239"', "123456789", "true", '"NaN"', "1e-3"],
         ["1.239", "123456789", "true", "NaN", "Infinity", "1,5"],
         [(1.239, double), (Decimal("1.239"), exact(10, 3)), (123456789, int64), (True, flag), (float("nan"), double),
          (float("inf"), single), (Decimal("123456789"), exact(9, 0)), (b"1", binary)]),
    Case(MONEY, "0.00", ["-0.0", "0", "0e5"], ["-0.0", "0"], [(-0.0, double), (0, int32)]),
    Case(DOUBLE, "100.0", ["1e2", "100", '"1e2"'], ["1e2", "100"], [(100, int64), (100.0, single),
         (Decimal(100), exact(5, 2))]),
    Case(DOUBLE, "0.1", ["0.1", "1e-1"], ["0.1", ".1"], [(0.1, double), (Decimal("0.1"), exact(38, 18)),
         ("0.1", text)]),
    Case(DOUBLE, "-0.0", ["-0.0", "-0", '"-0.0"'], ["-0.0", "-0"], [(-0.0, double), (-0.0, single), ("-0.0", text)]),
    Case(DOUBLE, "0.12345678901234568", ["0.1234567890123456789"], ["0.1234567890123456789"],
         [(Decimal("0.1234567890123456789"), exact(38, 19)), (0.1234567890123456789, double)]),
    Case(DOUBLE, REFUSED, [str(2**53 + 1), f"{2**53 + 1}.0"], [str(2**53 + 1), f"{2**53 + 1}.0"],
         [(2**53 + 1, int64), (2**53 + 1, uint64), (Decimal(2**53 + 1), exact(38, 0)),
         (Decimal(2**53 + 1), exact(38, 1))]),
    Case(DOUBLE, REFUSED, ["true", "1e400", "-1e400", "1e-400", '"1.0f"'], ["true", "1e400", "1e-400", "1d"],
         [(True, flag), ("1e400", text), ("true", text), (dt.date(2026, 1, 1), date32)]),
    Case(DOUBLE, "NaN", ['"NaN"'], ["NaN"], [(float("nan"), double), (float("nan"), single), ("NaN", text)]),
    Case(DOUBLE, "-Infinity", ['"-Infinity"'], ["-inf"], [(float("-inf"), double), (float("-inf"), single)]),
    Case(FLOAT, REFUSED, ["16777217", "16777217.0", "1e300", "1e-60"], ["16777217", "16777217.0", "1e300", "1e-60"],
         [(2**24 + 1, int32), (2.0**24 + 1, double), (Decimal(2**24 + 1), exact(10, 2)), (1e300, double),
         (1e-60, double)]),
    Case(FLOAT, "0.1", ["0.1"], ["0.1"], [(0.1, single), (0.1, double), (Decimal("0.1"), exact(5, 2))]),
    Case(FLAG, "true", ["true", "1", "1.0", "1e0", '"true"', '"yes"', '"T"'], ["true", "1", "1.0", "1e0", "Y"],
         [(True, flag), (1, int8), (1, uint64), (1.0, double), (Decimal(1), exact(5, 2)), ("yes", text)]),
    Case(FLAG, "false", ["false", "0", "0.0", '"no"'], ["false", "0", "0.0", "n"],
         [(False, flag), (0, int64), (0.0, single), ("no", text)]),
    Case(FLAG, REFUSED, ["2", "0.5", "-1", '"on"'], ["2", "0.5", "-1", "on"],
         [(2, int64), (0.5, double), (-1, int8), ("on", text), (b"true", binary)]),
    Case(TEXT, "7", ["7", '"7"'], ["7"], [(7, int64), (7, uint64), ("7", text), ("7", large), (b"7", binary)]),
    Case(TEXT, "true", ["true", '"true"'], ["true"], [(True, flag), ("true", coded)]),
    Case(TEXT, "1.5", ["1.5", '"1.5"'], ["1.5"], [(1.5, double), (1.5, single), (Decimal("1.5"), exact(2, 1))]),
    Case(TEXT, " é\u0000", ['" é\\u0000"'], [" é\u0000"], [(" é\u0000", text), (" é\u0000".encode(), binary)]),
    Case(TEXT, "2026-01-01", ['"2026-01-01"'], ["2026-01-01"], [(dt.date(2026, 1, 1), date32),
         (dt.date(2026, 1, 1), date64)]),
    Case(TEXT, "2026-01-01 00:00:00.123456", (), (), [(MICROS, us), (MICROS, zoned_us), (NANOS, ns), (NANOS, zoned_ns)],
         [(MICROS, us)]),
    Case(TEXT, REFUSED, (), (), [(b"\xff\x00", binary), (b"\x80", pyarrow.binary(1))]),
    Case(BYTES, "aGk=", ['"aGk="'], ["aGk="], [(b"hi", binary), (b"hi", pyarrow.binary(2)), ("aGk=", text)]),
    Case(BYTES, REFUSED, ['"NaN"', '"aGk"', '"!"'], ["NaN", "aGk", "aGl="], [("NaN", text), (7, int64), (True, flag)]),
    Case(
        INSTANT, "2026-01-01 00:00:00.123456",
        ['"2026-01-01T00:00:00.123456Z"', '"2026-01-01T01:00:30.123456000+01:00:30"', '"2026-01-01 00:00:00.123456"'],
        ["2026-01-01T00:00:00.1234560Z", "2025-12-31T19:00:00.123456-05:00"],
        [(MICROS, us), (MICROS, zoned_us), (NANOS, ns), (NANOS, zoned_ns), ("2026-01-01T00:00:00.123456000Z", text)],
        [(MICROS, us), (NANOS, ns)],
    ),
    Case(INSTANT, REFUSED, ['"2026-01-01T00:00:00.1234561Z"', '"2026-01-01T02:00:00.123456001+02:00"'],
         ["2026-01-01 00:00:00.1234561", "2026-01-01T00:00:00.000000001Z"],
         [(NANOS + 100, ns), (NANOS + 1, zoned_ns), (-1, ns), ("2026-01-01T00:00:00.1234561Z", text)],
         [(NANOS + 100, ns), (-1, ns), (NANOS - 1, ns)]),
    Case(INSTANT, REFUSED, ['"9999-12-31T23:30:00-01:00"', '"10000-01-01T00:00:00Z"', '"+10000-01-01"'],
         ["9999-12-31T23:30:00-01:00"],
         [(AFTER, ms), (AFTER * 1000, zoned_us), (2**62, us), (2_932_897, date32), ("9999-12-31T23:30:00-01:00", text)],
         [(AFTER, ms), (AFTER * 1000, us)]),
    Case(INSTANT, REFUSED, ['"0001-01-01T00:30:00+01:00"', '"0000-12-31T00:00:00Z"', '"-0001-01-01T00:00:00Z"'],
         ["0001-01-01T00:30:00+01:00"],
         [(BEFORE, zoned_ms), (BEFORE * 1000, us), (-(2**62), us), (-719_163, date32)], [(BEFORE, ms),
         (BEFORE * 1000, us)]),
    Case(INSTANT, "9999-12-31 23:59:59.999", ['"9999-12-31T23:59:59.999Z"', '"9999-12-31T23:59:59.999000000Z"'],
         ["9999-12-31T22:59:59.999-01:00"], [(AFTER - 1, ms), (AFTER * 1000 - 1000, us)], [(AFTER - 1, ms)]),
    Case(INSTANT, "0001-01-01 00:00:00", ['"0001-01-01T00:00:00Z"', '"0000-12-31T23:00:00-01:00"'], ["0001-01-01"],
         [(BEFORE + 1, ms), (-719_162, date32)], [(BEFORE + 1, ms)]),
    Case(INSTANT, "2026-01-01 00:00:00", ['"2026-01-01"', '"2026-01-01T00:00Z"'],
         ["2026-01-01", "2026-01-01 01:00 +01:00"],
         [(dt.date(2026, 1, 1), date32), (SECOND * 1000, ms), (SECOND * 10**9, ns), ("2026-01-01", text)],
         [(SECOND * 1000, ms)]),
    Case(INSTANT, REFUSED, [str(SECOND), "1.7e9", "true", '"10:00"', '"2026"', '"infinity"'],
         [str(SECOND), "10:00", "2026", "now"],
         [(SECOND, int64), (float(SECOND), double), (Decimal(SECOND), exact(20, 0)), (True, flag), ("today", text)]),
    Case(DAY, "2026-01-01", ['"2026-01-01"', '"2026-01-01T00:00:00.000Z"'], ["2026-01-01", "2026-1-1"],
         [(dt.date(2026, 1, 1), date32), (SECOND * 1000, ms), (SECOND * 10**6, zoned_us), (SECOND * 10**9, ns),
          ("2026-01-01", text)], [(SECOND * 1000, ms)]),
    Case(DAY, REFUSED, ['"2026-01-01T10:00:00Z"', '"2026-01-01T00:00:00.000000001Z"', "20454", '"2026"', "true"],
         ["2026-01-01 10:00", "20454", "01/02/2026"],
         [(NOON, us), (NOON, zoned_ns), (SECOND * 10**9 + 1, ns), (20454, int32), (True, flag), ("2026", text)],
         [(NOON, us), (SECOND * 10**9 + 1, ns)]),
    Case(DAY, REFUSED, ['"10000-01-01"', '"0000-12-31"', '"+10000-01-01"'], ["10000-01-01", "0000-12-31"],
         [(2_932_897, date32), (-719_163, date32), (AFTER, ms), (2**30, date32)], [(AFTER, ms)]),
    Case(T.ArrayType(BIG), "[1, 100]", ["[1,1e2]", "[1.0,100.0]", '["1","100"]'], ["[1,1e2]"],
         [([1, 100], many(int64)), ([1, 100], many(uint8)), ([1.0, 100.0], many(double)), (["1", "1e2"], many(text))]),
    Case(T.ArrayType(BIG), REFUSED, ["[true]", "[1,1.5]", "[[1]]", "7"], ["[true]", "7"],
         [([True], many(flag)), ([1.5], many(double)), ([2**63], many(uint64)), ([b"1"], many(binary)), (7, int64)]),
    Case(T.ArrayType(TEXT), REFUSED, (), (), [([b"ab"], many(binary))]),
    Case(T.ArrayType(INSTANT), "[2026-01-01 00:00:00.123456, null]", ['["2026-01-01T00:00:00.123456Z",null]'],
         ['["2026-01-01T01:00:00.123456+01:00",null]'],
         [([MICROS, None], many(us)), ([MICROS, None], many(zoned_us)), ([NANOS, None], many(ns))],
         [([MICROS, None], many(us))]),
    Case(T.ArrayType(INSTANT), REFUSED, ['["2026-01-01T00:00:00.1234561Z"]', '["9999-12-31T23:30:00-01:00"]',
         f"[{SECOND}]"],
         ['["2026-01-01T00:00:00.1234561Z"]'],
         [([NANOS + 1], many(ns)), ([AFTER], many(zoned_ms)), ([BEFORE * 1000], many(us)), ([SECOND], many(int64))],
         [([NANOS + 1], many(ns)), ([AFTER], many(ms))]),
    Case(VISIT, "{2026-01-01 00:00:00.123456, 1.10}", ['{"at":"2026-01-01T00:00:00.123456Z","sum":1.1}'],
         ['{"at":"2026-01-01 00:00:00.123456","sum":"1.10"}'],
         [({"at": MICROS, "sum": Decimal("1.10")}, pyarrow.struct([("at", zoned_us), ("sum", exact(10, 2))])),
          ({"at": NANOS, "sum": 1.1}, pyarrow.struct([("at", ns), ("sum", double)]))]),
    Case(VISIT, REFUSED, ['{"at":"2026-01-01T00:00:00.1234561Z"}', '{"sum":1.239}', '{"sum":true}'], ['{"sum":1.239}'],
         [({"at": NANOS + 1, "sum": None}, pyarrow.struct([("at", ns), ("sum", exact(10, 2))])),
          ({"at": AFTER * 1000, "sum": None}, pyarrow.struct([("at", zoned_us), ("sum", exact(10, 2))])),
          ({"at": None, "sum": True}, pyarrow.struct([("at", zoned_us), ("sum", flag)]))]),
    Case(T.MapType(DAY, INSTANT), REFUSED, ['{"2026-01-01":"2026-01-01T00:00:00.1234561Z"}', '{"10000-01-01":null}'],
         (),
         [([(-719_163, None)], pyarrow.map_(date32, zoned_us)), ([(0, AFTER * 1000)], pyarrow.map_(date32, zoned_us))]),
]  # fmt: skip
NAMES = [f"c{number}" for number in range(len(CASES))]


def contract(names: Sequence[str]) -> Contract:
    """Of the cases with these names."""
    model = type(
        "Cases",
        (pa.DataFrameModel,),
        {
            "__annotations__": {name: CASES[NAMES.index(name)].target for name in names},
            **{name: pa.Field(nullable=True) for name in names},
        },
    )
    return compile_contract(model, "cases")


def in_orc(case: Case) -> list[tuple[Any, pyarrow.DataType]]:
    """The forms of Parquet with times or days, which alone are read in another way."""

    def has_time(kind: pyarrow.DataType) -> bool:
        inside = (kind.field(index).type for index in range(kind.num_fields))
        return pyarrow.types.is_timestamp(kind) or kind == date32 or any(map(has_time, inside))

    return [(value, kind) for value, kind in case.parquet if has_time(kind)]


def files(folder: Path) -> dict[str, dict[str, str]]:
    """Writes the files, the first of which have the first form of each value; what each holds, by its name."""
    held: dict[str, dict[str, str]] = {}
    for kind in ("json", "csv", "parquet", "int96", "orc"):
        of = [in_orc(case) if kind == "orc" else getattr(case, kind) for case in CASES]
        for number in range(max(map(len, of))):
            forms = {n: found[number] for n, found in zip(NAMES, of, strict=True) if number < len(found)}
            path = folder / f"{kind}{number}.{'parquet' if kind == 'int96' else kind}"
            held[path.name] = {name: repr(form) for name, form in forms.items()}
            if kind == "json":
                write(path, "{" + ",".join(f"{json.dumps(name)}:{form}" for name, form in forms.items()) + "}\n")
            elif kind == "csv":
                lines = io.StringIO()
                csv.writer(lines).writerows([forms.keys(), forms.values()])
                write(path, lines.getvalue())
            else:
                columns = {name: pyarrow.array([value], of) for name, (value, of) in forms.items()}
                path.parent.mkdir(parents=True, exist_ok=True)
                if kind == "orc":
                    pyarrow.orc.write_table(pyarrow.table(columns), path)
                    continue
                pq.write_table(pyarrow.table(columns), path, use_deprecated_int96_timestamps=kind == "int96")
    return held


def found(frame: DataFrame, of: Contract) -> dict[str, dict[str, str | None]]:
    """The outcomes, by file and column."""
    raw_type = frame.schema["_raw"].dataType
    assert isinstance(raw_type, T.StructType)
    types = {member.name: member.dataType for member in raw_type.fields}

    def given(name: str) -> Column:
        return F.col("_raw").getField(name)

    reasons = F.concat(of.type_reasons(given, types), F.array_compact(F.array("_malformed")))
    shown = [
        F.base64(value) if isinstance(kind, T.BinaryType) else value.cast("string")
        for value, kind in zip(of.typed(given, types), of.types.values(), strict=True)
    ]
    rows = frame.select(F.element_at(F.split("_source.file", "/"), -1), reasons, F.array(*shown)).collect()
    outcomes = {}
    for file, told, values in rows:
        refused = {reason.partition(":")[0] for reason in told}
        outcomes[file] = {n: REFUSED if n in refused else value for n, value in zip(of.names, values, strict=True)}
    return outcomes


def check(spark: SparkSession, held: dict[str, dict[str, str]], patterns: Sequence[str]) -> None:
    outcomes = {}
    for pattern in patterns:
        names = [
            name for name in NAMES if any(fnmatch(file, pattern) and name in forms for file, forms in held.items())
        ]
        of = contract(names)
        source = Files(f"{{landing}}/{{window:%Y-%m-%d}}/{pattern}").for_contract(of)
        position = detected(source, "cases", [day(1)], {}, first=FIRST)[day(1).key]
        outcomes |= found(source.extract(spark, "cases", position, names), of)
    wrong = [
        f"{case.target.simpleString()} from {forms[name]} in {file}: {outcomes[file][name]}, not {case.outcome}"
        for file, forms in held.items()
        for name, case in zip(NAMES, CASES, strict=True)
        if name in forms and outcomes[file][name] != case.outcome
    ]
    assert not wrong, "\n".join(wrong)


def test_a_value_has_one_outcome_in_every_format_and_type(spark: SparkSession, landing: Path) -> None:
    held = files(landing / day(1).key)
    check(spark, held, ["*.json", "*.csv", *(name for name in held if name.endswith((".parquet", ".orc")))])


@pytest.mark.parametrize("numbers", [{0, 1}, {2, 3}])
def test_a_value_has_the_same_outcome_in_a_window_where_types_differ(
    spark: SparkSession, landing: Path, numbers: set[int]
) -> None:
    folder = landing / day(1).key
    held = {name: forms for name, forms in files(folder).items() if int(Path(name).stem[-1]) in numbers}
    for path in folder.iterdir():
        if path.name not in held:
            path.unlink()
    check(spark, held, ["*"])
