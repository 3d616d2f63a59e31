"""``incload history`` and ``incload audit``: every load of a table, and what people did to tables."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape

from incload_assets.cli.support import screen
from incload_assets.cli.support.options import AllAsJson, TableName
from incload_assets.cli.support.project import open_project
from incload_assets.declaration.window import now
from incload_assets.history.load_row import LoadRow
from incload_assets.history.loads_table import LoadsTable
from incload_assets.load.faults import Faults, expect_readable, unreadable_tables
from incload_assets.load.undo_plan import KeptLanding, kept_landings
from incload_assets.platform.wording import several
from incload_assets.progress.audit import FAILED, chain_of, chosen
from incload_assets.progress.pause import parse_since


def history(
    table: TableName,
    partition: Annotated[str | None, typer.Argument(help="A partition key; default: all partitions.")] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Show this many, the newest.")] = 50,
    as_json: AllAsJson = False,
) -> None:
    """Show the loads of a table, newest last: when, by whom, why, and what they changed.

    Each has the position of its source. A load that changed what its partition holds has made a landing, which has a
    number. The last column says whether the partition can be returned to it, and how long, and to which one `incload
    undo` returns it. With `--before` and a number it returns to the landing before the one with that number.

    The exit code is 1 if the table or its log cannot be read; its loads are shown all the same.

    - **Writes:** no table and no log. Loads that ended since the last time are recorded in the lake's table `_loads`.
    - **Spark:** not started.
    - **Dagster's instance:** needed.

    Example: `incload history orders 2026-01-03`
    """
    with open_project() as project:
        lake, wanted = project.lake, project.table(table)
        project.collect()
        windows = None if partition is None else [partition]
        rows = LoadsTable(lake).rows(tables=[wanted.name], windows=windows)[-most:]
        found, faults = [], Faults(lake)
        with faults.of(wanted):
            expect_readable(wanted, lake)
            found = kept_landings(wanted, lake, {row.window for row in rows})
    kept = {(landing.window, landing.run_id): landing for landing in found}
    if as_json:
        screen.print_json([asdict(row) | _landing(kept.get((row.window, row.run_id))) for row in rows])
    else:
        _show(rows, kept)
    screen.complain_of(faults.found.values())


def _landing(landing: KeptLanding | None) -> dict[str, object]:
    """A landing for programs."""
    if landing is None:
        return {"landing": None}
    return {"landing": landing.number, "kept_until": landing.until, "undo_returns_to_it": landing.is_next}


def _show(rows: Sequence[LoadRow], kept: Mapping[tuple[str, str], KeptLanding]) -> None:
    """Prints loads, with the landings that their partitions can be returned to."""
    what = ("ended (UTC)", "partition", "run", "by", "why", "source position", "rows read", "changed", "outcome")
    grid = screen.grid(*what, "can be returned to")
    for row in rows:
        good = row.outcome == "loaded"
        grid.add_row(
            f"{row.ended_at:%Y-%m-%d %H:%M:%S}",
            row.window,
            row.run_id[:8],
            escape(row.asked_by or row.trigger),
            row.why,
            escape(row.position),
            f"{row.rows_read:,}" if good else "",
            f"+{row.inserted} ~{row.updated} -{row.deleted}" if good else "",
            "[green]loaded[/]" if good else f"[red]{row.outcome}[/] {escape(row.error_class)}",
            str(kept.get((row.window, row.run_id), "")),
        )
    screen.print_grid(grid)


def audit(
    table: Annotated[str | None, typer.Argument(help="Name of a table; none: every table.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="From this time on, in UTC, or for this long, for example `7d`.")
    ] = None,
    as_json: AllAsJson = False,
) -> None:
    """Show who did what to tables, where and why, and verify that nobody altered the record.

    Loads by hand, pauses, rebuilds, restores and other actions of people are entries, oldest first. Each carries the
    hash of the one before. The exit code is 1 if an entry was edited, removed or added, and the first one is named. It
    is 1, too, if a table that was asked for cannot be read.

    - **Writes:** nothing to the lake, except actions in the Dagster UI that were not recorded yet.
    - **Spark:** not started.
    - **Dagster's instance:** needed, to read what was done in the Dagster UI.

    Example: `incload audit orders --since 7d`
    """
    with open_project() as project:
        lake, name = project.lake, project.table(table).name if table else None
        begin = parse_since(since, now()) if since else None
        found = chain_of(lake)
        if found.altered is None:
            project.collect()
            found = chain_of(lake)
        faults = unreadable_tables(project.named([name] if name else None), lake)
    entries = chosen(found, name, begin)
    if as_json:
        altered = None if found.altered is None else found.altered._asdict()
        screen.print_json({"entries": [asdict(entry) | {"hash": entry.hash} for entry in entries], "altered": altered})
    else:
        grid = screen.grid("#", "at (UTC)", "who", "where", "did", "table", "partitions", "run", "because")
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
