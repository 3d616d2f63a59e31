"""``incload quarantine``: the rejected rows of a table, and a file of them for the supplier."""

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from rich.markup import escape

from incload_assets.change_log.log import ChangeLog
from incload_assets.cli.support import screen
from incload_assets.cli.support.options import AsJson, TableNames
from incload_assets.cli.support.project import open_project
from incload_assets.declaration.table import Table
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.platform.wording import several
from incload_assets.progress.audit import AuditEntry, record
from incload_assets.quarantine.quarantine import DISCARDED, Rejections, quarantine_of, rejected_rows

TREND = 12
_COLUMNS = ("file", "row", "partition", "reasons", "payload")


def quarantine(
    ctx: typer.Context,
    table: TableNames = None,
    reasons: Annotated[
        bool, typer.Option("--reasons", help="Only the reasons and their numbers, without samples.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", help="Write the rows with their whole payloads to this .csv or .jsonl file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show why rows are in quarantine, by reason and column, with samples.

    Each reason has its number of rows, in all and per partition, and since when there are any. A row is *superseded* if
    its key has a newer good change, *discarded* if a person said so (`incload discard`), and otherwise *open*. In
    samples the values of personal columns, and of fields outside the contract, are masked.

    `--export` writes file, row, reasons and payload of every row that is not discarded, for the one who supplies the
    files. These payloads are not masked, so the audit records who has read them.

    - **Writes:** nothing; with `--export` the file, and an entry of the audit.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** not used.

    Example: `incload quarantine orders`
    """
    if export is not None and export.suffix not in (".csv", ".jsonl"):
        raise IncrementalLoadError(
            f"--export {export}: the file ends in {export.suffix!r}",
            rule="the extension determines the format",
            remedy="name a file that ends in .csv or .jsonl",
        )
    with open_project(verbose=ctx.obj) as project:
        lake, names = project.lake, table or sorted(project.tables)
        if export is not None and len(names) != 1:
            raise typer.BadParameter("--export takes the rows of one table: name it")
        found = {}
        with screen.apart(verbose=project.verbose) as console, console.status("reading the logs"):
            for wanted in map(project.table, names):
                if lake.delta(lake.log_uri(wanted.key.path)) is None:
                    continue
                with project.spark(wanted.name) as spark:
                    found[wanted.name] = quarantine_of(spark, wanted, lake)
                    if export is not None:
                        count = export_rows(spark, wanted, lake, export)
                        console.print(f"{wanted.name}: {several(count, 'row')} written to {export}", markup=False)
    if as_json:
        screen.print_json({name: [asdict(one) for one in ones] for name, ones in found.items()})
    elif export is None:
        for name, ones in found.items():
            if ones:
                _show(name, ones, samples=not reasons)
            elif table:
                screen.say(f"{name}: no rejected rows.")


def _show(name: str, found: Sequence[Rejections], *, samples: bool) -> None:
    """Prints the rejected rows of a table by reason."""
    numbers = ("rows", "open", "super-\nseded", "dis-\ncarded")
    grid = screen.grid(f"{name}: reason", *numbers, "first", "last (UTC)", "per partition", right=numbers)
    for one in found:
        latest = [one.per_window[key] for key in sorted(one.per_window)][-TREND:]
        grid.add_row(
            escape(one.reason),
            *(str(count) for count in (one.rows, one.open, one.superseded, one.discarded)),
            f"{one.first_seen:%Y-%m-%d}",
            f"{one.last_seen:%Y-%m-%d %H:%M}",
            " ".join(map(str, latest)),
        )
    screen.print_grid(grid)
    for one in found if samples else []:
        screen.say(escape(f"{one.reason}:"))
        for sample in one.samples:
            screen.say(escape(f"  {sample.state}, {sample.window}, {sample.place}: {sample.payload}"))


def export_rows(spark: SparkSession, table: Table, lake: Lake, path: Path) -> int:
    """Writes the rejected rows that are not discarded, with their payloads, to a .csv or .jsonl file.

    Returns their number; the audit records who has read them.
    """
    keys = [key for key, found in ChangeLog(table, lake).records().items() if found.rejected]
    details = {"rows of": "quarantine", "file": path.name}
    record(lake, AuditEntry(action="read", table=table.name, partitions=sorted(keys), details=details))
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        if path.suffix == ".csv":
            writer.writerow(_COLUMNS)
        if not keys:
            return 0
        rows = rejected_rows(spark, table, lake, keys)
        ordered = rows.filter(rows["_state"] != DISCARDED).orderBy("_window", "_source.file", "_source.row")
        for row in ordered.select("_source", "_window", "_reasons", "_payload").toLocalIterator():
            place = row["_source"]
            values = (place["file"], place["row"], row["_window"], list(row["_reasons"]), row["_payload"])
            if path.suffix == ".csv":
                writer.writerow([*values[:3], "; ".join(values[3]), values[4]])
            else:
                file.write(json.dumps(dict(zip(_COLUMNS, values, strict=True)), ensure_ascii=False) + "\n")
            count += 1
    return count
