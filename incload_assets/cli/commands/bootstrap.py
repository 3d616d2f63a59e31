"""``incload bootstrap``: a big table at first."""

from typing import Annotated

import typer

from incload_assets.change_log.log import ChangeLog
from incload_assets.cli.support import screen
from incload_assets.cli.support.loads import complaints, run_loads
from incload_assets.cli.support.options import TableName
from incload_assets.cli.support.project import Project, open_project
from incload_assets.cli.support.runs import free_from_killed_runs
from incload_assets.declaration.partition_keys import chosen
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.load.in_chunks import MOST_CHUNKS, refuse_chunks
from incload_assets.load.pending import is_pending
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.wording import size
from incload_assets.progress.lake_identity import expect_known_lake
from incload_assets.progress.pause import expect_not_paused
from incload_assets.progress.progress import progress_of
from incload_assets.progress.request import Request

_CHUNKS = typer.Option("--chunks", min=2, max=MOST_CHUNKS, help="Read it in about so many chunks.")
_AT_ONCE = typer.Option("--at-once", min=1, max=64, help="Read so many chunks at a time.")
_PARTITION = typer.Option("--partition", "-p", help="Default: the one for which the source holds most.")


def bootstrap(
    ctx: typer.Context,
    table: TableName,
    chunks: Annotated[int, _CHUNKS] = 16,
    at_once: Annotated[int, _AT_ONCE] = 2,
    partition: Annotated[str | None, _PARTITION] = None,
) -> None:
    """Load a partition with very many rows in chunks, and go on with them after a kill.

    For a table that begins with a large database table, folder or topic: one partition has all that is older than the
    others. Its chunks are ranges of the window column, groups of files or ranges of offsets. Each is read and validated
    by itself, and kept in the lake. When all are there the partition lands in one commit, is merged, reconciled and
    turns green, as in any load. Other partitions load meanwhile, unless loads of the table run one at a time and it has
    a subject, or a sensor's run goes on with the chunks; of a row in both the newer change stays.

    If it is killed, repeat it: chunks are read again only if they were not finished, the source holds other rows for
    them since, or they are older than 36 hours; all of them if the partition has become complete, or was refused for
    its rejected rows. Any other load of the partition goes on with them, too. Dagster's run monitoring ends a run that
    takes longer than max_runtime_seconds of dagster.yaml (four hours), and the next one goes on. Rows, share and time
    left are shown here, in the run's log, and as observations of the partition in the UI.

    - **Writes:** the table and its log in the lake. The source is only read.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed; the load is a run there, and the partition turns green in the UI.

    Example: `incload bootstrap orders --chunks 32 --at-once 4`
    """
    with open_project(verbose=ctx.obj) as project:
        wanted = project.table(table)
        refuse_chunks(wanted)
        expect_not_paused(project.lake, wanted.name)
        expect_known_lake(project.instance, wanted, project.lake)
        free_from_killed_runs(project)
        key = _biggest(project, wanted) if partition is None else _never_loaded(project, wanted, partition)
        if key is None:
            screen.say(f"{wanted.name}: the source has no rows for a partition that was never loaded.")
            return
        loads = run_loads(project, wanted, [key], Request(chunks=chunks, at_once=at_once), yes=True)
    for line in complaints(loads.outcomes):
        screen.say(line)
    if loads.failed:
        screen.complain(f"{wanted.name} {key}: not loaded; chunks that were read are kept, repeat it to go on")
        raise typer.Exit(1)


def _biggest(project: Project, table: Table) -> str | None:
    """The partition that was never landed and has most at the source; None if there is no such partition."""
    found = progress_of(project.instance, table, project.lake, now())
    new = [one for one in found if is_pending(one) and one.record is None]
    sizes = {one.key: one.position.size for one in new if one.position is not None}
    if not sizes:
        return None
    key = max(sizes, key=lambda one: sizes[one])
    screen.say(f"{table.name}: partition {key}, about {size(sizes[key])} at the source")
    return key


def _never_loaded(project: Project, table: Table, partition: str) -> str:
    keys = chosen(table, partition)
    if len(keys) != 1:
        raise IncrementalLoadError(
            f"{table.name}: {partition} names {len(keys)} partitions",
            rule="one partition is read in chunks at a time",
            remedy="name the one that has very many rows, and load the others with incload load",
        )
    if ChangeLog(table, project.lake).record(keys[0]) is not None:
        raise IncrementalLoadError(
            f"{table.name} {keys[0]}: it was loaded before",
            rule="only the first load of a partition is read in chunks",
            remedy=f"load it again as a whole: incload load {table.name} --partitions {keys[0]}",
        )
    return keys[0]
