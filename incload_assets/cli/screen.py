"""What a person sees: one console, kept apart from what runs print."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console
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

from resources.progress import shown_by

PLAIN_SECONDS = 20.0
"""How often what goes on is told where there is no terminal, and each line stays."""


def complain(message: str) -> None:
    """An error, on standard error."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print("[bold red]Error:[/] ", end="")
    console.print(message, markup=False)


def say(message: str) -> None:
    """A line on standard output."""
    Console(soft_wrap=True, highlight=False).print(message)


@contextmanager
def under_way() -> Iterator[None]:
    """Show what takes long in the block: a line that changes on a terminal, else a line now and again."""
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
    """Say the first of many lines, and one every :data:`PLAIN_SECONDS` if it is another.

    Args:
        say: Called with those that are said.
    """
    due, said = 0.0, ""

    def hear(what: str) -> None:
        nonlocal due, said
        if what not in ("", said) and time.monotonic() >= due:
            due, said = time.monotonic() + PLAIN_SECONDS, what
            say(what)

    return hear


@contextmanager
def apart(*, verbose: bool) -> Iterator[Console]:
    """A console of our own for as long as runs are executed in this process.

    Dagster keeps what a run prints as the run's compute log and repeats it here; a progress bar would be buried in it,
    and would end up in the log. So standard output and error are put away, unless ``verbose``.
    """
    with ExitStack() as stack:
        try:
            own = stack.enter_context(os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding=sys.stdout.encoding))
        except (OSError, ValueError):  # standard output is no file: whoever replaced it wants to see what we print
            yield Console(soft_wrap=True, highlight=False)
            return
        if not verbose:
            stack.enter_context(_put_away())
        yield Console(file=own, highlight=False, soft_wrap=not own.isatty())


@contextmanager
def _put_away() -> Iterator[None]:
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
    """Counts, time spent and time left; nothing but finished lines where the console is no terminal."""
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


def grid(first: str) -> Table:
    """A table without frame, that fits a terminal of 80 columns where it can.

    Args:
        first: Heading of its first column.
    """
    return Table(first, box=None, padding=(0, 1, 0, 0), header_style="bold")


def print_grid(grid: Table) -> None:
    """A table, as wide as it needs to be where standard output is no terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    console.print(grid)


def print_json(text: str) -> None:
    """JSON for programs."""
    sys.stdout.write(f"{text}\n")
