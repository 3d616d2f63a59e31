"""``incload status``: what is loaded, what is not, and how late."""

import json
from dataclasses import asdict
from typing import Annotated

import typer


def status(
    table: Annotated[str | None, typer.Argument(help="Name of a table, for its partitions too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every partition key.")] = False,
) -> None:
    """Show per table how many partitions are loaded, missing, failed or drifted, and how fresh it is.

    With a table's name, its partitions, the causes of failures and advice are shown, too. If a source does not respond,
    or a table cannot be read, the other tables are shown all the same. The exit code is 1 then, and if the audit or the
    decisions cannot be read, or logs have loads that Dagster does not know, because its storage was lost.

    - **Writes:** no table and no log. A source may record where its windows end, and hashes of files are cached.
    - **Spark:** not started.
    - **Dagster's instance:** needed, to read checkpoints.

    Example: `incload status orders --json`
    """
    from rich.markup import escape

    from incload_assets.cli import screen
    from incload_assets.cli.advice import advice_for
    from incload_assets.cli.partition_keys import shown
    from incload_assets.cli.project import open_project
    from incload_assets.cli.status_view import COUNTED, LABELS, as_iso, overview
    from incload_assets.declaration.table import Table
    from incload_assets.declaration.window import now
    from incload_assets.load.faults import Faults, expect_readable, unreadable_of_lake
    from incload_assets.platform.lake import Lake
    from incload_assets.platform.settings import Settings
    from incload_assets.platform.wording import some
    from incload_assets.progress.silence import silence_of, silences
    from incload_assets.progress.status import TableStatus, forgotten_loads, table_status

    with open_project() as project:
        lake = Lake.of(Settings())
        tables = [project.table(table)] if table else [project.tables[name] for name in sorted(project.tables)]
        known: dict[str, TableStatus] = {}
        faults = Faults(lake)

        def look(one: Table) -> None:
            known[one.name] = table_status(project.instance, one, lake)
            expect_readable(one, lake)

        faults.in_threads(tables, look)
        found = [known[one.name] for one in tables if one.name in known]
        unknown = faults.found
        if as_json:
            troubles = [{"table": name, "error": why} for name, why in unknown.items()]
            screen.print_json(json.dumps([*map(asdict, found), *troubles], default=as_iso))
        else:
            screen.print_grid(overview(found, [name for name in unknown if name not in known]))
            in_force = silences(lake)
            told = [of for each in found if (of := silence_of(in_force, each.table))]
            for silence in dict.fromkeys(told):
                screen.say(escape(f"{silence.table or 'Every table'} is {silence}"))
            for each in found:
                for era in each.closed:
                    screen.say(escape(f"{each.table}: {era}"))
                if each.paused:
                    screen.say(escape(f"{each.table} is {each.paused}"))
                if each.left_out:
                    names = some([*map(repr, each.left_out)])
                    screen.say(escape(f"{each.table}: left out by the path, because of their names: {names}"))
        faults_of_lake = unreadable_of_lake(lake)
        for fault in (*faults_of_lake.values(), *unknown.values()):
            screen.complain(str(fault))
        forgotten = {each.table: len(each.forgotten) for each in found if each.forgotten}
        if forgotten:
            screen.complain(". Remedy: ".join(forgotten_loads(forgotten)))
        if table and found and not as_json:
            keys = tables[0].partitions_def.get_partition_keys(current_time=now())
            for name in COUNTED:
                if chosen := getattr(found[0], name):
                    screen.say(f"{LABELS.get(name, name)}: {shown(chosen, keys)}")
            for key, cause in found[0].causes.items():
                screen.say(f"{key} failed: {cause}")
            for key, hold in found[0].holds.items():
                screen.say(f"{key} is {hold}. Its source is loaded when it changes, or with incload release.")
            for why in dict.fromkeys(found[0].undone.values()):
                lost = [key for key, reason in found[0].undone.items() if reason == why]
                screen.say(f"no longer in the table: {shown(lost, keys)} ({why})")
            if advice := advice_for(project.instance, tables[0], lake):
                screen.say(f"advice: {advice}")
    if unknown or faults_of_lake or forgotten:
        raise typer.Exit(1)
