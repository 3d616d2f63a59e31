"""The terminal output of commands, separate from the output of runs."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from incload_assets.platform.progress import shown_by

PLAIN_SECONDS = 20.0
"""Interval of progress lines if there is no terminal, where each line stays."""


def complain(message: str) -> None:
    """Prints an error on standard error."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print("[bold red]Error:[/] ", end="")
    console.print(message, markup=False)


def complain_of(faults: Iterable[str | None]) -> None:
    """Prints each fault of a table on standard error, and ends the command with exit code 1 if there is one."""
    told = [fault for fault in faults if fault is not None]
    for fault in told:
        complain(fault)
    if told:
        raise typer.Exit(1)


def say(message: str) -> None:
    """Prints a line on standard output."""
    Console(soft_wrap=True, highlight=False).print(message)


@contextmanager
def under_way() -> Iterator[None]:
    """Shows progress messages of the block: in one changing line on a terminal, else in a new line now and then."""
    console = Console(soft_wrap=True, highlight=False)
    if not console.is_terminal:
        with shown_by(now_and_again(say)):
            yield
        return
    line = console.status("")

    def show(what: str) -> None:
        line.update(what)
        if what:
            line.start()
        else:
            line.stop()

    with shown_by(show):
        try:
            yield
        finally:
            line.stop()


def now_and_again(say: Callable[[str], None]) -> Callable[[str], None]:
    """A function that passes on the first of many lines, and then every :data:`PLAIN_SECONDS` one that has changed."""
    due, said = 0.0, ""

    def hear(what: str) -> None:
        nonlocal due, said
        if what not in ("", said) and time.monotonic() >= due:
            due, said = time.monotonic() + PLAIN_SECONDS, what
            say(what)

    return hear


@contextmanager
def apart(*, verbose: bool) -> Iterator[Console]:
    """A separate console for the time in which runs are executed in this process.

    Dagster stores a run's output as the run's compute log and repeats it on the terminal. A progress bar would be
    buried in that output, and would end up in the log. So standard output and error are discarded, unless ``verbose``.
    """
    with ExitStack() as stack:
        try:
            own = stack.enter_context(os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding=sys.stdout.encoding))
        except (OSError, ValueError):  # standard output is no file: it was replaced to capture our output
            yield Console(soft_wrap=True, highlight=False)
            return
        if not verbose:
            stack.enter_context(_discarded())
        yield Console(file=own, highlight=False, soft_wrap=not own.isatty())


@contextmanager
def _discarded() -> Iterator[None]:
    """Discards standard output and error of the block."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(descriptor, os.dup(descriptor)) for descriptor in (1, 2)]
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        for descriptor, _ in kept:
            os.dup2(nothing, descriptor)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, copy in kept:
            os.dup2(copy, descriptor)
            os.close(copy)
        os.close(nothing)


def progress_bar(console: Console) -> Progress:
    """A progress bar with counts, elapsed and remaining time; disabled if the console is no terminal."""
    return Progress(
        SpinnerColumn(),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=console,
        disable=not console.is_terminal,
    )


def grid(*headings: str, right: Iterable[str] = ()) -> Table:
    """A table without frame, narrow enough for 80 columns where possible; ``right`` are right-aligned headings."""
    made = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for heading in headings:
        made.add_column(heading, justify="right" if heading in right else "left")
    return made


def print_grid(grid: Table) -> None:
    """Prints a table; at full width if standard output is no terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    console.print(grid)


def print_json(value: object, *, ensure_ascii: bool = True) -> None:
    """Prints JSON for programs; a text is JSON already, and times are texts in ISO 8601."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=ensure_ascii, default=plain)
    sys.stdout.write(f"{text}\n")


def plain(value: object) -> str:
    """A value that JSON has no form for."""
    return value.isoformat() if isinstance(value, date) else str(value)


def say_environment(name: str, lake: str) -> None:
    """Prints the environment with its lake and Dagster's folder, if it has a name."""
    if name:
        say(escape(f"Environment {name}: lake {lake}, Dagster in {os.environ['DAGSTER_HOME']}"))
