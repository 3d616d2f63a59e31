"""Loads of rounds of changes, and the same by another way, from the same table on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession

from incload_assets.load.load import LoadReport
from tests.benchmarks.bench import Bench
from tests.benchmarks.by_hand import Way
from tests.benchmarks.items import Batch, Items
from tests.benchmarks.pairs import Comparison
from tests.support.tables import Loaded


@dataclass
class Loads:
    """A table that is loaded round by round.

    Args:
        items: What it is like.
        table: It, of this side alone.
        landing: Where its changes arrive.
    """

    items: Items
    table: Loaded
    landing: Path
    batches: dict[int, Batch] = field(default_factory=dict)
    reports: dict[int, LoadReport] = field(default_factory=dict)

    @classmethod
    def into(cls, bench: Bench, items: Items, spark: SparkSession, lake: Path) -> "Loads":
        """The table of a lake, to be loaded with a session."""
        landing = bench.new("landing")
        landing.mkdir()
        return cls(items, items.table(spark, lake, landing), landing)

    def write(self, number: int) -> Batch:
        """Have the changes of a round arrive."""
        self.batches[number] = self.items.batch(self.landing, number)
        return self.batches[number]

    def load(self, number: int) -> None:
        """Load a round."""
        self.reports[number] = self.table.load(self.batches[number].window)

    def profile(self, since: int, ratio: float) -> str:
        """Where the time goes: a ratio, divided among the phases of a load as the time of the loads is.

        Args:
            since: The first round that counts.
            ratio: Of the loads to something else.
        """
        told = [report.seconds for number, report in self.reports.items() if number >= since]
        total, names = sum(sum(seconds.values()) for seconds in told), dict.fromkeys(n for s in told for n in s)
        parts = {name: ratio * sum(seconds.get(name, 0) for seconds in told) / total for name in names}
        return f"of {ratio:.2f}: " + ", ".join(f"{name} {part:.2f}" for name, part in parts.items())


@dataclass(frozen=True)
class Contest:
    """A table that both sides start from.

    Args:
        bench: Of the row.
        items: What it is like.
        spark: The session of the loads.
        lake: Where it is, untouched.
    """

    bench: Bench
    items: Items
    spark: SparkSession
    lake: Path

    @classmethod
    def of(cls, bench: Bench, items: Items) -> "Contest":
        """Write the table."""
        spark = bench.session()
        return cls(bench, items, spark, items.fill(spark, bench.new("lake")))

    def loads(self) -> Loads:
        """A copy of the table, to be loaded."""
        return Loads.into(self.bench, self.items, self.spark, self.bench.copy(self.lake))

    def against(
        self,
        name: str,
        other: Way,
        *,
        bound: float | None,
        same: bool = True,
        prepare: Callable[[Batch], object] = lambda _: None,
        small: bool = False,
    ) -> Comparison:
        """Load / the other way, each in a copy of the table.

        Args:
            name: Of the comparison.
            other: What is done with each round's changes.
            bound: Asked.
            same: Whether both do the same job, so that both tables have to be the same in the end.
            prepare: Called with each round's changes, which does not count.
            small: Whether it takes a second or two: see :class:`~tests.benchmarks.bench.Sizes`, ``warm`` and ``often``.

        Raises:
            AssertionError: The tables differ.
        """
        loads, rounds = self.loads(), self.bench.rounds(small=small)
        others = f"{self.bench.copy(self.lake)}/{loads.table.table.name}"
        found = self.bench.compare(
            name,
            loads.load,
            lambda n: other(others, loads.batches[n]),
            prepare=lambda n: prepare(loads.write(n)),
            bound=bound,
            sizes=self.items.sizes,
            **rounds,
        )
        if same:
            expect_same(self.spark, loads.table.table.schema.names, loads.table.uri, others)
        return replace(found, note=loads.profile(rounds["warm_up"], found.median))


def expect_same(spark: SparkSession, columns: Sequence[str], *uris: str, where: str = "true") -> None:
    """Compare tables by the number of their rows and a hash of their content.

    Raises:
        AssertionError: They differ.
    """
    parts = ", ".join(f"{column}, {column} IS NULL" for column in columns)  # the hash skips NULLs
    total = f"count(*) AS n, sum(CAST(xxhash64({parts}) AS decimal(38, 0))) AS content"
    found = {uri: spark.sql(f"SELECT {total} FROM delta.`{uri}` WHERE {where}").first() for uri in uris}
    if len(set(found.values())) != 1:
        raise AssertionError(f"the two sides made different tables: {found}")


def race(bench: Bench, name: str, a: Loads, b: Loads, *, bound: float | None) -> Comparison:
    """Loads of the same changes into two tables.

    Args:
        bench: Of the row.
        name: Of the comparison.
        a: One table.
        b: The other one.
        bound: Asked.

    Returns:
        With the profile of both, so that it can be seen where the one takes longer.

    Raises:
        AssertionError: The changes did not do the same in both.
    """

    def write(number: int) -> None:
        for side in (a, b):
            side.write(number)

    rounds = bench.rounds(small=True)
    found = bench.compare(name, a.load, b.load, prepare=write, bound=bound, sizes=a.items.sizes, **rounds)
    merged = [[report.merged for report in side.reports.values()] for side in (a, b)]
    if merged[0] != merged[1]:
        raise AssertionError(f"the same changes did different things: {merged}")
    since = rounds["warm_up"]
    return replace(found, note=f"{a.profile(since, found.median)}; {b.profile(since, 1)}")
