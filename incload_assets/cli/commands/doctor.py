"""``incload doctor``: where Dagster, logs, tables and lake contradict each other."""

from typing import Annotated

import typer

from resources.wording import several


def doctor(
    table: Annotated[str | None, typer.Argument(help="Name of a table; none: every table.")] = None,
    adopt_lake: Annotated[
        bool, typer.Option("--adopt-lake", help="Let loads go on in the lake as it is now: it was moved or replaced.")
    ] = False,
) -> None:
    """Compare Dagster's partitions, the logs' records, the tables' commits and the lake's identity.

    Each disagreement is one line with its remedy, and the exit code is 1 if there is one. So is a table or log that
    cannot be read. No source is asked.

    Loads into a lake that was copied, moved or swapped are refused until `--adopt-lake` says that this lake is to go
    on. Dagster's checkpoints are then taken to be of this lake; what they contradict is told afterwards.

    - **Writes:** nothing; with `--adopt-lake` the lake's identity to Dagster's instance, and an entry in the audit.
    - **Spark:** not started.
    - **Dagster's instance:** needed.

    Example: `incload doctor orders`
    """
    from rich.markup import escape

    from incload_assets.cli.support import screen
    from incload_assets.cli.support.partition_keys import shown
    from incload_assets.cli.support.project import open_project
    from incload_assets.declaration.window import now
    from incload_assets.progress.audit import AuditEntry, record
    from incload_assets.progress.lake_identity import adopt_lake as adopt
    from incload_assets.recovery.doctor import examine
    from resources.lake import Lake
    from resources.settings import Settings

    with open_project() as project:
        lake, at = Lake.of(Settings()), now()
        tables = [project.table(table)] if table else [project.tables[name] for name in sorted(project.tables)]
        if adopt_lake:
            changed = adopt(project.instance, tables, lake)
            if changed:
                former = {name: f"{known.identity} at {known.root}" for name, known in changed.items() if known}
                why = f"lake {lake.identity()} at {lake.root}"
                record(lake, AuditEntry(action="adopt", because=why, details=former))
            screen.say(escape(f"the lake {lake.root} is adopted for {len(changed)} of {several(len(tables), 'table')}"))
        found = examine(project.instance, tables, lake, at)
        keys = {one.name: one.partitions_def.get_partition_keys(current_time=at) for one in tables}
    for each in found:
        partitions = shown(each.partitions, keys[each.table]) if each.partitions else ""
        where = " ".join(filter(None, [each.table, partitions])) or "audit"
        screen.say(escape(f"{where}: {each.what}. Remedy: {each.remedy}."))
    if found:
        raise typer.Exit(1)
    screen.say(f"{several(len(tables), 'table')} examined: Dagster, logs, tables and lake agree")
