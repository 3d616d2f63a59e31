"""``incload history``: every load of a table or of one partition."""

import json
from typing import Annotated

import typer


def history(
    table: Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")],
    partition: Annotated[str | None, typer.Argument(help="A partition key; default: all partitions.")] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Show this many, the newest.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with everything that is recorded.")] = False,
) -> None:
    """Show the loads of a table, newest last: when, by whom and why, from which source position, and what they changed.

    A load that changed what its partition holds has made a landing, which has a number. The last column tells whether
    the partition can be returned to it, and how long, and to which one `incload undo` returns it. With `--before` and a
    number it returns to the landing before the one with that number.

    The exit code is 1 if the table or its log cannot be read; its loads are shown all the same.

    - **Writes:** no table and no log. Loads that ended since the last time are recorded in the lake's table `_loads`.
    - **Spark:** not started.
    - **Dagster's instance:** needed.

    Example: `incload history orders 2026-01-03`
    """
    from rich.markup import escape

    from incload_assets.cli.support import screen
    from incload_assets.cli.support.project import open_project
    from incload_assets.cli.support.status_view import as_iso
    from incload_assets.load.faults import Faults, expect_readable
    from incload_assets.load.undo_plan import kept_landings
    from incload_assets.monitoring.loads_table import LoadsTable
    from incload_assets.monitoring.telemetry.emitters import collect_and_send
    from resources.lake import Lake
    from resources.settings import Settings

    with open_project() as project:
        lake, wanted = Lake.of(Settings()), project.table(table)
        collect_and_send(project.instance, project.tables.values(), lake)
        windows = None if partition is None else [partition]
        rows = LoadsTable(lake).rows(tables=[wanted.name], windows=windows)[-most:]
        found, faults = [], Faults(lake)
        with faults.of(wanted):
            expect_readable(wanted, lake)
            found = kept_landings(wanted, lake, {row.window for row in rows})
    kept = {(landing.window, landing.run_id): landing for landing in found}
    if as_json:
        records = []
        for row in rows:
            landing = kept.get((row.window, row.run_id))
            of_landing: dict[str, object] = {"landing": None}
            if landing:
                of_landing = {
                    "landing": landing.number,
                    "kept_until": landing.until,
                    "undo_returns_to_it": landing.is_next,
                }
            records.append(vars(row) | of_landing)
        screen.print_json(json.dumps(records, default=as_iso))
        screen.complain_of(faults.found.values())
        return
    grid = screen.grid("ended (UTC)")
    for name in (
        "partition",
        "run",
        "by",
        "why",
        "source position",
        "rows read",
        "changed",
        "outcome",
        "can be returned to",
    ):
        grid.add_column(name)
    for row in rows:
        changed = f"+{row.inserted} ~{row.updated} -{row.deleted}"
        good = row.outcome == "loaded"
        grid.add_row(
            f"{row.ended_at:%Y-%m-%d %H:%M:%S}",
            row.window,
            row.run_id[:8],
            escape(row.asked_by or row.trigger),
            row.why,
            escape(row.position),
            f"{row.rows_read:,}" if good else "",
            changed if good else "",
            "[green]loaded[/]" if good else f"[red]{row.outcome}[/] {escape(row.error_class)}",
            str(kept.get((row.window, row.run_id), "")),
        )
    screen.print_grid(grid)
    screen.complain_of(faults.found.values())
