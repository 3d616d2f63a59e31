"""Differences between two contracts of a table, on literal contracts."""

from dataclasses import replace

import pyspark.sql.types as T
import pytest

from incload_assets.contract import differences as kinds
from incload_assets.contract.adaptation import ADDED, DROPPED, KEYS, WIDENED, WRITE, Difference, Kind, Stored
from incload_assets.contract.described import ColumnDescription, TableContract
from incload_assets.contract.differences import KINDS, differences, put_together

ID = ColumnDescription("id", T.LongType(), nullable=False)
MAIL = ColumnDescription(
    "mail", T.StringType(), nullable=True, personal=True, checks=("str_contains {'pattern': '@'}",)
)


def contract(*columns: ColumnDescription, **more: object) -> TableContract:
    """The contract of a table by key, loaded by days."""
    fields = [T.StructField(column.name, column.data_type) for column in columns]
    stored = Stored(T.StructType(fields), (), {"incload.keys": "id", "incload.write": "Merge"})
    made = TableContract(columns, stored, keys=("id",), sequence_by=("at",), write="Merge()")
    return replace(made, **more)


USUAL = contract(ID, MAIL)


def test_a_contract_does_not_differ_from_itself() -> None:
    assert differences(USUAL, contract(ID, MAIL)) == []


@pytest.mark.parametrize(
    ("now", "kind", "column", "was_and_now"),
    [
        (contract(ID, replace(MAIL, nullable=False)), kinds.TIGHTENED, "mail", ("NULL allowed", "NOT NULL")),
        (contract(replace(ID, nullable=True), MAIL), kinds.LOOSENED, "id", ("NOT NULL", "NULL allowed")),
        (contract(ID, replace(MAIL, checks=())), kinds.CHECKS, "mail", ("str_contains {'pattern': '@'}", "none")),
        (contract(ID, replace(MAIL, personal=False)), kinds.PERSONAL, "mail", ("personal", "not personal")),
        (contract(ID, MAIL, unique=("mail",)), kinds.UNIQUE, "", ("none", "mail")),
        (contract(ID, MAIL, sequence_by=("at", "id")), kinds.SEQUENCE, "", ("at", "at, id")),
        (contract(ID, MAIL, write="Merge(partial=True)"), kinds.ARGUMENTS, "", ("Merge()", "Merge(partial=True)")),
    ],
)
def test_what_only_a_declaration_has_is_compared(
    now: TableContract, kind: Kind, column: str, was_and_now: tuple[str, str]
) -> None:
    assert differences(USUAL, now) == [Difference(kind, column, *was_and_now)]


def test_the_order_of_checks_of_unique_columns_and_of_columns_is_no_difference() -> None:
    checked = replace(MAIL, checks=("a", "b"))
    was = contract(ID, checked, unique=("id", "mail"))
    assert differences(was, contract(replace(MAIL, checks=("b", "a")), ID, unique=("mail", "id"))) == []


def test_keys_in_another_order_are_told_apart_from_other_keys() -> None:
    both = contract(ID, MAIL, keys=("id", "mail"))
    assert [one.kind for one in differences(both, replace(both, keys=("mail", "id")))] == [kinds.KEY_ORDER]
    other = replace(USUAL.stored, properties={"incload.keys": "id, mail", "incload.write": "Merge"})
    assert [one.kind for one in differences(USUAL, replace(both, stored=other))] == [KEYS]


def test_another_write_strategy_stops_a_load_and_its_arguments_are_not_compared() -> None:
    stored = replace(USUAL.stored, properties={"incload.keys": "id", "incload.write": "History"})
    [one] = differences(USUAL, replace(USUAL, stored=stored, write="History(track=('mail',))"))
    assert (one.kind, one.was, one.now) == (WRITE, "Merge", "History")


def test_the_only_dropped_and_the_only_added_column_of_a_type_may_be_a_renamed_one() -> None:
    now = contract(ID, replace(MAIL, name="email"))
    assert [(one.kind, one.column, one.now) for one in differences(USUAL, now)] == [
        (ADDED, "email", "string"), (DROPPED, "mail", None), (kinds.RENAMED, "mail", "email"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "now",
    [
        contract(ID, replace(MAIL, name="email"), replace(MAIL, name="post")),
        contract(ID, ColumnDescription("mailed", T.BooleanType(), nullable=True)),
    ],
    ids=["two of the type", "another type"],
)
def test_there_is_no_hint_at_a_renamed_column_where_it_would_be_a_guess(now: TableContract) -> None:
    assert kinds.RENAMED not in [one.kind for one in differences(USUAL, now)]


def test_two_dropped_columns_of_the_type_of_an_added_one_are_no_hint_either() -> None:
    was = contract(ID, MAIL, replace(MAIL, name="post"))
    assert kinds.RENAMED not in [one.kind for one in differences(was, contract(ID, replace(MAIL, name="email")))]


def test_a_table_that_is_new_and_one_that_is_gone_are_differences_and_one_that_never_was_is_none() -> None:
    assert [one.kind for one in differences(None, USUAL)] == [kinds.NEW_TABLE]
    assert [one.kind for one in differences(USUAL, None)] == [kinds.NO_TABLE]
    assert differences(None, None) == []


def test_what_stops_a_load_is_told_before_what_does_not() -> None:
    now = contract(replace(ID, data_type=T.DecimalType(20, 0)), MAIL, ColumnDescription("x", T.DateType(), True))
    assert [one.kind for one in differences(USUAL, now)] == [WIDENED, ADDED]


def test_a_difference_of_table_and_log_is_told_once() -> None:
    both, one = Difference(ADDED, "x", None, "int"), Difference(WIDENED, "y", "int", "bigint")
    assert put_together([both], [both, one]) == [(one, "log"), (both, "table and log")]


def test_every_kind_has_a_name_of_its_own_and_says_what_happens() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert [kind.name for kind in KINDS if not kind.then or bool(kind.rule) != (kind.outcome == "stops")] == []
