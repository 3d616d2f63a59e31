"""Differences between what a Delta table has and what is declared, on literal schemas."""

import pyspark.sql.types as T
import pytest

from incload_assets.contract import adaptation as kinds
from incload_assets.contract.adaptation import (
    STORED_KINDS,
    Adaptation,
    Difference,
    Kind,
    Stored,
    stored_differences,
    widened_columns,
)

INT, LONG, TEXT = T.IntegerType(), T.LongType(), T.StringType()


def struct(**members: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in members.items()])


def found(has: T.StructType, declared: T.StructType, **options: bool) -> list[tuple[str, str, str | None, str | None]]:
    listed = stored_differences(Stored(has), Stored(declared), **options)
    return [(one.kind.name, one.column, one.was, one.now) for one in listed]


@pytest.mark.parametrize(
    ("has", "declared", "expected"),
    [
        (struct(a=INT), struct(a=INT), []),
        (struct(a=INT), struct(a=INT, b=TEXT), [("column added", "b", None, "string")]),
        (struct(a=INT, b=TEXT), struct(a=INT), [("column dropped", "b", "string", None)]),
        (struct(a=INT, b=TEXT), struct(b=TEXT, a=INT), []),
        (struct(a=INT), struct(A=INT), [("spelling changed by case", "a", "a", "A")]),
        (struct(s=struct(a=INT)), struct(s=struct(a=INT, b=INT)), [("member of a struct added", "s.b", None, "int")]),
        (struct(s=struct(a=INT)), struct(s=struct(b=INT)), [
            ("member of a struct dropped", "s.a", "int", None), ("member of a struct added", "s.b", None, "int"),
        ]),
        (struct(s=struct(a=INT)), struct(s=struct(A=INT)), [("spelling changed by case", "s.a", "a", "A")]),
        (struct(s=struct(a=INT)), struct(s=struct(a=LONG)), [("type widened", "s.a", "int", "bigint")]),
        (struct(s=struct(a=INT, b=INT)), struct(s=struct(b=INT, a=INT)), [
            ("members of a struct reordered", "s", "a, b", "b, a"),
        ]),
        (struct(s=struct(b=INT)), struct(s=struct(a=INT, b=INT)), [("member of a struct added", "s.a", None, "int")]),
        (struct(s=struct(a=INT)), struct(s=TEXT), [("type changed", "s", "struct<a:int>", "string")]),
        (struct(s=T.ArrayType(struct(a=INT))), struct(s=T.ArrayType(struct(a=INT, b=INT))), [
            ("members changed within an array or a map", "s", "array<struct<a:int>>", "array<struct<a:int,b:int>>"),
        ]),
        (struct(s=T.MapType(TEXT, struct(a=INT))), struct(s=T.MapType(TEXT, struct(a=LONG))), [
            ("type widened", "s", "map<string,struct<a:int>>", "map<string,struct<a:bigint>>"),
        ]),
    ],
)  # fmt: skip
def test_columns_and_members_are_compared_by_their_names(
    has: T.StructType, declared: T.StructType, expected: list[tuple[str, str, str | None, str | None]]
) -> None:
    assert found(has, declared) == expected


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (T.ByteType(), T.ShortType()),
        (INT, LONG),
        (INT, T.DoubleType()),
        (T.FloatType(), T.DoubleType()),
        (LONG, T.DecimalType(19, 0)),
        (T.DecimalType(10, 2), T.DecimalType(12, 3)),
        (T.ArrayType(INT), T.ArrayType(LONG)),
    ],
)
def test_a_type_that_holds_every_value_of_another_is_wider(narrow: T.DataType, wide: T.DataType) -> None:
    [(forth, *_)], [(back, *_)] = found(struct(a=narrow), struct(a=wide)), found(struct(a=wide), struct(a=narrow))
    assert (forth, back) == ("type widened", "type narrowed")


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (LONG, T.DoubleType()),
        (LONG, T.DecimalType(20, 2)),
        (T.DecimalType(10, 2), T.DecimalType(10, 3)),
        (T.DateType(), T.TimestampType()),
        (INT, TEXT),
        (T.BooleanType(), INT),
    ],
)
def test_a_type_that_would_round_or_read_values_otherwise_is_another_type(was: T.DataType, now: T.DataType) -> None:
    assert [name for name, *_ in found(struct(a=was), struct(a=now))] == ["type changed"]


def test_a_column_is_added_in_another_manner_where_changes_may_leave_it_unset_and_members_are_not() -> None:
    has, declared = struct(s=struct(a=INT)), struct(s=struct(a=INT, b=INT), c=INT)
    assert [name for name, *_ in found(has, declared, unset=True)] == [
        "member of a struct added", "column added to partial changes",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("has", "declared", "stops"),
    [
        ("4 then 8", "8", False),
        ("4 then 8", "4", True),
        ("8", None, True),
        ("8 then none", None, False),
        ("none then 8", None, True),
        ("none", None, False),
    ],
)
def test_of_the_numbers_of_buckets_of_a_log_the_last_one_counts(has: str, declared: str | None, stops: bool) -> None:
    properties = {} if declared is None else {kinds.BUCKETS_PROPERTY: declared}
    stored = Stored(struct(a=INT), (), {kinds.BUCKETS_PROPERTY: has})
    found = stored_differences(stored, Stored(struct(a=INT), (), properties))
    assert [one.kind for one in found] == [kinds.BUCKETS] * stops


def test_a_log_gets_what_a_newer_version_records_even_where_no_load_adds_a_column() -> None:
    has = struct(_control=struct(a=INT), s=struct(a=INT))
    declared = struct(_control=struct(a=INT, b=INT), s=struct(a=INT, b=INT))
    found = stored_differences(Stored(has), Stored(declared), adaptation=Adaptation(add=False))
    assert {one.column: one.kind for one in found} == {"_control.b": kinds.MEMBER_ADDED, "s.b": kinds.ADDED_NOT}


def test_a_column_less_stops_a_load_only_where_the_whole_content_identifies_a_row() -> None:
    for whole, outcome in ((True, "stops"), (False, "ignored")):
        [one] = stored_differences(Stored(struct(a=INT, b=INT)), Stored(struct(a=INT)), whole=whole)
        assert (one.column, one.kind.outcome) == ("b", outcome)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("incload.keys", kinds.KEYS),
        ("incload.write", kinds.WRITE),
        ("incload.buckets", kinds.BUCKETS),
        ("incload.bucket_keys", kinds.BUCKET_KEYS),
        ("incload.versions", kinds.VERSIONS),
        ("incload.windows", kinds.WINDOWS),
        ("delta.checkpointInterval", kinds.SETTING),
    ],
)
def test_a_property_with_another_value_is_of_a_kind_of_its_own_and_one_that_is_missing_is_set(
    name: str, kind: Kind
) -> None:
    declared = Stored(struct(a=INT), (), {name: "new"})
    assert list(stored_differences(Stored(struct(a=INT), (), {name: "old"}), declared)) == [
        Difference(kind, name, "old", "new")
    ]
    assert list(stored_differences(Stored(struct(a=INT), (), {"other": "x"}), declared)) == [
        Difference(kinds.SETTING, name, None, "new")
    ]


def test_what_stops_a_load_is_first_and_says_what_to_write_instead() -> None:
    has, declared = Stored(struct(a=INT, b=INT)), Stored(struct(A=INT, c=INT), ("c",))
    first, second, *others = stored_differences(has, declared)
    assert (first.kind, first.was, first.now) == (kinds.PARTITIONING, "[]", "['c']")
    assert (second.kind, second.remedy("items")) == (kinds.SPELLING, "declare it as 'a'")
    assert [one.stops for one in others] == [False, False]


def test_every_kind_that_stops_has_a_rule_and_a_remedy_and_no_other_has_a_rule() -> None:
    assert [kind.name for kind in STORED_KINDS if bool(kind.rule) != (kind.outcome == "stops")] == []
    assert all(kind.remedy for kind in STORED_KINDS if kind.outcome == "stops")
    assert len({kind.name for kind in STORED_KINDS}) == len(STORED_KINDS)


def test_what_a_declaration_allows_decides_about_additions_and_wider_types() -> None:
    pairs: dict[str, tuple[T.DataType, T.DataType]] = {
        "n": (T.IntegerType(), T.LongType()),
        "whole": (T.LongType(), T.DecimalType(19, 0)),
        "more": (T.DecimalType(12, 2), T.DecimalType(14, 2)),
        "many": (T.ArrayType(T.ShortType()), T.ArrayType(T.IntegerType())),
        "scale": (T.DecimalType(12, 2), T.DecimalType(14, 3)),
        "cents": (T.IntegerType(), T.DecimalType(14, 2)),
        "ratio": (T.FloatType(), T.DoubleType()),
        "count": (T.IntegerType(), T.DoubleType()),
        "place": (T.IntegerType(), T.LongType()),
        "less": (T.LongType(), T.IntegerType()),
    }
    was, now = (T.StructType([T.StructField(name, pair[i]) for name, pair in pairs.items()]) for i in (0, 1))
    now.add("extra", T.StringType())
    allowed = Adaptation(add=False, widen=True, places=frozenset({"place"}))
    found = {one.column: one.kind for one in stored_differences(Stored(was), Stored(now), adaptation=allowed)}
    wider = dict.fromkeys(("n", "whole", "more", "many"), kinds.WIDENED_BY_LOAD)
    other = dict.fromkeys(("scale", "cents", "ratio", "count"), kinds.WIDENED_TEXT)
    assert found == wider | other | {"place": kinds.WIDENED_PLACE, "less": kinds.NARROWED, "extra": kinds.ADDED_NOT}
    assert widened_columns(was, now, allowed).keys() == wider.keys()
    assert widened_columns(was, now, Adaptation()) == {}


def test_members_are_widened_where_they_are_whatever_else_changes_beside_them() -> None:
    was = struct(part=struct(a=INT, b=TEXT, c=INT), **{"odd.part": struct(a=INT)})
    now = struct(part=struct(d=TEXT, c=LONG, b=TEXT, a=INT), **{"odd.part": struct(a=LONG)})
    allowed = Adaptation(widen=True)
    found = {one.column: one.kind for one in stored_differences(Stored(was), Stored(now), adaptation=allowed)}
    wider = dict.fromkeys(("part.c", "odd.part.a"), kinds.WIDENED_BY_LOAD)
    assert found == wider | {"part.d": kinds.MEMBER_ADDED, "part": kinds.MEMBER_ORDER}
    assert widened_columns(was, now, allowed) == {
        "part": struct(a=INT, b=TEXT, c=LONG),
        "odd.part": struct(a=LONG),
    }


def test_windows_of_another_definition_stop_a_load_unless_the_former_one_is_declared() -> None:
    def kind(was: str, now: str) -> str:
        has, declared = (Stored(T.StructType(), (), {"incload.windows": text}) for text in (was, now))
        [found] = stored_differences(has, declared)
        return found.kind.name

    assert kind("days", "days until noon; hours") == "windows changed, with former_partitions"
    assert (
        kind("days until noon; hours", "days until noon; hours until one; days")
        == "windows changed, with former_partitions"
    )
    for was, now in (
        ("days", "hours"),
        ("days until noon; hours", "days"),
        ("days until noon; hours", "days until one; hours"),
    ):
        assert kind(was, now) == "windows changed"
