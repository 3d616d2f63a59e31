"""Which tests a run of all tests takes: every one that loads no table, and of those that do through Spark a part.

All tests take two cores some hours; most of it is Spark planning small loads. So each run draws some from each file,
by INCLOAD_TEST_SEED: what one run leaves out, another takes. All tests of a file or a name that is asked for are taken,
and all tests of a night, which INCLOAD_TEST_NIGHT=1 asks for.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Protocol

NIGHT = os.environ.get("INCLOAD_TEST_NIGHT", "0") == "1"
"""True if all tests run as long as they can: each kind of source and of writing, long random streams, all mutants."""
PART = "INCLOAD_TEST_PART"
"""One in so many tests that load through Spark is drawn; 1: all of them."""
PARTS = 8
"""The default."""
SPARK = frozenset({"spark", "spark_settings", "spark_url"})
"""The fixtures of tests that load, unless they are marked as those that only read."""


class Test(Protocol):
    """What is asked of a collected test."""

    @property
    def nodeid(self) -> str:
        """File and name."""

    @property
    def fixturenames(self) -> Iterable[str]:
        """What it is given."""

    def get_closest_marker(self, name: str) -> object:
        """Its mark of a name, if it has one."""


def parts(*, chosen: bool) -> int:
    """One in how many is drawn.

    Args:
        chosen: Whether somebody asked for certain tests.
    """
    return int(os.environ.get(PART, 1 if chosen or NIGHT else PARTS))


def drawn(tests: Sequence[Test], seed: str, parts: int) -> set[str]:
    """The names of the tests to run: at least one of each file's.

    Example:
        >>> drawn([], seed="1", parts=3)
        set()
    """
    taken, by_file = set(), defaultdict(list)
    for test in tests:
        reads = test.get_closest_marker("reads") and not test.get_closest_marker("slow")
        if reads or SPARK.isdisjoint(test.fixturenames):
            taken.add(test.nodeid)
        else:
            by_file[test.nodeid.partition("::")[0]].append(test.nodeid)
    for names in by_file.values():
        names.sort(key=lambda name: sha256(f"{seed} {name}".encode()).digest())
        taken.update(names[: -(-len(names) // parts)])
    return taken
