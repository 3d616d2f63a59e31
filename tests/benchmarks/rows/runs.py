"""What Dagster adds to loads: a run from end to end, and a backfill as one run or as many."""

import os
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

from dagster._core.storage.tags import PARTITION_NAME_TAG
from dagster._core.workspace.load_target import ModuleTarget

from incload_assets.platform.settings import Settings
from incload_assets.runs.warm_servers import stop_warm_servers
from tests.benchmarks.bench import Bench
from tests.benchmarks.contest import Contest, Loads, expect_same
from tests.benchmarks.items import Items
from tests.benchmarks.pairs import Comparison
from tests.benchmarks.rows.small import small_items
from tests.integration.backfill import YEAR, dated, deliver, load
from tests.runs.workplace import Workplace, workplace_in
from tests.support.guest_table import House
from tests.support.project_copy import PROJECT

AT_ONCE, RUNS = 2, 10


def run(bench: Bench) -> Iterator[Comparison]:
    """Runs, from their launch to their end, against the load alone; and some runs at once, forked and not."""
    small = Contest.of(bench, small_items(bench, bench.sizes.partitions))
    yield _run_of(bench, "Dagster run of a small load / the load alone", small, bound=2, small=True)
    yield _forked(bench, small)
    big = Contest.of(bench, Items(rows=bench.sizes.big, days=2, changes=bench.sizes.big // 5))
    yield _run_of(bench, "Dagster run of a large load / the load alone", big, bound=1.1, small=False)


def _run_of(bench: Bench, name: str, contest: Contest, *, bound: float, small: bool) -> Comparison:
    lake, loads, rounds = bench.copy(contest.lake), contest.loads(), bench.rounds(small=small)
    with _runs(bench, lake, loads) as run_of:
        found = bench.compare(
            name,
            lambda number: run_of([loads.batches[number].window]),
            loads.load,
            prepare=loads.write,
            bound=bound,
            sizes=loads.items.sizes,
            **rounds,
        )
    expect_same(contest.spark, loads.table.table.schema.names, loads.table.uri, f"{lake}/{loads.table.table.name}")
    load = statistics.median(sum(report.seconds.values()) for report in loads.reports.values())
    return replace(found, note=f"about {load * (found.median - 1):.1f} s of the run are not the load")


def _forked(bench: Bench, contest: Contest) -> Comparison:
    """Some runs, two at a time, forked from a process that has loaded the code against each in a process of its own."""
    forked, own = contest.loads(), contest.loads()
    with ExitStack() as opened:
        ways = [
            opened.enter_context(_runs(bench, bench.copy(contest.lake), loads, INCLOAD_WARM_RUNS=warm))
            for loads, warm in ((forked, "true"), (own, "false"))
        ]

        def prepare(number: int) -> None:
            for loads in (forked, own):
                for run in range(RUNS):
                    loads.write(number * RUNS + run)

        def windows(number: int) -> list[str]:
            return [forked.batches[number * RUNS + run].window for run in range(RUNS)]

        return bench.compare(
            f"{RUNS} runs of small loads, two at a time, forked / in processes of their own",
            lambda number: ways[0](windows(number)),
            lambda number: ways[1](windows(number)),
            prepare=prepare,
            bound=0.45,
            sizes=contest.items.sizes | {"runs": RUNS, "at a time": AT_ONCE},
            warm_up=1,
        )


@contextmanager
def _runs(bench: Bench, lake: Path, loads: Loads, **environment: str) -> Iterator[Callable[[list[str]], None]]:
    """What makes a run for each of some windows, over a lake and where changes arrive, and waits for their ends."""
    folder, environment = bench.new("dagster"), environment | {"INCLOAD_LAKE": f"{lake}"}
    environment |= {"INCLOAD_LANDING": f"{loads.landing}", "INCLOAD_HOME": f"{Settings().home_root}"}
    folder.mkdir()
    target = ModuleTarget("tests.benchmarks.location", None, f"{PROJECT}", None)

    def run_of(place: Workplace, window: str) -> None:
        run_id = place.start("__ASSET_JOB", {PARTITION_NAME_TAG: window})
        place.wait(lambda: place.of(run_id).is_finished)
        assert place.of(run_id).is_success, place.messages(run_id)

    def run(windows: list[str]) -> None:
        with mock.patch.dict(os.environ, environment), ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(partial(run_of, place), windows))

    with ExitStack() as opened:
        with mock.patch.dict(os.environ, environment):
            place = opened.enter_context(workplace_in(folder, lambda _: nullcontext(target)))
        yield run
    stop_warm_servers(Settings())


def backfill(bench: Bench) -> Iterator[Comparison]:
    """Partitions of a few rows that were never loaded: one run over all of them against a run for each.

    Of these runs only some are made, and stand for all. The range's run also validates the table's checks at its end;
    those for each partition are spared that.
    """
    days, single, spark = YEAR[: bench.sizes.backfill], YEAR[: bench.sizes.single], bench.session()
    with ExitStack() as opened:
        opened.enter_context(mock.patch.dict(os.environ, INCLOAD_LANDING=f"{bench.folder}/landing"))
        for day in days:
            deliver(bench.folder, day)
        houses: list[tuple[House, House]] = []

        def open_new(number: int) -> None:
            folders = [bench.folder / f"{name}-{number}" for name in ("range", "single")]
            for folder in folders:
                folder.mkdir()
            one, other = (opened.enter_context(dated(f, f / "dagster", Settings())) for f in folders)
            houses.append((one, other))

        def in_range(number: int) -> None:
            assert load(houses[number][0], days[0], days[-1]).success

        def one_by_one(number: int) -> None:
            for day in single:
                assert load(houses[number][1], day, day).success

        found = bench.compare(
            "backfill as a range / as a run for each partition",
            in_range,
            one_by_one,
            prepare=open_new,
            bound=0.1,
            sizes={"partitions": len(days), "loaded by a run each": len(single), "rows of each": 2},
            weight=len(single) / len(days),
        )
        for sides in houses:
            uris = [f"{h.lake.table_uri(h.table.key.path)}" for h in sides]
            expect_same(spark, sides[0].table.schema.names, *uris, where=f"day <= DATE'{single[-1]}'")
    yield replace(found, note="no run starts a process of its own here")
