"""Each built-in check means in Spark what it means in Python."""

import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyspark.sql.types as T
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.contract.checks import compile_check
from incload_assets.contract.literals import Uncompilable
from incload_assets.contract.patterns import java_pattern

pytestmark = pytest.mark.reads

LONG, DOUBLE, TEXT = T.LongType(), T.DoubleType(), T.StringType()
Meaning = Callable[[Any, dict[str, Any]], bool]

MEANING: dict[str, Meaning] = {
    "equal_to": lambda v, s: v == s["value"],
    "not_equal_to": lambda v, s: v != s["value"],
    "greater_than": lambda v, s: v > s["min_value"],
    "greater_than_or_equal_to": lambda v, s: v >= s["min_value"],
    "less_than": lambda v, s: v < s["max_value"],
    "less_than_or_equal_to": lambda v, s: v <= s["max_value"],
    "in_range": lambda v, s: (
        (v >= s["min_value"] if s["include_min"] else v > s["min_value"])
        and (v <= s["max_value"] if s["include_max"] else v < s["max_value"])
    ),
    "isin": lambda v, s: v in s["allowed_values"],
    "notin": lambda v, s: v not in s["forbidden_values"],
    "str_matches": lambda v, s: re.match(s["pattern"], v) is not None,
    "str_contains": lambda v, s: re.search(s["pattern"], v) is not None,
    "str_startswith": lambda v, s: v.startswith(s["string"]),
    "str_endswith": lambda v, s: v.endswith(s["string"]),
    "str_length": lambda v, s: (
        (s["min_value"] or 0) <= len(v) <= (math.inf if s["max_value"] is None else s["max_value"])
    ),
}
ORDERED = [name for name in MEANING if not name.startswith("str_")]

long = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])
double = st.floats(width=64) | st.sampled_from([0.0, -0.0, 1.0, math.nan, math.inf, -math.inf])
decimal = st.decimals(Decimal("-99.99"), Decimal("99.99"), places=2)
day = st.dates(dt.date(2025, 12, 30), dt.date(2026, 1, 3))
instant = st.datetimes(dt.datetime(2025, 12, 31, 23, 59, 59, 999_990), dt.datetime(2026, 1, 1, 0, 0, 0, 10))
text = st.text(st.sampled_from("ab1 .\n-_é🙂AB٣"), max_size=4)
KINDS: dict[str, tuple[T.DataType, st.SearchStrategy[Any]]] = {
    "bigint": (LONG, long),
    "double": (DOUBLE, double),
    "decimal": (T.DecimalType(4, 2), decimal),
    "decimal of 38 digits": (T.DecimalType(38, 18), decimal),
    "date": (T.DateType(), day),
    "timestamp": (T.TimestampType(), instant),
}
PATTERNS = [
    "a", "a|b", "^a", "a$", r"a\Z", r"\d+", r"\w+$", r"\W", "[ab]+1", "[^a]", "(?i)A", ".*b", "(?s).*b",
    "a{,2}b", "a{1,2}$", "(?P<x>a)(?P=x)", "[[]", "[]a]", "a&&b", "[a&&b]", r"\.", r"[\w-]+", r"^(?:a|b)$", "{", "a{x}",
    r"\b1",
    "a(?=b)", "(?<!a)b", "é", r"^[^@\s]+-[^@\s]+$", "[ab-]", r"[\]]", "🙂", r"\D",
]  # fmt: skip


def statistics(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    known = values.filter(lambda value: value == value)
    if name in ("equal_to", "not_equal_to"):
        return st.fixed_dictionaries({"value": known})
    if name.startswith("greater"):
        return st.fixed_dictionaries({"min_value": known})
    if name.startswith("less"):
        return st.fixed_dictionaries({"max_value": known})
    if name == "in_range":
        return st.tuples(known, known, st.booleans(), st.booleans()).map(
            lambda t: {
                "min_value": min(t[:2]),
                "max_value": max(t[:2]),
                "include_min": t[2],
                "include_max": t[3],
            }
        )
    key = {"isin": "allowed_values", "notin": "forbidden_values"}[name]
    return st.fixed_dictionaries({key: st.lists(known, min_size=1, max_size=15)})


def disagreements(
    spark: SparkSession, data_type: T.DataType, values: list[Any], checks: list[tuple[str, dict[str, Any]]]
) -> list[tuple[str, dict[str, Any], Any, bool]]:
    """Where Spark, or the check that is made in Python, differs from the meaning; all of them in one query."""
    frame = spark.createDataFrame(
        [(i, v) for i, v in enumerate(values)], T.StructType([T.StructField("i", LONG), T.StructField("v", data_type)])
    )
    rules = [compile_check(name, stats, data_type) for name, stats in checks]
    compiled = [rule.holds(F.col("v")).alias(f"c{n}") for n, rule in enumerate(rules)]
    rows = {row[0]: row[1:] for row in frame.select("i", *compiled).collect()}
    return [
        (name, stats, value, spark_says)
        for i, value in enumerate(values)
        for (name, stats), rule, spark_says in zip(checks, rules, rows[i], strict=True)
        for python_says in [None if value is None else rule.passes(_aware(value))]
        for meant in [None if value is None else MEANING[name](value, stats)]
        if spark_says is not meant or python_says is not meant
    ]


def _aware(value: Any) -> Any:
    return value.replace(tzinfo=dt.UTC) if isinstance(value, dt.datetime) and value.tzinfo is None else value


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_comparisons_ranges_and_sets_mean_what_they_mean_in_python(
    spark: SparkSession, kind: str, data: st.DataObject
) -> None:
    data_type, values = KINDS[kind]
    sample = data.draw(st.lists(values | st.none(), min_size=30, max_size=40))
    checks = [(name, data.draw(statistics(name, values))) for name in ORDERED for _ in range(3)]
    # bounds that occur among the values are where comparisons go wrong
    sample += [value for _, stats in checks for value in stats.values() if not isinstance(value, bool | list)]
    assert disagreements(spark, data_type, sample, checks) == []


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
@settings(max_examples=3, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_text_checks_mean_what_they_mean_in_python(spark: SparkSession, data: st.DataObject) -> None:
    sample = [
        *data.draw(st.lists(text | st.none(), min_size=60, max_size=60)),
        "",
        "a",
        "a\n",
        "aa",
        "[",
        "a&&b",
        "{",
        "]",
        "a{x}",
    ]
    checks: list[tuple[str, dict[str, Any]]] = [
        (name, {"pattern": pattern}) for pattern in PATTERNS for name in ("str_matches", "str_contains")
    ]
    checks += [(name, {"string": data.draw(text)}) for name in ("str_startswith", "str_endswith") for _ in range(5)]
    checks += [
        ("equal_to", {"value": data.draw(text)}),
        ("isin", {"allowed_values": data.draw(st.lists(text, min_size=1))}),
    ]
    for low, high in [(0, 0), (1, 3), (None, 2), (2, None)]:
        checks.append(("str_length", {"min_value": low, "max_value": high}))
    assert disagreements(spark, TEXT, sample, checks) == []


def test_a_number_that_is_none_satisfies_no_bound(spark: SparkSession) -> None:
    bounds = {"min_value": -math.inf, "max_value": math.inf, "include_min": True, "include_max": True}
    checks = [
        (name, bounds) for name in ("in_range", "greater_than", "greater_than_or_equal_to", "less_than_or_equal_to")
    ]
    assert disagreements(spark, DOUBLE, [math.nan], checks) == []
    rule = compile_check("in_range", bounds, DOUBLE)
    assert spark.range(1).select(rule.holds(F.lit(math.nan))).first() == (False,)


def test_a_bound_of_a_float_column_is_the_nearest_float(spark: SparkSession) -> None:
    rule = compile_check("less_than_or_equal_to", {"max_value": 0.1}, T.FloatType())
    frame = spark.createDataFrame([(0.1,), (0.11,)], "v float")
    assert [row[0] for row in frame.select(rule.holds(F.col("v"))).collect()] == [True, False]


def test_an_instant_without_zone_in_a_check_is_utc(spark: SparkSession) -> None:
    bound = dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    frame = spark.createDataFrame(
        [(dt.datetime(2025, 12, 31, 22),), (dt.datetime(2025, 12, 31, 21, 59),)], "v timestamp"
    )
    for value in (bound, dt.datetime(2025, 12, 31, 22)):
        rule = compile_check("greater_than_or_equal_to", {"min_value": value}, T.TimestampType())
        assert [row[0] for row in frame.select(rule.holds(F.col("v"))).collect()] == [True, False]


def test_boolean_and_binary_columns_can_be_compared_for_equality(spark: SparkSession) -> None:
    yes = compile_check("equal_to", {"value": True}, T.BooleanType())
    assert [
        r[0] for r in spark.createDataFrame([(True,), (False,)], "v boolean").select(yes.holds(F.col("v"))).collect()
    ] == [True, False]
    magic = compile_check("isin", {"allowed_values": [b"\x00"]}, T.BinaryType())
    assert [
        r[0] for r in spark.createDataFrame([(b"\x00",), (b"",)], "v binary").select(magic.holds(F.col("v"))).collect()
    ] == [True, False]


@pytest.mark.parametrize(
    ("name", "stats", "data_type", "broken"),
    [
        ("in_range", {"min_value": 1, "max_value": 5, "include_max": False}, LONG, "not in range [1, 5)"),
        ("isin", {"allowed_values": list(range(12))}, LONG, "not in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... 12 values]"),
        ("notin", {"forbidden_values": {"b", "a"}}, TEXT, "in the excluded [a, b]"),
        ("not_equal_to", {"value": 0}, LONG, "is the excluded 0"),
        ("str_length", {"min_value": 2, "max_value": None}, TEXT, "has a length not in 2.. characters"),
        ("str_length", {"exact_value": 3}, TEXT, "has a length not in 3 characters"),
        ("str_matches", {"pattern": re.compile("a.b", re.DOTALL)}, TEXT, "does not match a.b"),
    ],
)
def test_a_broken_rule_is_described(name: str, stats: dict[str, Any], data_type: T.DataType, broken: str) -> None:
    assert compile_check(name, stats, data_type).broken == broken


@pytest.mark.parametrize(
    ("name", "stats", "data_type", "why"),
    [
        ("no_such_check", {}, LONG, "cannot be compiled to a column expression"),
        ("in_range", {"min_value": 5, "max_value": 1}, LONG, "its range from 5 to 1 is empty"),
        ("str_length", {}, TEXT, "it has no length"),
        ("str_matches", {"pattern": "("}, TEXT, "is not a regular expression"),
        ("str_matches", {"pattern": "(?a)x"}, TEXT, "'(?a)'"),
        ("str_matches", {"pattern": re.compile("x", re.VERBOSE)}, TEXT, "verbose"),
        ("equal_to", {"value": dt.datetime(2026, 1, 1)}, T.DateType(), "is not a value of date"),
        ("equal_to", {"value": True}, LONG, "is not a value of bigint"),
        ("equal_to", {"value": 1}, T.ArrayType(LONG), "does not apply to array<bigint>"),
    ],
)
def test_what_has_no_faithful_expression_is_refused(
    name: str, stats: dict[str, Any], data_type: T.DataType, why: str
) -> None:
    with pytest.raises(Uncompilable) as refused:
        compile_check(name, stats, data_type)
    assert why in refused.value.why
    assert refused.value.instead


def test_python_groups_are_written_for_java() -> None:
    assert java_pattern(r"(?P<code>[A-Z]+)-\Z", anchored=True) == r"(?dU)\A(?:(?<code>[A-Z]+)-\z)"
    assert java_pattern("[[a&]{,3}", re.ASCII | re.IGNORECASE, anchored=False) == r"(?di)(?:[\[a\&]{0,3})"
