"""``incload audit``: what people did to tables, and whether that record is as it was written."""

import json
from collections.abc import Sequence
from typing import Annotated

import typer

from incload_assets.platform.wording import several


def audit(
    table: Annotated[str | None, typer.Argument(help="Name of a table; none: every table.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="From this time on, in UTC, or for this long, for example `7d`.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with everything that is recorded.")] = False,
) -> None:
    """Show who did what to tables, from where and why, oldest first, and verify that nobody has altered the record.

    Loads by hand, pauses, rebuilds, restores and other actions of people are entries. Each carries the hash of the one
    before. The exit code is 1 if an entry was edited, removed or added, and the first one is named. It is 1, too,
    if a table that was asked for cannot be read.

    - **Writes:** nothing to the lake, except actions in the Dagster UI that were not recorded yet.
    - **Spark:** not started.
    - **Dagster's instance:** needed, to read what was done in the Dagster UI.

    Example: `incload audit orders --since 7d`
    """
    from dataclasses import asdict

    from rich.markup import escape

    from incload_assets.cli import screen
    from incload_assets.cli.project import open_project
    from incload_assets.cli.status_view import as_iso
    from incload_assets.declaration.window import now
    from incload_assets.load.faults import unreadable_tables
    from incload_assets.monitoring.telemetry.emitters import collect_and_send
    from incload_assets.platform.lake import Lake
    from incload_assets.platform.settings import Settings
    from incload_assets.progress.audit import FAILED, chain_of, chosen
    from incload_assets.progress.pause import parse_since

    with open_project() as project:
        lake, name = Lake.of(Settings()), project.table(table).name if table else None
        begin = parse_since(since, now()) if since else None
        found = chain_of(lake)
        if found.altered is None:
            collect_and_send(project.instance, project.tables.values(), lake)
            found = chain_of(lake)
        named = [project.tables[name]] if name else [project.tables[each] for each in sorted(project.tables)]
        faults = unreadable_tables(named, lake)
    entries = chosen(found, name, begin)
    if as_json:
        altered = None if found.altered is None else found.altered._asdict()
        told = {"entries": [asdict(entry) | {"hash": entry.hash} for entry in entries], "altered": altered}
        screen.print_json(json.dumps(told, default=as_iso))
    else:
        grid = screen.grid("#")
        for heading in ("at (UTC)", "who", "where", "did", "table", "partitions", "run", "because"):
            grid.add_column(heading)
        for entry in entries:
            grid.add_row(
                str(entry.number),
                f"{entry.at:%Y-%m-%d %H:%M:%S}",
                escape(entry.actor),
                escape(entry.host),
                f"{entry.action}, failed" if entry.details.get(FAILED, "0") != "0" else entry.action,
                escape(entry.table),
                escape(_some(entry.partitions)),
                entry.run_id[:8],
                escape(entry.because),
            )
        screen.print_grid(grid)
    if found.altered is not None:
        screen.complain(str(found.altered))
        raise typer.Exit(1)
    if not as_json:
        screen.say(f"{several(len(found.entries), 'entry', 'entries')}, none altered")
    screen.complain_of(faults.values())


def _some(partitions: Sequence[str]) -> str:
    """Partition keys in short form; entries list each one."""
    return ", ".join(partitions) if len(partitions) <= 2 else f"{partitions[0]} … {partitions[-1]} ({len(partitions)})"
