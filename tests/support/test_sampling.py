"""Which tests a run of all tests takes."""

from dataclasses import dataclass, field

import pytest

from tests.support.sampling import PARTS, drawn, parts


@dataclass
class Named:
    """A collected test."""

    nodeid: str
    fixturenames: list[str] = field(default_factory=lambda: ["spark"])


LOADS = [Named(f"a.py::test_{n}") for n in range(7)]
ALONE = [Named("b.py::test_alone")]
PURE = [Named("a.py::test_pure", [])]


def test_what_loads_nothing_is_taken_and_of_the_rest_a_part_of_each_file() -> None:
    taken = drawn([*LOADS, *ALONE, *PURE], "1", 3)
    assert {"a.py::test_pure", "b.py::test_alone"} < taken
    assert len(taken) == 2 + 3


def test_a_seed_draws_the_same_again_and_others_draw_the_rest() -> None:
    assert drawn(LOADS, "1", 3) == drawn(LOADS[::-1], "1", 3)
    assert set().union(*(drawn(LOADS, str(seed), 3) for seed in range(20))) == {test.nodeid for test in LOADS}


@pytest.mark.parametrize(
    ("chosen", "environment", "expected"),
    [
        (False, {}, PARTS),
        (True, {}, 1),
        (False, {"INCLOAD_TEST_EXAMPLES": "2"}, 1),
        (False, {"INCLOAD_TEST_PART": "1"}, 1),
        (True, {"INCLOAD_TEST_PART": "5"}, 5),
    ],
)
def test_what_is_asked_for_and_every_test_of_a_night_is_taken(
    monkeypatch: pytest.MonkeyPatch, chosen: bool, environment: dict[str, str], expected: int
) -> None:
    for name in ("INCLOAD_TEST_EXAMPLES", "INCLOAD_TEST_PART"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert parts(chosen=chosen) == expected
