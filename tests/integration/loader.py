"""Loads in processes of their own, which end, or wait for each other, at a named point of the road.

The processes are forked from one that has imported everything, so that they are up at once.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
from pyspark.sql import SparkSession

from incload_assets.assets import Merge, run
from incload_assets.declaration.window import window_of
from incload_assets.ingest import ingest as landing
from incload_assets.load import load, revision, undo
from incload_assets.load.undo_plan import Undo
from incload_assets.platform.settings import Settings
from incload_assets.trial.literal_source import Record
from incload_assets.writes import append, delete_insert, full_reload, history, merge, overwrite, snapshot
from incload_assets.writes.plan import MergePlan
from tests.support.guest_table import House, house, key
from tests.support.tables import day, make

STATEMENTS = [(module, "merge") for module in (merge, history, append, snapshot, delete_insert)]
STATEMENTS += [(merge, "rewrite")]
STATEMENTS += [(module, "replace_content") for module in (full_reload, overwrite)]
"""What sends the one statement of each way of writing; its last argument but the scope is what takes time."""

POINTS: dict[str, tuple[list[tuple[Any, str]], str]] = {
    "before landing": ([(landing, "commit"), (revision, "commit")], "before"),
    "after landing": ([(load, "ingest"), (undo, "_land")], "after"),
    "before merging": (STATEMENTS, "before"),
    "merging": (STATEMENTS, "amid"),
    "after merging": (STATEMENTS, "after"),
    "after reconciling": ([(load, "apply_changes"), (revision, "apply_changes")], "after"),
    "before the checkpoint": ([(run, "metadata_of")], "after"),
}
"""Where a load or an undo can be interrupted: modules and functions, and when."""

ROW_TAKES_SECONDS = 4
STATEMENT_IS_SENT_SECONDS = 1.0
SLEEP = f"java_method('java.lang.Thread', 'sleep', {1000 * ROW_TAKES_SECONDS}L) = 'null'"

Act = Callable[[], None]
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__])


def die() -> None:
    """End at once, as on a machine that loses power."""
    os.kill(os.getpid(), signal.SIGKILL)


def at(point: str, act: Act, patch: Callable[[Any, str, Any], None] = setattr) -> None:
    """Do something whenever a load of this process comes to a point.

    Args:
        point: One of ``POINTS``. Amid the statement means: while the server is busy with it, which is slow.
        act: What to do.
        patch: Puts a function in place of another.
    """
    functions, when = POINTS[point]
    for where, called in functions:
        patch(where, called, _interrupted(getattr(where, called), when, act))


def _interrupted(function: Callable[..., Any], when: str, act: Act) -> Callable[..., Any]:
    def interrupted(*args: Any, **options: Any) -> Any:
        if when == "before":
            act()
        if when == "amid":
            args = _slow(args, act)
        result = function(*args, **options)
        if when == "after":
            act()
        return result

    return interrupted


def _slow(args: tuple[Any, ...], act: Act) -> tuple[Any, ...]:
    """The arguments of a statement that keeps the server busy, and in the midst of it something is done."""
    context, at, plan, *wanted = args
    threading.Timer(STATEMENT_IS_SENT_SECONDS * (3 if wanted else 1), act).start()  # a replacement counts rows first
    if wanted and not at.feeds:
        return (context, at, plan, wanted[0].filter(SLEEP), *wanted[1:])
    return (context, at, slowed(plan), *wanted)  # a table with a feed is merged by its plan


def slowed(plan: MergePlan) -> MergePlan:
    """The same plan, but each of its rows keeps the server busy for a while."""
    return replace(plan, actions=plan.actions.filter(SLEEP))


@contextmanager
def dagster_house(folder: Path, remote: str) -> Iterator[House]:
    """A state table whose Dagster instance is kept in the folder."""
    (folder / "home").mkdir(exist_ok=True)
    instance = dg.DagsterInstance.local_temp(str(folder / "home"))
    with (
        mock.patch.dict(os.environ, INCLOAD_LANDING=str(folder / "landing")),
        house(folder, Settings(spark=remote), write=Merge(), instance=instance) as h,
    ):
        yield h


def materialize(folder: Path, remote: str, number: int, point: str, tags: dict[str, str]) -> None:
    """Materialize a day by a Dagster run, and die at a point of it."""
    at(point, die)
    with dagster_house(folder, remote) as h:
        h.run(h.loads, partition=key(number), tags=tags)


def load_until(
    folder: Path, remote: str, number: int, content: dict[str, list[Record]], declared: dict[str, Any], point: str
) -> None:
    """Load a day of a literal table, and die at a point of it."""
    at(point, die)
    make(SparkSession.builder.remote(remote).create(), folder, content, **declared).load(number)


def load_day(
    folder: Path,
    remote: str,
    number: int,
    content: dict[str, list[Record]],
    declared: dict[str, Any],
    meet: str,
    actor: str,
) -> None:
    """Load a day of a literal table, or undo that as somebody, and wait for ``go`` when first at a point.

    What is said is written down.
    """
    waited = False

    def wait_once() -> None:
        nonlocal waited
        if not waited:
            waited = True
            (folder / f"ready-{os.getpid()}").touch()
            while not (folder / "go").exists():
                time.sleep(0.01)

    at(meet, wait_once)
    table = make(SparkSession.builder.remote(remote).create(), folder, content, **declared)
    said: list[str] = []
    if actor:
        window = window_of(table.table.partitions_def, day(number))
        undo.undo_window(table.context(info=said.append), window, Undo(actor=actor))
    else:
        table.load(number, info=said.append)
    (folder / f"said-{os.getpid()}").write_text("\n".join(said))


def started(function: Callable[..., None], *args: Any) -> BaseProcess:
    """A process that runs a function."""
    process = FORKS.Process(target=function, args=args)
    process.start()
    return process


def at_once(
    folder: Path,
    remote: str,
    loads: list[int],
    content: dict[str, list[Record]],
    *,
    meet: str,
    actors: Sequence[str] = (),
    **declared: Any,
) -> list[str]:
    """Load days in as many processes, which all go on from one point together; what each of them said.

    With actors each undoes what the day's last load has changed.
    """
    by = zip(loads, actors or [""] * len(loads), strict=True)
    processes = [started(load_day, folder, remote, number, content, declared, meet, actor) for number, actor in by]
    deadline = time.monotonic() + 120
    while len(list(folder.glob("ready-*"))) < len(loads):
        assert time.monotonic() < deadline
        assert all(process.is_alive() for process in processes)
        time.sleep(0.02)
    (folder / "go").touch()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * len(loads)
    return [(folder / f"said-{process.pid}").read_text() for process in processes]
