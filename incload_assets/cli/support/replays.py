"""Replays of partitions, run after run, with a progress bar and what became of their rejected rows."""

from collections.abc import Sequence

import typer

from incload_assets.change_log.log import ChangeLog
from incload_assets.cli.support import screen
from incload_assets.cli.support.loads import run_loads
from incload_assets.cli.support.project import Project
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import known_windows
from incload_assets.progress.request import Request
from resources.lake import Lake
from resources.settings import Settings
from resources.wording import several


def replay_partitions(project: Project, table: Table, keys: Sequence[str], because: str, *, verbose: bool) -> None:
    """Replays partitions, oldest first, and tells how many rejected rows pass.

    Args:
        project: The project.
        table: The declaration.
        keys: The partition keys.
        because: Why.
        verbose: Show Dagster's log.

    Raises:
        typer.Exit: A replay failed.
    """
    ordered = [window.key for window in known_windows(table.partitions_def, list(keys))]

    def rejected() -> int:
        return sum(one.rejected for one in ChangeLog(table, Lake.of(Settings())).controls(only=ordered).values())

    before, request = rejected(), Request(action="replay", because=because)
    failed = run_loads(project, table, ordered, request, verbose=verbose)
    after = rejected()
    judged = f"{table.name}: judged {several(before, 'rejected row')} again; "
    screen.say(judged + (f"{before - after} pass, " if before >= after else "") + f"{after} stay rejected.")
    if failed:
        screen.complain(f"{table.name}: {failed} of {several(len(ordered), 'partition')} not replayed")
        raise typer.Exit(1)
