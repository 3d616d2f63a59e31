"""Which tests a run of all tests takes."""

from dataclasses import dataclass, field

import pytest

from tests.support import sampling
from tests.support.sampling import PARTS, drawn, parts


@dataclass
class Named:
    """A collected test."""

    nodeid: str
    fixturenames: list[str] = field(default_factory=lambda: ["spark"])
    marks: list[str] = field(default_factory=list)

    def get_closest_marker(self, name: str) -> object:
        return name if name in self.marks else None


LOADS = [Named(f"a.py::test_{n}") for n in range(7)]
ALONE = [Named("b.py::test_alone")]
PURE = [Named("a.py::test_pure", []), Named("a.py::test_reads", marks=["reads"])]
SLOW = [
    Named("c.py::test_reads_much", marks=["reads", "slow"]),
    Named("c.py::test_reads_more", marks=["reads", "slow"]),
]


def test_what_loads_nothing_is_taken_and_of_the_rest_a_part_of_each_file() -> None:
    taken = drawn([*LOADS, *ALONE, *PURE, *SLOW], "1", 3)
    assert {"a.py::test_pure", "a.py::test_reads", "b.py::test_alone"} < taken
    assert len(taken) == 3 + 3 + 1


def test_a_seed_draws_the_same_again_and_others_draw_the_rest() -> None:
    assert drawn(LOADS, "1", 3) == drawn(LOADS[::-1], "1", 3)
    assert set().union(*(drawn(LOADS, str(seed), 3) for seed in range(20))) == {test.nodeid for test in LOADS}


@pytest.mark.parametrize(
    ("chosen", "night", "environment", "expected"),
    [
        (False, False, {}, PARTS),
        (True, False, {}, 1),
        (False, True, {}, 1),
        (False, False, {"INCLOAD_TEST_PART": "1"}, 1),
        (True, True, {"INCLOAD_TEST_PART": "5"}, 5),
    ],
)
def test_what_is_asked_for_and_every_test_of_a_night_is_taken(
    monkeypatch: pytest.MonkeyPatch, chosen: bool, night: bool, environment: dict[str, str], expected: int
) -> None:
    monkeypatch.delenv("INCLOAD_TEST_PART", raising=False)
    monkeypatch.setattr(sampling, "NIGHT", night)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert parts(chosen=chosen) == expected
