"""The lines of ``incload contract diff``, and its exit code, on literal differences."""

import pytest

from incload_assets.cli.support.contract_view import Line, exit_code, worded
from incload_assets.contract.adaptation import ADDED, KEYS, SPELLING, Difference
from incload_assets.contract.differences import SEQUENCE

STOPS = Line("orders", Difference(SPELLING, "id", "id", "ID"), "table and log")
GOES_ON = Line("orders", Difference(ADDED, "note", None, "string"))
VALIDATED = Line("items", Difference(SEQUENCE, "", "at", "at, id"))


@pytest.mark.parametrize(
    ("lines", "code"), [([], 0), ([GOES_ON], 2), ([VALIDATED], 2), ([GOES_ON, STOPS], 1), ([STOPS], 1)]
)
def test_the_exit_code_is_one_only_if_something_stops_loads(lines: list[Line], code: int) -> None:
    assert exit_code(lines) == code


def test_a_line_has_table_column_was_and_now_and_the_rule_and_remedy_of_what_stops() -> None:
    stops, validated, goes_on, count = worded([VALIDATED, GOES_ON, STOPS], 2)
    assert stops == (
        "[red]stops[/]  orders.id (table and log): spelling changed by case, was id, now ID. "
        "Rule: Delta does not distinguish names that differ only by case, so no column can be renamed this way. "
        "Remedy: declare it as 'id'."
    )
    assert validated.startswith("[yellow]validated from now on[/]  items: sequence changed, was at, now at, id. ")
    assert validated.endswith("incload load items --partitions FIRST..LAST.")
    assert goes_on.startswith("[green]applied[/]  orders.note: column added, now string. A commit of its own")
    assert count == "2 tables, 3 differences; 1 stops loads"


def test_brackets_of_values_are_no_markup() -> None:
    [line, _] = worded([Line("orders", Difference(KEYS, "", "[red]", "x"))], 1)
    assert r"was \[red], now x" in line


def test_a_line_for_programs_has_the_remedy_for_its_table() -> None:
    plain = VALIDATED.as_plain()
    assert (plain["outcome"], plain["was"], plain["now"]) == ("validated from now on", "at", "at, id")
    assert plain["rule"] == ""
    assert plain["remedy"].endswith("incload load items --partitions FIRST..LAST")
