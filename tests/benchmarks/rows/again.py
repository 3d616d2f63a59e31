"""A window that is landed again, undone, or has grown: against one that brings as much, or only what is new."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.progress.checkpoint import Checkpoint
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
        yield _compared(bench, name, big.loads(), change, news.write, news.load, bound=3, small=False)


def undo(bench: Bench) -> Iterator[Comparison]:
    """A window that is returned to what it held before all its rows were corrected, against a load of as many rows."""
    contest = Contest.of(bench, small_items(bench, bench.sizes.partitions))
    loads, news = contest.loads(), contest.loads()
    table = loads.table

    def prepare(number: int) -> None:
        news.write(number)
        batch = loads.write(number)
        loads.load(number)
        _newer(batch.file, [json.loads(line) for line in batch.file.read_text().splitlines()])
        loads.load(number)

    def undone(number: int) -> None:
        window = loads.reports[number].window
        loads.reports[number] = undo_window(table.spark, table.table, table.lake, window, Undo(actor="benchmark"))
        assert loads.reports[number].merged.updated

    rounds = bench.rounds(small=True)
    name = "undo of a small load / the load"
    found = bench.compare(name, undone, news.load, prepare=prepare, bound=1.5, sizes=loads.items.sizes, **rounds)
    yield replace(found, note=loads.profile(rounds["warm_up"], found.median))


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
        known = Checkpoint(loads.reports[number].control.fingerprint, clean=True)
        loads.reports[number] = loads.table.load(loads.batches[number].window, checkpoint=known)

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
