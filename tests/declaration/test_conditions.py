"""Conditions say the same of a change whenever they are asked."""

import pytest

from incload_assets.assets import Changes
from incload_assets.platform.errors import DeclarationError
from tests.support.tables import declared


def declare(condition: str) -> None:
    declared(changes=Changes(keys=["id"], sequence_by=["seq"], delete_when=condition))


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        ("current_date() > day", "current_date"),
        ("day < current_date", "current_date"),
        ("until < CURRENT_TIMESTAMP", "current_timestamp"),
        ("date_trunc('day', now()) > day", "now"),
        ("seq < unix_timestamp()", "current_timestamp"),
        ("day < DATE'today'", "'today'"),
        ("until < CAST('Now' AS timestamp)", "'Now'"),
        ("until < try_cast(' yesterday ' AS date)", "' yesterday '"),
        ("op = 'd' AND rand() < 0.5", "rand"),
        ("random(1) < seq", "rand"),
        ("uuid() = id", "uuid"),
        ("element_at(shuffle(split(op, ',')), 1) = 'd'", "shuffle"),
        ("monotonically_increasing_id() = seq", "monotonically_increasing_id"),
        ("input_file_name() = id", "input_file_name"),
        ("owner <> user()", "user"),
        ("owner <> current_user", "current_user"),
    ],
)
def test_a_condition_on_the_hour_or_chance_of_a_load_is_refused(condition: str, named: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        declare(condition)
    assert str(refused.value).startswith(
        f"items: changes.delete_when is {condition!r}, with {named} in it. Rule: it gives the same result whenever"
    )
    assert refused.value.remedy


@pytest.mark.parametrize(
    "condition",
    [
        "user = 'now'",
        "`current_date` < day",
        "upper(op) IN ('D', 'TODAY')",
        "unix_timestamp(until) < seq",
        "day < DATE'2026-01-01'",
        "CAST(now AS date) < day",
        "op = CAST('now' AS string)",
    ],
)
def test_a_condition_on_what_a_change_brings_is_accepted_whatever_its_columns_are_called(condition: str) -> None:
    declare(condition)
