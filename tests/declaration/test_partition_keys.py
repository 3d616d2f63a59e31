"""Partitions as a person types them."""

from datetime import datetime
from typing import ClassVar

import dagster as dg
import pytest

from incload_assets.declaration.partition_keys import chosen, shown, stretches
from incload_assets.platform.errors import IncrementalLoadError
from tests.support.guest_table import key


class Days:
    """All that is asked of a table here."""

    name = "guests"
    partitions_def = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-08")
    closed: ClassVar[dict[str, object]] = {}

    @classmethod
    def keys_at(cls, at: datetime) -> list[str]:
        return [*cls.partitions_def.get_partition_keys(current_time=at)]


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("2026-01-03", [3]),
        ("2026-01-02..2026-01-04", [2, 3, 4]),
        ("2026-01-06..", [6, 7]),
        ("..2026-01-02", [1, 2]),
        ("2026-01-05, 2026-01-01..2026-01-02,2026-01-02", [1, 2, 5]),
        ("..", [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_keys_and_ranges_name_partitions_oldest_first_and_once(expression: str, days: list[int]) -> None:
    assert chosen(Days, expression) == [key(day) for day in days]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "2026-01-09",
            "guests has no partition '2026-01-09'. Rule: its partitions go from 2026-01-01 to 2026-01-07. "
            "Remedy: name one of these, or a range of them.",
        ),
        (
            "2026-01-04..2026-01-02",
            "guests: the range 2026-01-04..2026-01-02 ends before it begins. "
            "Rule: a range is OLDEST..NEWEST, both included. Remedy: write 2026-01-02..2026-01-04.",
        ),
        (
            " , ",
            "guests: ' , ' names no partition. Rule: partitions are keys or ranges, separated by commas. "
            "Remedy: write for example 2026-01-01..2026-01-07.",
        ),
    ],
)
def test_what_names_no_partition_is_refused_with_what_to_write(expression: str, message: str) -> None:
    with pytest.raises(IncrementalLoadError) as refused:
        chosen(Days, expression)  # type: ignore[arg-type]
    assert str(refused.value) == message


def test_neighbours_are_loaded_together_up_to_so_many() -> None:
    keys = Days.partitions_def.get_partition_keys()
    assert list(stretches([key(day) for day in (1, 2, 3, 5, 6, 7)], keys, 2)) == [
        [key(1), key(2)],
        [key(3)],
        [key(5), key(6)],
        [key(7)],
    ]
    assert list(stretches(keys, keys, 32)) == [keys]
    assert list(stretches([], keys, 32)) == []


def test_neighbours_are_shown_as_ranges() -> None:
    keys = [key(day) for day in range(1, 8)]
    assert shown([key(1), key(2), key(3), key(5), key(7)], keys) == "2026-01-01..2026-01-03, 2026-01-05, 2026-01-07"
