"""``incload pause``, ``resume``, ``silence``, ``compact``, ``rebucket``: stopped loads and messages, other sizes."""

from datetime import datetime
from typing import Annotated

import typer
from rich.markup import escape

from incload_assets.change_log.context import LoadContext
from incload_assets.cli.support import screen
from incload_assets.cli.support.options import TableName, TableNames, Yes, confirm
from incload_assets.cli.support.project import Project, open_project
from incload_assets.cli.support.runs import free_from_killed_runs, run_compaction
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.maintenance.compact_logs import at_rest_in, plan_compaction
from incload_assets.maintenance.rebucket import as_wanted, rebucket_alone
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.wording import several
from incload_assets.progress import pause as pauses
from incload_assets.progress import silence as silences

_UNTIL = typer.Option("--until", help="A time such as `2026-01-06T12:00`, in UTC, or a duration such as `2h`.")


def pause(
    table: TableName,
    until: Annotated[str, _UNTIL],
    because: Annotated[str, typer.Option("--because", help="Why; everybody who looks at the table sees it.")],
) -> None:
    """Stop the loads of a table for a time. Detection and checks go on.

    The sensor requests nothing, and loads by hand, backfills and queued runs are refused; a load that runs
    already ends as usual. `incload status`, checks, metrics and dashboards say who paused the table, why and until
    when. The pause ends by itself, or with `incload resume`.

    - **Writes:** an entry in the audit.
    - **Spark:** not started.
    - **Dagster's instance:** not used.

    Example: `incload pause orders --until 2h --because migration`
    """
    with open_project() as project:
        wanted = project.table(table)
        made = pauses.pause(project.lake, wanted.name, pauses.parse_until(until, now()), because)
    screen.say(escape(f"{wanted.name} is {made}"))


def resume(
    table: TableName,
    because: Annotated[str, typer.Option("--because", help="Why.")] = "",
) -> None:
    """End the pause of a table: the sensor requests what has arrived meanwhile.

    - **Writes:** an entry in the audit.
    - **Spark:** not started.
    - **Dagster's instance:** not used.

    Example: `incload resume orders`
    """
    with open_project() as project:
        wanted = project.table(table)
        ended = pauses.resume(project.lake, wanted.name, because)
    screen.say(escape(f"{wanted.name} is loaded again; it was {ended}"))


def silence(
    tables: TableNames = None,
    until: Annotated[str, _UNTIL] = "",
    because: Annotated[str, typer.Option("--because", help="Why; `incload status` and the audit say it.")] = (
        "planned work"
    ),
    off: Annotated[bool, typer.Option("--off", help="End the silence.")] = False,
) -> None:
    """Send no messages and alerts for a time, for a deployment or other planned work.

    Loads and checks go on. Notifications are not sent, and Alertmanager with the rendered rules notifies nobody: of the
    named tables, or, without names, of all tables, the daemon, Spark and the exporter. What is still wrong at the end
    is told then. A silence ends by itself, or with `--off`.

    - **Writes:** an entry in the audit for each table, or one for all.
    - **Spark:** not started.
    - **Dagster's instance:** not used.

    Example: `incload silence --until 1h --because "deployment of 2.4"`
    """
    if bool(until) == off:
        raise typer.BadParameter("write either --until, for example --until 1h, or --off")
    with open_project() as project:
        names = [project.table(name).name for name in tables or ()]
        if off:
            found = silences.unsilence(project.lake, names)
        else:
            found = silences.silence(project.lake, names, pauses.parse_until(until, now()), because)
    for one in found:
        about = one.table or "every table"
        screen.say(escape(f"{about} is reported again; it was {one}" if off else f"{about} is {one}"))


def compact(ctx: typer.Context, table: TableName, yes: Yes = False) -> None:
    """Remove from a table's log what no longer decides; a schedule does so every night.

    The table has a `log_retention`. Partitions older than it are then replaced only by choice, with `incload load
    --rewrite-compacted`. If anything would be removed, it shows how much, and goes on when the table's name is typed.

    - **Writes:** the table's log in the lake, which cannot be undone. The table does not change.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed; partitions that a run has in hand are left alone.

    Example: `incload compact customers`
    """
    with open_project(verbose=ctx.obj) as project:
        wanted = project.table(table)
        if wanted.log_retention is None:
            raise IncrementalLoadError(
                f"{wanted.name} declares no log_retention",
                rule="without one its log keeps every change, so that every partition can be rewritten",
                remedy="write for example log_retention=timedelta(days=90) in its @incremental_asset",
            )
        free_from_killed_runs(project)
        older_than = now() - wanted.log_retention
        confirm("incload compact", wanted.name, "the table's name", lambda: _gone(project, wanted, older_than), yes=yes)
        with screen.apart(verbose=project.verbose) as console, console.status(f"compacting the log of {wanted.name}"):
            found = run_compaction(project, wanted)
    screen.say(
        f"{wanted.name}: compacted {several(found['log_windows_compacted'], 'partition')}, "
        f"{found['log_windows_added']} of them for the first time; removed {found['log_changes_removed']} of "
        f"{several(found['log_changes_before'], 'change')} from the log; left alone: {found['log_windows_busy']}"
    )


def rebucket(
    ctx: typer.Context,
    table: TableName,
    buckets: Annotated[
        int | None,
        typer.Option("--buckets", min=2, max=1000, help="The declared number; with buckets='auto' any."),
    ] = None,
    because: Annotated[str, typer.Option("--because", help="Why, for the audit.")] = "",
) -> None:
    """Divide a table into the number of hash buckets that its declaration has now.

    Declare the number first, for example `Merge(buckets=64)`: loads stop until the table has it. With `buckets="auto"`
    the command alone says the number.

    The table is rewritten in one commit, and its rows are proven equal before and after, bucket by bucket. Meanwhile it
    is paused; readers go on. A command that was killed goes on when it is repeated.

    - **Writes:** every file of the table, properties of table and log, entries in the audit.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** not used.

    Example: `incload rebucket customers --buckets 64`
    """
    with open_project(verbose=ctx.obj) as project:
        wanted = as_wanted(project.table(table), buckets)
        with (
            screen.apart(verbose=project.verbose) as console,
            console.status(f"dividing {wanted.name}"),
            project.load(wanted) as load,
        ):
            done = rebucket_alone(load, buckets, because=because)
    screen.say(escape(done.summary(wanted.name)))


def _gone(project: Project, table: Table, older_than: datetime) -> list[str]:
    """The changes that a compaction would remove for good, in a line; nothing if it would change nothing."""
    with screen.apart(verbose=project.verbose), project.spark(table.name) as spark:
        load = LoadContext(spark, table, project.lake)
        found = plan_compaction(load, older_than, at_rest_in(project.instance, table))
    if not (found.added or found.removed):
        return []
    return [
        f"{table.name}: {found.removed} of {several(found.before, 'change')} in "
        f"{several(found.windows, 'partition')} will be gone from the log; {found.added} of these partitions "
        "will from now on be replaced only by choice, and can no longer be undone"
    ]
