"""What every row of the benchmarks is given: how large, how often, where, and Spark."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession

from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from tests.benchmarks.pairs import Comparison, compare


@dataclass(frozen=True)
class Sizes:
    """How much of everything there is; the defaults are those that the bounds are asked for.

    Args:
        partition: Rows of a small partition; a fifth of them change.
        partitions: Small partitions of a table that is not meant to be large.
        plain: Those of the large table that a MERGE without a partition is tried on.
        growth: How many times as large the tables of the same small load are.
        largest: The same where only the load is looked at: a hundred million rows.
        big: Rows of a big partition.
        steps: Sizes of partitions (rows) that other tools are tried with.
        state: Rows of a table that is kept by key alone; one in a thousand changes.
        files: At a source that has nothing new.
        windows: That they are of.
        tables: That Dagster knows of beside the one that is looked at.
        hours: Hourly partitions of one table that has many.
        backfill: Partitions that are backfilled.
        daily: Rows of each of them where they are loaded as ranges.
        first: Rows of a window with which a table begins.
        copied: Rows of a database table that is read in chunks.
        single: Of them, those that are loaded by a run each, too.
        keys: Of a history that has many versions.
        versions: Of each of them.
        loads: After which the memory is looked at.
        soak: Loads through one server.
        changed: Settings that are changed one by one.
        burst: The same at once.
        warm: Rounds that a server of small loads has behind it: Java compiles what runs often, for some ten of them.
        rest: Seconds for which a location that has nothing to do is watched, twice.
        often: How many times as many pairs of small loads count: these differ more, and take little time.
    """

    partition: int = 20_000
    partitions: int = 10
    plain: int = 1_000
    growth: tuple[int, ...] = (10, 100)
    largest: int = 500
    big: int = 2_000_000
    steps: tuple[int, ...] = (20_000, 200_000, 2_000_000)
    state: int = 10_000_000
    files: int = 10_000
    windows: int = 250
    tables: int = 1_000
    hours: int = 20_000
    backfill: int = 365
    daily: int = 1_000
    first: int = 5_000_000
    copied: int = 2_000_000
    single: int = 20
    keys: int = 1_000
    versions: int = 200
    loads: int = 5
    soak: int = 500
    changed: int = 50
    burst: int = 1_000
    warm: int = 8
    rest: int = 180
    often: int = 3


SMALL = Sizes(
    partition=200, partitions=2, plain=4, growth=(2, 4), largest=6, big=2_000, steps=(200, 400), state=10_000,
    files=40, windows=10, tables=2, hours=30, backfill=4, daily=5, first=2_000, copied=2_000, single=2, keys=50,
    versions=4, loads=1, soak=10, changed=3, burst=20, warm=0, rest=5, often=1,
)  # fmt: skip
"""To see that everything runs; the ratios mean nothing."""


@dataclass(frozen=True)
class Bench:
    """The means of one row.

    Args:
        sizes: How much.
        pairs: Rounds that count.
        warm_up: Rounds before that do not.
        folder: Of the row's own, removed with all that is in it when the row is done.
        sessions: Ends the row's Spark sessions.
    """

    sizes: Sizes
    pairs: int
    warm_up: int
    folder: Path
    sessions: ExitStack

    def session(self, conf: Mapping[str, str] | None = None) -> SparkSession:
        """A Spark session for one side of a comparison.

        Args:
            conf: Settings beside those that every session has.
        """
        session = self.sessions.enter_context(open_session(Settings()))
        for name, value in (conf or {}).items():
            session.conf.set(name, value)
        return session

    def compare(self, name: str, a: Callable[[int], object], b: Callable[[int], object], **options: Any) -> Comparison:
        """Both ways, as often as this bench has them run; see :func:`tests.benchmarks.pairs.compare`."""
        return compare(name, a, b, **{"pairs": self.pairs, "warm_up": self.warm_up} | options)

    def rounds(self, *, small: bool) -> dict[str, int]:
        """How many pairs count, and how many rounds before them do not; of small loads more, of both."""
        return {
            "pairs": self.pairs * (self.sizes.often if small else 1),
            "warm_up": self.warm_up + (self.sizes.warm if small else 0),
        }

    def new(self, name: str) -> Path:
        """The path of a folder that is not there yet."""
        return next(path for n in count() if not (path := self.folder / f"{name}-{n}").exists())

    def copy(self, lake: Path) -> Path:
        """A lake with the same tables, for one side to change; data files, which nobody ever changes, are shared."""
        return Path(shutil.copytree(lake, self.new(lake.name), copy_function=_copy_or_link))


@contextmanager
def bench(sizes: Sizes, pairs: int, warm_up: int) -> Iterator[Bench]:
    """The means of one row, for as long as it runs."""
    with TemporaryDirectory(prefix="benchmark-") as folder, ExitStack() as sessions:
        yield Bench(sizes, pairs, warm_up, Path(folder), sessions)


def _copy_or_link(source: str, target: str) -> None:
    link = source.endswith(".parquet") and "_delta_log" not in source
    (os.link if link else partial(shutil.copy2))(source, target)
