"""Loads and replays of partitions, run after run, with a progress bar and a summary."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from statistics import median

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table as Grid

from incload_assets.change_log.log import ChangeLog
from incload_assets.cli.support import screen
from incload_assets.cli.support.options import confirm
from incload_assets.cli.support.project import Project
from incload_assets.cli.support.runs import COUNTS, Outcome, free_from_killed_runs, load_partitions
from incload_assets.declaration.partition_keys import shown, stretches
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import known_windows, now
from incload_assets.history.loads_table import LoadsTable
from incload_assets.load.pending import pending_windows
from incload_assets.platform.progress import shown_by
from incload_assets.platform.wording import length, several
from incload_assets.progress.request import A_LOAD, Request

MANY = 500
"""The number of partitions up to which nobody is asked."""
_LAST_LOADS = 100


class Loads:
    """Loads partitions and records the outcome of each.

    Args:
        progress: A started progress bar, which is advanced with each load.
        total: The expected number of loads.
    """

    def __init__(
        self, project: Project, console: Console, progress: Progress, total: int, request: Request = A_LOAD
    ) -> None:
        self.project, self.console, self.progress = project, console, progress
        self.request = request
        self.outcomes: list[Outcome] = []
        self._bar = progress.add_task("", total=total)
        self._total, self._name = total, ""
        self._now_and_again = screen.now_and_again(self._say_plainly)

    @property
    def failed(self) -> list[Outcome]:
        """The outcomes with a failure."""
        return [outcome for outcome in self.outcomes if outcome.failure]

    def expect(self, total: int) -> None:
        """Raises the expected number of loads, if it was too low."""
        self._total = max(total, self._total)
        self.progress.update(self._bar, total=self._total)

    def run(self, table: Table, partitions: Sequence[str]) -> None:
        """Loads partitions, given oldest first, adjacent ones in one run; a failed load does not stop the others."""
        keys = table.keys_at(now())
        for stretch in stretches(partitions, keys, _most_in_a_run(self.project, table)):
            self._name = f"{table.name} {shown(stretch, keys)}"
            self._show("")
            with shown_by(self._show):
                outcomes = load_partitions(
                    self.project,
                    table,
                    stretch,
                    self.request,
                    say=self._say_plainly,
                    loaded=partial(self._count, len(self.outcomes), set()),
                )
            self.outcomes += outcomes
            self.expect(len(self.outcomes))
            self.progress.update(self._bar, completed=len(self.outcomes))
            for outcome in outcomes:
                self._tell(outcome)

    def _count(self, before: int, loaded: set[str], partition: str) -> None:
        """Counts a loaded partition of the present run; after a retry of a step a partition may be loaded twice."""
        loaded.add(partition)
        self.progress.update(self._bar, completed=before + len(loaded))

    def _show(self, what: str) -> None:
        """Shows a line of progress: what a load waits for, such as Spark's start, or else the name of the load."""
        self.progress.update(self._bar, description=what or self._name)
        if self.progress.disable:
            self._now_and_again(what)

    def _say_plainly(self, line: str) -> None:
        self.console.print(line, markup=False)

    def _tell(self, outcome: Outcome) -> None:
        name = f"{outcome.table} {outcome.partition}"
        if outcome.failure:
            self.console.print("[red]✗[/] ", end="")
            line = outcome.failure if outcome.failure.startswith(name) else f"{name}: {outcome.failure}"
            self.console.print(line, markup=False)
            return
        counts = ", ".join(f"{count} {name.removeprefix('rows_')}" for name, count in outcome.counts.items() if count)
        held = escape(f"; {outcome.held}") if outcome.held else ""
        self.console.print(f"[green]✓[/] {name}  [dim]{outcome.seconds:.1f} s[/]  {counts or 'nothing to do'}{held}")


def run_loads(project: Project, table: Table, keys: Sequence[str], request: Request = A_LOAD, *, yes: bool) -> Loads:
    """Loads partitions of a table, oldest first, with a progress bar and a line per load.

    A person is asked first if they are many, unless ``yes`` says that it is meant.
    """
    ask_if_many(project, table, keys, request.action, yes=yes)
    free_from_killed_runs(project)
    with screen.apart(verbose=project.verbose) as console, screen.progress_bar(console) as progress:
        loads = Loads(project, console, progress, len(keys), request)
        loads.run(table, keys)
    return loads


def ask_if_many(
    project: Project, table: Table, keys: Sequence[str], action: str, *, yes: bool, console: Console | None = None
) -> None:
    """Has a person confirm that more than :data:`MANY` partitions are meant, with the time that they may take.

    Raises:
        IncrementalLoadError: It was not confirmed, or there is no terminal to ask at.
    """
    if len(keys) <= MANY:
        return
    what = f"{table.name}: {action} of {several(len(keys), 'partition')} (from {keys[0]} to {keys[-1]})"
    confirm(
        what,
        "yes",
        "yes",
        lambda: [f"{what}{_estimate(project, table, len(keys))}"],
        yes=yes,
        console=console,
        rule=f"more than {MANY} partitions at once are confirmed by a person first; nothing was loaded",
        asks="To go on",
    )


def _estimate(project: Project, table: Table, count: int) -> str:
    """How long loads of partitions may take, from the last ones in ``_loads``; empty if there are none."""
    found = LoadsTable(project.lake).columns(["ended_at", "seconds"], tables=[table.name])
    newest_first = found.sort_by([("ended_at", "descending")])["seconds"].to_pylist()
    took = [seconds for seconds in newest_first if seconds][:_LAST_LOADS]  # an attempt that failed has none
    if not took:
        return "; how long they take is not known, as there was no load yet"
    seconds = median(took)
    return f"; about {length(seconds * count)}, as one took {length(seconds)} (median of {several(len(took), 'load')})"


def replay_partitions(project: Project, table: Table, keys: Sequence[str], because: str, *, yes: bool) -> None:
    """Replays partitions, oldest first, and says how many rejected rows pass; exits with code 1 if a replay failed."""
    ordered = [window.key for window in known_windows(table.partitions_def, list(keys))]
    request = Request(action="replay", because=because)
    ask_if_many(project, table, ordered, request.action, yes=yes)

    def rejected() -> int:
        return sum(one.rejected for one in ChangeLog(table, project.lake).records(only=ordered).values())

    before = rejected()
    failed = len(run_loads(project, table, ordered, request, yes=True).failed)
    after = rejected()
    validated = f"{table.name}: validated {several(before, 'rejected row')} again; "
    screen.say(validated + (f"{before - after} pass, " if before >= after else "") + f"{after} stay rejected.")
    if failed:
        screen.complain(f"{table.name}: {failed} of {several(len(ordered), 'partition')} not replayed")
        raise typer.Exit(1)


def _most_in_a_run(project: Project, table: Table) -> int:
    """The most partitions that a backfill loads in one run."""
    policy = project.definitions.resolve_assets_def(table.key).backfill_policy
    return policy.max_partitions_per_run or 1 if policy else 1


_LONG_HEADINGS = ("dupli-\ncate", "quaran-\ntined")  # so that the table fits a terminal of 80 columns


def pending(project: Project, table: Table) -> list[str]:
    """The partitions that are missing, failed or drifted, and for which the source holds data, oldest first."""
    return pending_windows(project.instance, table, project.lake)


def complaints(outcomes: Iterable[Outcome]) -> list[str]:
    """One line for each table with checks that did not pass after its last load."""
    last = {outcome.table: outcome for outcome in outcomes if not outcome.failure}
    return [
        f"[yellow]Checks of {table} that did not pass:[/] {', '.join(outcome.complaints)}. More: incload check {table}"
        for table, outcome in last.items()
        if outcome.complaints
    ]


def summary(outcomes: Iterable[Outcome]) -> Grid:
    """A grid with the numbers of partitions and rows, one line per table."""
    numbers = ("parti-\ntions", "failed", "read", "inserted", "updated", "deleted", "stale", *_LONG_HEADINGS)
    grid = screen.grid("table", *numbers, right=numbers)
    by_table: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_table[outcome.table].append(outcome)
    for table, loads in by_table.items():
        failed = sum(1 for load in loads if load.failure)
        grid.add_row(
            table,
            str(len(loads) - failed),
            f"[red]{failed}[/]" if failed else "0",
            *(str(sum(load.counts.get(name, 0) for load in loads)) for name in COUNTS),
        )
    return grid
