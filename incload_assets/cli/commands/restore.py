"""``incload rebuild``, ``doctor``, ``adopt``, ``backup``, ``restore-instance``: tables and Dagster agree again."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TaskID

from incload_assets.change_log.context import LoadContext
from incload_assets.cli.support import screen
from incload_assets.cli.support.folder import enter_project
from incload_assets.cli.support.options import TableName, TableNames, Yes, confirm
from incload_assets.cli.support.project import Project, open_project
from incload_assets.declaration.partition_keys import shown
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.load.faults import Faults, expect_readable
from incload_assets.load.tables import adapt_tables
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.wording import several, size
from incload_assets.progress.audit import AuditEntry, record
from incload_assets.progress.backup import back_up, replaced_by, restore
from incload_assets.progress.lake_identity import adopt_lake as adopt_this_lake
from incload_assets.restore import adopt as adoption
from incload_assets.restore import rebuild as rebuilding
from incload_assets.restore.doctor import examine


def rebuild(
    ctx: typer.Context,
    table: TableNames = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what could be proven.")] = False,
    forget_beliefs: Annotated[
        bool,
        typer.Option(
            "--forget-beliefs",
            help="Make lost tables with `History(known=True)` again, without what was believed earlier.",
        ),
    ] = False,
) -> None:
    """Turn partitions green again after Dagster's storage was lost, without their sources.

    A partition is reported as loaded if the full fold of its keys from the log finds nothing to do in the table. The
    others stay as they are, with the reason; a load repairs them. It can be repeated at any time. The exit code is 1 if
    a partition could not be proven, or a table or its log cannot be read; the other tables are proven all the same.

    A lost table that kept what was believed earlier is not made again by loads, as its log has only what is believed
    now. With `--forget-beliefs` it is made again, empty, and loads fill it with that.

    - **Writes:** nothing to tables and logs, except empty tables with `--forget-beliefs`; an entry in the audit;
      checkpoints to Dagster's instance.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed; it may be empty.

    Example: `incload rebuild --dry-run`
    """
    refused = False
    if forget_beliefs and (not table or dry_run):
        raise typer.BadParameter("--forget-beliefs takes the names of tables, and no --dry-run")
    with open_project(verbose=ctx.obj) as project:
        faults, wanted = Faults(project.lake), project.named(table)
        for one in wanted if forget_beliefs else ():
            _made_empty(project, one)
        with screen.apart(verbose=project.verbose) as console, screen.progress_bar(console) as progress:
            for one in wanted:
                found = None
                with faults.of(one):
                    found = _rebuilt(project, one, progress, dry_run=dry_run)
                if found is not None:
                    _show(project, one, found, console, dry_run=dry_run)
                    refused = refused or bool(found.refused)
    screen.complain_of(faults.found.values())
    if refused:
        raise typer.Exit(1)


def _made_empty(project: Project, table: Table) -> None:
    """Makes a lost table that kept what was believed earlier, empty, and records that in the audit."""
    lake = project.lake
    if table.write.open_rows is None or lake.delta(uri := lake.table_uri(table.key.path)) is not None:
        raise IncrementalLoadError(
            f"{table.name}: no beliefs are lost",
            rule="--forget-beliefs is for a table with write=History(known=True) that is gone",
            remedy="leave it out",
        )
    record(lake, AuditEntry(action="rebuild", table=table.name, details={"forgot": "beliefs", "lost": uri}))
    with screen.apart(verbose=project.verbose), project.load(table) as load:
        adapt_tables(load)


def _rebuilt(project: Project, table: Table, progress: Progress, *, dry_run: bool) -> rebuilding.Rebuilt | None:
    """The proof of a table; None if it has no log."""
    lake, bar = project.lake, progress.add_task(table.name, total=None)
    try:
        expect_readable(table, lake)
        if lake.delta(lake.log_uri(table.key.path)) is None:
            return None
        with project.spark(table.name) as spark:
            load, done = LoadContext(spark, table, lake), partial(_advance, progress, bar)
            return rebuilding.rebuild(load, project.instance, dry_run=dry_run, done=done)
    finally:
        progress.remove_task(bar)


def _advance(progress: Progress, bar: TaskID, done: int, total: int) -> None:
    progress.update(bar, completed=done, total=total)


def _show(project: Project, table: Table, found: rebuilding.Rebuilt, console: Console, *, dry_run: bool) -> None:
    """Prints what was proven of a table, and records it in the audit."""
    if found.proven and not dry_run:
        record(project.lake, AuditEntry(action="rebuild", table=table.name, partitions=sorted(found.proven)))
    keys = table.keys_at(now())
    console.print(found.summary(table.name, dry_run=dry_run), markup=False)
    for why in dict.fromkeys(found.refused.values()):
        those = [key for key, reason in found.refused.items() if reason == why]
        console.print(f"  {shown(those, keys)}: {why}", markup=False)


def doctor(
    table: Annotated[str | None, typer.Argument(help="Name of a table; none: every table.")] = None,
    adopt_lake: Annotated[
        bool, typer.Option("--adopt-lake", help="Let loads go on in the lake as it is now: it was moved or replaced.")
    ] = False,
) -> None:
    """Compare what Dagster, the logs, the tables and the lake's identity say.

    These are Dagster's partitions, the logs' records and the tables' commits. Each disagreement is one line with its
    remedy, and the exit code is 1 if there is one. So is a table or log that cannot be read. No source is asked.

    Loads into a lake that was copied, moved or swapped, or is another environment's, are refused until `--adopt-lake`
    says that this lake is to go on here. Dagster's checkpoints are then taken to be of this lake; what they contradict
    is told afterwards.

    - **Writes:** nothing; with `--adopt-lake` the lake's identity to Dagster's instance, the environment to the
      lake, and an entry in the audit.
    - **Spark:** not started.
    - **Dagster's instance:** needed.

    Example: `incload doctor orders`
    """
    with open_project() as project:
        lake, at, tables = project.lake, now(), project.named([table] if table else None)
        if adopt_lake:
            changed = adopt_this_lake(project.instance, tables, lake)
            if changed:
                former = {name: f"{known.identity} at {known.root}" for name, known in changed.items() if known}
                why = f"lake {lake.identity()} at {lake.root}"
                record(lake, AuditEntry(action="adopt", because=why, details=former))
            screen.say(escape(f"the lake {lake.root} is adopted for {len(changed)} of {several(len(tables), 'table')}"))
        found = examine(project.instance, tables, lake, at)
    keys = {one.name: one.keys_at(at) for one in tables}
    for each in found:
        partitions = shown(each.partitions, keys[each.table]) if each.partitions else ""
        where = " ".join(filter(None, [each.table, partitions])) or "audit"
        screen.say(escape(f"{where}: {each.what}. Remedy: {each.remedy}."))
    if found:
        raise typer.Exit(1)
    screen.say(f"{several(len(tables), 'table')} examined: Dagster, logs, tables and lake agree")


def adopt(
    ctx: typer.Context,
    table: TableName,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only examine the table.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Begin again if the table has changed since an interrupted adoption.")
    ] = False,
    because: Annotated[str, typer.Option(help="The reason, for the audit.")] = "",
) -> None:
    """Adopt a Delta table that no load has made: its rows become the log's oldest changes.

    The rows stay where they are. Keys, columns, layout and features of the table are examined first, and recent other
    writers are named. Loads of the table are refused until its adoption is complete. An adoption that was interrupted
    goes on when it is repeated.

    - **Writes:** the table's log in the lake, and properties of the table; with `--dry-run` nothing.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** not used.

    Example: `incload adopt orders --dry-run`
    """
    with open_project(verbose=ctx.obj) as project:
        wanted = project.table(table)
        with screen.apart(verbose=project.verbose) as console, screen.progress_bar(console) as progress:
            bar = progress.add_task(wanted.name, total=None)
            with project.load(wanted) as load:
                advance = partial(_advance, progress, bar)
                done = adoption.adopt(load, dry_run=dry_run, again=again, because=because, done=advance)
            progress.remove_task(bar)
            console.print(done.summary(wanted.name), markup=False)
            for note in done.notes:
                console.print(f"  {note}", markup=False)


def backup(
    to: Annotated[Path | None, typer.Option("--to", help="Folder of the backups; default: INCLOAD_BACKUPS.")] = None,
    keep: Annotated[int, typer.Option("--keep", min=1, help="Keep so many, the newest.")] = 14,
) -> None:
    """Save Dagster's storage, with all checkpoints; a job does so every night.

    Dagster may be running. The default storage is saved, SQLite files. Postgres is saved by its own means. Put the
    folder on another disk.

    - **Writes:** an archive to the folder; older ones are removed. An entry in the audit.
    - **Spark:** not started.
    - **Dagster's instance:** read.

    Example: `incload backup --to /mnt/backups`
    """
    with open_project() as project:
        done = back_up(project.instance, to or project.settings.backups_root, keep)
        record(project.lake, AuditEntry(action="backup", details={"file": str(done.file)}))
    older = f"; removed {len(done.removed)} older" if done.removed else ""
    screen.say(f"{done.file}: {done.databases} databases, {size(done.file.stat().st_size)}{older}")


def restore_instance(
    file: Annotated[Path, typer.Argument(help="An archive that `incload backup` made.")],
    yes: Yes = False,
) -> None:
    """Put a backup of Dagster's storage back. Dagster must not be running.

    It shows how many runs the backup lacks, and goes on when the name of the backup's file is typed.

    Loads since the backup are requested again, and write only what differs; `incload rebuild` proves them without
    reading their sources.

    - **Writes:** Dagster's storage. What was there is moved aside, and the folder is named. An entry in the audit.
    - **Spark:** not started.
    - **Dagster's instance:** replaced.

    Example: `incload restore-instance .incload/backups/dagster-20260103T024000Z.zip`
    """
    given = file.absolute()
    enter_project()
    home = Path(os.environ["DAGSTER_HOME"])

    def gone() -> list[str]:
        runs, since = replaced_by(given, home)
        newer = f"{since} of {several(runs, 'run')} in {home} began after {given.name} was made"
        return [f"{newer}; they, their checkpoints and logs will be gone from Dagster"] if runs else []

    confirm("incload restore-instance", given.name, "the name of the backup's file", gone, yes=yes)
    replaced = restore(given, home)
    details = {"backup": given.name, "replaced": str(replaced)}
    record(Lake.of(Settings()), AuditEntry(action="restore", details=details))
    screen.say(f"restored {given.name}; what was there is in {replaced}")
