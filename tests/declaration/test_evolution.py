"""The names that an evolution ignores: patterns as in fnmatch, checked when the module is imported."""

from fnmatch import fnmatchcase
from typing import Any

import pyspark.sql.types as T
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Evolution
from incload_assets.assets.incremental import table_of
from incload_assets.platform.errors import DeclarationError
from tests.support.tables import Item, declared

LETTERS = st.text("ab*?[]!-.\\^&\n_", max_size=6)


class Nested(Item):
    """An item with a struct."""

    part: T.StructType([T.StructField("a", T.StringType())])  # type: ignore[valid-type]


@given(LETTERS, LETTERS)
def test_a_pattern_matches_what_fnmatch_matches(pattern: str, name: str) -> None:
    if pattern and "[" not in pattern:
        assert Evolution(ignore=[pattern]).ignores(name) == fnmatchcase(name, pattern)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("utm_*", ["utm_", "utm_a\nb"], ["UTM_a", "my_utm_a"]),
        ("v[12]", ["v1", "v2"], ["v3", "v", "v[12]"]),
        ("v[!12]", ["v3", "v^"], ["v1"]),
        ("v[0-9]?", ["v1x"], ["v1", "vax"]),
        ("a.b", ["a.b"], ["axb", "a.b\n"]),
        ("a[", ["a["], ["a"]),
        ("a[]]", ["a]"], ["a"]),
    ],
)
def test_java_reads_a_pattern_as_python_does(
    spark: SparkSession, pattern: str, matching: list[str], others: list[str]
) -> None:
    evolution = Evolution(ignore=["nothing", pattern])
    rows = spark.createDataFrame([(name,) for name in [*matching, *others]], "name string")
    found = rows.select("name", F.col("name").rlike(evolution.ignored).alias("is_ignored")).collect()
    assert {row["name"]: row["is_ignored"] for row in found} == {
        **dict.fromkeys(matching, True), **dict.fromkeys(others, False)
    }  # fmt: skip
    for name in [*matching, *others]:
        assert evolution.ignores(name) == fnmatchcase(name, pattern) == (name in matching)


@pytest.mark.parametrize(
    ("declared_as", "setting", "add", "widen"),
    [
        (Evolution(), None, "apply", "stop"),
        (Evolution(), "stop", "stop", "stop"),
        (Evolution(ignore=["utm_*"], unknown="stop"), "apply", "apply", "apply"),
        (Evolution(widen="apply"), "stop", "apply", "apply"),
        (Evolution(add="stop"), "apply", "stop", "stop"),
        (Evolution(add="apply", widen="stop"), "stop", "apply", "stop"),
    ],
)
def test_the_setting_decides_only_for_tables_that_declare_neither(
    declared_as: Evolution, setting: str | None, add: str, widen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if setting is not None:
        monkeypatch.setenv("INCLOAD_EVOLUTION", setting)
    table = table_of(declared(evolution=declared_as))
    assert table is not None
    assert (table.evolution.add, table.evolution.widen) == (add, widen)
    assert (table.evolution.unknown, table.evolution.ignore) == (declared_as.unknown, declared_as.ignore)
    monkeypatch.delenv("INCLOAD_EVOLUTION", raising=False)
    other = table_of(declared(evolution=declared_as))
    assert other is not None and other.code_version == table.code_version


def test_another_value_of_the_setting_fails_when_the_code_location_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_EVOLUTION", "maybe")
    with pytest.raises(ValidationError, match=r"INCLOAD_EVOLUTION is 'apply' .* or 'stop' \(they fail instead\)"):
        declared()
    monkeypatch.setenv("INCLOAD_EVOLUTION", "")
    declared()


def test_one_name_is_no_list_of_letters_and_nothing_is_ignored_by_default() -> None:
    assert Evolution(ignore="utm_*").ignore == ("utm_*",)
    assert not Evolution().ignores("")


@pytest.mark.parametrize(
    ("ignore", "message"),
    [
        ([""], r"items: evolution\.ignore has ''\. Rule: it has names of the source's fields.*Remedy: write ignore="),
        (["v[z-a]"], r"items: evolution\.ignore has 'v\[z-a\]'\. Rule: it has names of the source's fields"),
        (["value"], r"items: evolution\.ignore has 'value', a column of Nested\. Rule: fields outside .* remove"),
        ([7], r"items: evolution\.ignore is \(7,\)\. Rule: it is an ordered list of strings\. Remedy: write ignore="),
        ({"a": 1}, r"items: evolution\.ignore is {'a': 1}\. Rule: it is an ordered list of strings"),
    ],
)
def test_what_cannot_be_ignored_is_refused_when_the_module_is_imported(ignore: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        declared(contract=Nested, evolution=Evolution(ignore=ignore))


def test_members_that_a_struct_does_not_declare_can_be_ignored() -> None:
    declared(contract=Nested, evolution=Evolution(ignore=["part"]))
