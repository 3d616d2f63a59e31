"""A window that is landed again, undone, or has grown: against one that brings as much, or only what is new."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from incload_assets.declaration.window import window_of
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.what_if.preview import preview
from tests.benchmarks.bench import Bench
from tests.benchmarks.contest import Contest, Loads
from tests.benchmarks.items import Items
from tests.benchmarks.pairs import Comparison
from tests.benchmarks.rows.small import small_items

FEW = 100
"""Rows by which a window grows."""

Rows = list[dict[str, Any]]
Change = Callable[[Path, Rows], None]
"""What happens to a file of rows."""


def again(bench: Bench) -> Iterator[Comparison]:
    """All rows of a window corrected, with newer sequences and with those they had; and a window that has grown."""
    contest = Contest.of(bench, small_items(bench, bench.sizes.partitions))
    for told, change in (("newer", _newer), ("the same", _corrected)):
        news = contest.loads()
        name = f"window landed again, all rows changed, {told} sequences / the same as news"
        yield _compared(bench, name, contest.loads(), change, news.write, news.load, bound=1.3)
    few = replace(contest, items=replace(contest.items, changes=FEW))
    for how, change in _GROWTH:
        news = few.loads()
        name = f"window of {contest.items.changes:,} rows {how} / a window of {FEW}"
        yield _compared(bench, name, contest.loads(), change, news.write, news.load, bound=1.5)
    big = Contest.of(bench, Items(rows=bench.sizes.big, days=2, changes=bench.sizes.big // 5))
    few = replace(big, items=replace(big.items, changes=FEW))
    for how, change in _GROWTH:
        news = few.loads()
        name = f"window of {big.items.changes:,} rows {how} / a window of {FEW}"
        yield _compared(bench, name, big.loads(), change, news.write, news.load, bound=1.5, small=False)


def undo(bench: Bench) -> Iterator[Comparison]:
    """A window that is returned to what it held before all its rows were corrected, and a load that is only planned."""
    contest = Contest.of(bench, small_items(bench, bench.sizes.partitions))
    rounds = bench.rounds(small=True)
    undone, news = _Undone(contest.loads()), contest.loads()

    def both(number: int) -> None:
        news.write(number)
        undone.prepare(number)

    name = "undo of a small load / the load"
    found = bench.compare(name, undone.undo, news.load, prepare=both, bound=1.5, sizes=news.items.sizes, **rounds)
    yield replace(found, note=undone.loads.profile(rounds["warm_up"], found.median))

    planned, loaded = contest.loads(), contest.loads()

    def arrive(number: int) -> None:
        planned.write(number)
        loaded.write(number)

    def plan(number: int) -> None:
        table = planned.table
        window = window_of(table.table.partitions_def, planned.batches[number].window)
        with preview(table.spark, table.table, table.lake, window) as seen:
            assert seen.report.merged.updated

    name = "plan of a small load / the load"
    yield bench.compare(name, plan, loaded.load, prepare=arrive, bound=None, sizes=loaded.items.sizes, **rounds)

    large = _Undone(Contest.of(bench, small_items(bench, 10 * bench.sizes.partitions)).loads())
    few = _Undone(contest.loads())

    def each(number: int) -> None:
        few.prepare(number)
        large.prepare(number)

    name = "undo of a small load, table 10 times as large"
    yield bench.compare(name, large.undo, few.undo, prepare=each, bound=1.5, sizes=large.loads.items.sizes, **rounds)


@dataclass(frozen=True)
class _Undone:
    """A table in which a window is loaded, corrected and undone, round by round."""

    loads: Loads

    def prepare(self, number: int) -> None:
        batch = self.loads.write(number)
        self.loads.load(number)
        _newer(batch.file, [json.loads(line) for line in batch.file.read_text().splitlines()])
        self.loads.load(number)

    def undo(self, number: int) -> None:
        table, window = self.loads.table, self.loads.reports[number].window
        done = undo_window(table.context(), window, Undo(actor="benchmark"))
        assert done.merged.updated
        self.loads.reports[number] = done


def _compared(
    bench: Bench,
    name: str,
    loads: Loads,
    change: Change,
    write: Callable[[int], object],
    other: Callable[[int], object],
    *,
    bound: float,
    small: bool = True,
) -> Comparison:
    """The second load of a window, whose file is changed after the first, against another load."""

    def prepare(number: int) -> None:
        write(number)
        batch = loads.write(number)
        loads.load(number)
        change(batch.file, [json.loads(line) for line in batch.file.read_text().splitlines()])

    def load_again(number: int) -> None:
        loads.reports[number] = loads.table.replay(loads.reports[number])

    rounds = bench.rounds(small=small)
    found = bench.compare(name, load_again, other, prepare=prepare, bound=bound, sizes=loads.items.sizes, **rounds)
    return replace(found, note=loads.profile(rounds["warm_up"], found.median))


def _write(file: Path, rows: Rows) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _newer(file: Path, rows: Rows) -> None:
    _write(file, [row | {"value": f"{row['value']}, again", "seq": row["seq"] + 1} for row in rows])


def _corrected(file: Path, rows: Rows) -> None:
    _write(file, [row | {"value": f"{row['value']}, again"} for row in rows])


def _longer(file: Path, rows: Rows) -> None:
    _write(file, rows + _more(rows))


def _beside(file: Path, rows: Rows) -> None:
    _write(file.with_name(f"more-{file.name}"), _more(rows))


def _more(rows: Rows) -> Rows:
    return [rows[-1] | {"id": f"{rows[-1]['id']}-{number}"} for number in range(FEW)]


_GROWTH = ((f"grown by {FEW}", _longer), (f"grown by a file of {FEW}", _beside))
