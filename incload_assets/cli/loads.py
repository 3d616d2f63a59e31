"""Many loads, run after run: a progress bar while they go on, a summary when they are done."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from rich.console import Console
from rich.progress import Progress
from rich.table import Table as Grid

from incload_assets.automation.policy import is_pending
from incload_assets.cli import screen
from incload_assets.cli.partition_keys import shown, stretches
from incload_assets.cli.project import Project
from incload_assets.cli.runs import COUNTS, Outcome, load_partitions
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.load.compacted import REWRITE_COMPACTED_TAG
from incload_assets.progress.progress import progress_of
from incload_assets.progress.undone import undone_windows, with_undone
from resources.lake import Lake
from resources.progress import shown_by
from resources.settings import Settings


class Loads:
    """Loads partitions and remembers how each ended.

    Args:
        project: Where they are loaded.
        console: Where each is told of.
        progress: Started; its bar is advanced with each load.
        total: How many loads are expected.
        verbose: Show Dagster's log.
        rewrite_compacted: Replace windows whose log was compacted, too.
    """

    def __init__(
        self,
        project: Project,
        console: Console,
        progress: Progress,
        total: int,
        *,
        verbose: bool,
        rewrite_compacted: bool = False,
    ) -> None:
        self.project, self.console, self.progress, self.verbose = project, console, progress, verbose
        self.tags = {REWRITE_COMPACTED_TAG: "true"} if rewrite_compacted else {}
        self.outcomes: list[Outcome] = []
        self._bar = progress.add_task("", total=total)
        self._total, self._name = total, ""
        self._now_and_again = screen.now_and_again(self._say_plainly)

    @property
    def failed(self) -> list[Outcome]:
        """Those that did not end well."""
        return [outcome for outcome in self.outcomes if outcome.failure]

    def expect(self, total: int) -> None:
        """There are more loads than were expected."""
        self._total = max(total, self._total)
        self.progress.update(self._bar, total=self._total)

    def run(self, table: Table, partitions: Sequence[str]) -> None:
        """Load partitions of a table, oldest first, adjacent ones in one run; one that fails does not stop the others.

        Args:
            table: The declaration.
            partitions: Their keys, oldest first.
        """
        keys = table.partitions_def.get_partition_keys(current_time=now())
        for stretch in stretches(partitions, keys, _most_in_a_run(self.project, table)):
            self._name = f"{table.name} {shown(stretch, keys)}"
            self._show("")
            with shown_by(self._show):
                outcomes = load_partitions(
                    self.project,
                    table,
                    stretch,
                    self.tags,
                    verbose=self.verbose,
                    say=self._say_plainly,
                    loaded=partial(self._count, len(self.outcomes), set()),
                )
            self.outcomes += outcomes
            self.expect(len(self.outcomes))
            self.progress.update(self._bar, completed=len(self.outcomes))
            for outcome in outcomes:
                self._tell(outcome)

    def _count(self, before: int, loaded: set[str], partition: str) -> None:
        """A partition of the present run is loaded; some may be loaded twice, where a step is tried again."""
        loaded.add(partition)
        self.progress.update(self._bar, completed=before + len(loaded))

    def _show(self, what: str) -> None:
        """The line of progress: what a load waits for, such as Spark's start; else the name of what is loaded."""
        self.progress.update(self._bar, description=what or self._name)
        if self.progress.disable:
            self._now_and_again(what)

    def _say_plainly(self, line: str) -> None:
        self.console.print(line, markup=False)

    def _tell(self, outcome: Outcome) -> None:
        name = f"{outcome.table} {outcome.partition}"
        if outcome.failure:
            self.console.print("[red]✗[/] ", end="")
            told = outcome.failure if outcome.failure.startswith(name) else f"{name}: {outcome.failure}"
            self.console.print(told, markup=False)
            return
        counts = ", ".join(f"{count} {name.removeprefix('rows_')}" for name, count in outcome.counts.items() if count)
        self.console.print(f"[green]✓[/] {name}  [dim]{outcome.seconds:.1f} s[/]  {counts or 'nothing to do'}")


def _most_in_a_run(project: Project, table: Table) -> int:
    """The number of partitions that a backfill loads in one run."""
    policy = project.definitions.resolve_assets_def(table.key).backfill_policy
    return policy.max_partitions_per_run or 1 if policy else 1


_LONG_HEADINGS = ("dupli-\ncate", "quaran-\ntined")  # so that the table fits a terminal of 80 columns


def pending(project: Project, table: Table) -> list[str]:
    """The partitions that are not in the table as their source is now, oldest first: missing, failed, drifted.

    Those for which the source holds nothing are not among them.
    """
    lake, at = Lake.of(Settings()), now()
    progress = progress_of(project.instance, table, lake, at)
    lost = undone_windows(project.instance, table, lake, progress, at).windows
    return [window.key for window in with_undone(progress, lost) if is_pending(window)]


def complaints(outcomes: Iterable[Outcome]) -> list[str]:
    """What the checks say of each table as it is after its last load, a line for each that is not all well."""
    last = {outcome.table: outcome for outcome in outcomes if not outcome.failure}
    return [
        f"[yellow]Checks of {table} that complain:[/] {', '.join(outcome.complaints)}. More: incload check {table}"
        for table, outcome in last.items()
        if outcome.complaints
    ]


def summary(outcomes: Iterable[Outcome]) -> Grid:
    """What became of the rows, one line per table."""
    grid = screen.grid("table")
    for heading in ("parti-\ntions", "failed", "read", "inserted", "updated", "deleted", "stale", *_LONG_HEADINGS):
        grid.add_column(heading, justify="right")
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
