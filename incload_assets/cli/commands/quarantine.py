"""``incload quarantine``: the rejected rows of a table, and a file of them for the supplier."""

import json
from pathlib import Path
from typing import Annotated

import typer

from resources.wording import several

TREND = 12


def quarantine(
    ctx: typer.Context,
    table: Annotated[list[str] | None, typer.Argument(help="Names of tables; default: all.")] = None,
    reasons: Annotated[
        bool, typer.Option("--reasons", help="Only the reasons and their numbers, without samples.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", help="Write the rows with their whole payloads to this .csv or .jsonl file."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show why rows are in quarantine, by reason and column: how many, since when, how many per partition, samples.

    A row is *superseded* if its key has a newer good change, *discarded* if a person said so (`incload discard`), and
    otherwise *open*. In samples the values of personal columns, and of fields outside the contract, are masked.

    `--export` writes file, row, reasons and payload of every row that is not discarded, for the one who supplies the
    files. These payloads are not masked, so the audit records who has read them.

    - **Writes:** nothing; with `--export` the file, and an entry of the audit.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** not used.

    Example: `incload quarantine orders`
    """
    from dataclasses import asdict

    from rich.markup import escape

    from incload_assets.cli.support import screen
    from incload_assets.cli.support.project import open_project
    from incload_assets.cli.support.quarantine_export import export_rows
    from incload_assets.cli.support.status_view import as_iso
    from incload_assets.monitoring.rows.quarantine import quarantine_of
    from resources.errors import IncrementalLoadError
    from resources.lake import Lake
    from resources.settings import Settings
    from resources.spark.resource import SparkResource

    if export is not None and export.suffix not in (".csv", ".jsonl"):
        raise IncrementalLoadError(
            f"--export {export}: the file ends in {export.suffix!r}",
            rule="the extension determines the format",
            remedy="name a file that ends in .csv or .jsonl",
        )
    verbose: bool = ctx.obj
    with open_project() as project:
        lake = Lake.of(Settings())
        names = table or sorted(project.tables)
        if export is not None and len(names) != 1:
            raise typer.BadParameter("--export takes the rows of one table: name it")
        found = {}
        with screen.apart(verbose=verbose) as console, console.status("reading the logs"):
            for name in names:
                wanted = project.table(name)
                if lake.delta(lake.log_uri(wanted.key.path)) is None:
                    continue
                with SparkResource().session(wanted.name) as spark:
                    found[wanted.name] = quarantine_of(spark, wanted, lake)
                    if export is not None:
                        count = export_rows(spark, wanted, lake, export)
                        console.print(f"{wanted.name}: {several(count, 'row')} written to {export}", markup=False)
    if as_json:
        screen.print_json(json.dumps({n: [asdict(one) for one in ones] for n, ones in found.items()}, default=as_iso))
        return
    if export is not None:
        return
    for name, ones in found.items():
        if not ones:
            if table:
                screen.say(f"{name}: no rejected rows.")
            continue
        grid = screen.grid(f"{name}: reason")
        for heading in ("rows", "open", "super-\nseded", "dis-\ncarded"):
            grid.add_column(heading, justify="right")
        for heading in ("first", "last (UTC)", "per partition"):
            grid.add_column(heading)
        for one in ones:
            latest = [one.per_window[key] for key in sorted(one.per_window)][-TREND:]
            grid.add_row(
                escape(one.reason),
                *(str(count) for count in (one.rows, one.open, one.superseded, one.discarded)),
                f"{one.first_seen:%Y-%m-%d}",
                f"{one.last_seen:%Y-%m-%d %H:%M}",
                " ".join(map(str, latest)),
            )
        screen.print_grid(grid)
        for one in ones if not reasons else []:
            screen.say(escape(f"{one.reason}:"))
            for sample in one.samples:
                screen.say(escape(f"  {sample.state}, {sample.window}, {sample.place}: {sample.payload}"))
