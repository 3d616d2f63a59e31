"""Whether what is done for small loads, and for long histories, pays."""

from collections.abc import Iterator
from unittest import mock

from incload_assets.assets import History
from incload_assets.load import apply as applying
from incload_assets.load import detection
from tests.benchmarks.bench import Bench
from tests.benchmarks.contest import Contest, Loads, expect_same
from tests.benchmarks.pairs import Comparison
from tests.benchmarks.rows.small import small_items
from tests.support.tables import Loaded, day, item, make

CHANGED = 10


def tuning(bench: Bench) -> Iterator[Comparison]:
    """Small loads with the settings of ``loading/tuning.py`` against the server's own."""
    contest = Contest.of(bench, small_items(bench, bench.sizes.partitions))
    tuned, plain = contest.loads(), Loads.into(bench, contest.items, bench.session(), bench.copy(contest.lake))

    def write(number: int) -> None:
        for side in (tuned, plain):
            side.write(number)

    def untuned(number: int) -> None:
        with mock.patch.object(detection, "tune_ingest"), mock.patch.object(applying, "tune_plan"):
            plain.load(number)

    found = bench.compare("small load, tuned / untuned", tuned.load, untuned, prepare=write, sizes=tuned.items.sizes)
    expect_same(contest.spark, tuned.table.table.schema.names, tuned.table.uri, plain.table.uri)
    yield found


def versions(bench: Bench) -> Iterator[Comparison]:
    """A version more of one key in ten, in a history of many versions of each against one of two."""
    many, few = (_history(bench, count) for count in (bench.sizes.versions, 2))

    def write(number: int) -> None:
        for side in (many, few):
            keys = range(bench.sizes.keys // CHANGED)
            side.content[day(2 + number)] = [item(f"{n}", f"newer {number}", 1_000 + number) for n in keys]

    yield bench.compare(
        f"one version more in a history of {bench.sizes.versions} / of 2 versions of each key",
        lambda n: many.load(2 + n),
        lambda n: few.load(2 + n),
        prepare=write,
        sizes={"keys": bench.sizes.keys, "versions": bench.sizes.versions},
    )


def _history(bench: Bench, versions: int) -> Loaded:
    """A history of keys with some versions each, loaded as one window."""
    keys, numbers = range(bench.sizes.keys), range(1, versions + 1)
    content = {day(1): [item(f"{n}", f"value {at}", at) for n in keys for at in numbers]}
    loaded = make(bench.session(), bench.new("history"), content, write=History())
    loaded.load(1)
    return loaded
