"""Values and conditions of cases: what Python decides is what Spark makes of the same."""

import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.contract.conversion import convert
from incload_assets.trial.conditions import holds
from incload_assets.trial.values import NeedsSpark, shown, value_of

TEXTS = [
    "", " ", "1", "+1", "-1", "007", "127", "128", "-129", "32768", "2147483648", "9223372036854775808", "1.0", "1.50",
    "1.234", "99999.99", "123456789.12", "1e2", "abc", "nan", "inf", "Infinity", "true", "TRUE", "yes", "no", "t", "0",
    "2", "2026-01-05", "2026-02-30", "0000-01-01", "2026-1-5", "2026-01-05T09:00:00Z", "2026-01-05 09:00",
    "2026-01-05T09:00", "2026-01-05T09:00Z", "2026-01-05T09:00:00.123456+02:00", "2026-01-05T09:00:00.1",
    "2026-01-05T24:00:00Z", "2026-01-05T09:61:00Z", "0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59Z", "x y", "1,000",
    "-0", "-0.0", "+", ".5", "5.", "0.1", "123456789012345", "1d", "1f", "one-two", "epoch", "now", "today", "null",
]  # fmt: skip
KINDS = [
    T.StringType(), T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType(), T.DecimalType(5, 2),
    T.DecimalType(12, 2), T.DoubleType(), T.BooleanType(), T.DateType(), T.TimestampType(),
]  # fmt: skip
TYPES: dict[str, T.DataType] = {"n": T.LongType(), "gone": T.BooleanType()}
CONDITIONS = [
    "op = 'd'", "op != 'd'", "NOT op = 'd'", "op IN ('d', 'x')", "op NOT IN ('d')", "op IS NULL", "op IS NOT NULL",
    "gone", "NOT gone", "gone = true OR op = 'd'", "gone AND op = 'd'", "n > 1", "n <= 1.5", "(n = 2) AND op = 'd'",
    "n IN (1, 2)", "op > 'c'", "op IS NULL AND n > 1",
]  # fmt: skip


def test_what_python_decides_of_texts_and_conditions_is_what_spark_decides(spark: SparkSession) -> None:
    frame = spark.createDataFrame(list(enumerate(TEXTS)), "i int, t string")
    made = [convert(F.col("t"), T.StringType(), kind).cast("string").alias(f"k{n}") for n, kind in enumerate(KINDS)]
    decided = 0
    for row in frame.select("t", *made).collect():
        for number, kind in enumerate(KINDS):
            try:
                value = value_of(row["t"], kind)
            except NeedsSpark:
                continue
            decided, by_spark = decided + 1, row[f"k{number}"]
            if isinstance(kind, T.DoubleType):
                assert value == (by_spark and float(by_spark)), (row["t"], kind)
            else:
                assert (None if value is None else shown(value, kind)) == by_spark, (row["t"], kind)
    assert decided > 250

    rows = [(op, n, gone) for op in ("d", "u", None) for n in (1, 2, None) for gone in (True, False, None)]
    conditions = [F.coalesce(F.expr(c), F.lit(False)).alias(f"c{n}") for n, c in enumerate(CONDITIONS)]
    for row in spark.createDataFrame(rows, "op string, n bigint, gone boolean").select("*", *conditions).collect():
        given = {name: row[name] for name in ("op", "n", "gone")}
        for number, condition in enumerate(CONDITIONS):
            assert holds(condition, given, TYPES) == row[f"c{number}"], (condition, given)


@pytest.mark.parametrize("condition", ["op LIKE 'd%'", "upper(op) = 'D'", "n = '1'", "op = 1", "n = -1", "n = op"])
def test_other_conditions_are_left_to_spark(condition: str) -> None:
    with pytest.raises(NeedsSpark, match="only Spark evaluates"):
        holds(condition, {"op": "d", "n": 1, "gone": None}, TYPES)
