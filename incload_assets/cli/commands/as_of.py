"""``incload as-of``: the rows of a history in effect at one time, as they were known at another."""

from typing import Annotated

import pyspark.sql.types as T
import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.markup import escape

from incload_assets.assets.metadata import SHOWN_CHARACTERS
from incload_assets.cli.support import screen
from incload_assets.cli.support.options import AsJson, TableName
from incload_assets.cli.support.project import open_project
from incload_assets.contract.contract import MASK
from incload_assets.contract.conversion import as_text
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.sql import col
from incload_assets.platform.wording import several
from incload_assets.progress.pause import parse_since
from incload_assets.writes.as_of import Point, rows_as_of


def as_of(
    ctx: typer.Context,
    table: TableName,
    valid: Annotated[
        str | None,
        typer.Option(
            "--valid",
            help="In effect at this time of the source: in UTC, this long ago (`7d`), or a whole number where the "
            "sequence is one. Default: all versions.",
        ),
    ] = None,
    known: Annotated[
        str | None,
        typer.Option(
            "--known", help="As it was known at this time of the loads, in UTC, or this long ago. Default: now."
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most this many rows.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show the rows of a history in effect at one time, as they were known at another.

    Rows are in the order of their keys and versions. Values of personal columns are masked. `--known` needs a table
    with `write=History(known=True)`: what was known before the newest landing stays the same, whatever is loaded or
    undone later.

    - **Writes:** nothing.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** not used.

    Example: `incload as-of prices --valid 2026-01-03 --known 2026-01-05T12:00`
    """
    with open_project(verbose=ctx.obj) as project:
        declared, moment = project.table(table), now()
        at = None if known is None else parse_since(known, moment)
        with screen.apart(verbose=project.verbose), project.spark(declared.name) as spark:
            rows = rows_as_of(spark, declared, project.lake, valid=_point(declared, valid), known=at)
            found = [row.asDict() for row in shown(rows, declared).head(limit + 1)]
    names, rest = rows.columns, len(found) > limit
    if as_json:
        screen.print_json(found[:limit])
        return
    grid = screen.grid(*names)
    for row in found[:limit]:
        grid.add_row(*("NULL" if row[name] is None else escape(row[name]) for name in names))
    screen.print_grid(grid)
    screen.say(f"{declared.name}: {several(len(found[:limit]), 'row')}{' and more; see --limit' if rest else ''}")


def shown(rows: DataFrame, table: Table) -> DataFrame:
    """The rows as texts for people, by keys and versions, with personal values masked."""
    personal, kinds = table.contract.personal, {field.name: field.dataType for field in rows.schema.fields}
    texts = (
        F.when(col(name).isNotNull(), F.lit(MASK))
        if name in personal
        else F.substring(F.make_valid_utf8(as_text(col(name), kind)), 1, SHOWN_CHARACTERS)
        for name, kind in kinds.items()
    )
    first = rows.columns[-3]  # the start of the version
    ordered = rows.orderBy(*map(col, table.changes.keys), F.asc_nulls_first(first))
    return ordered.select(*(text.alias(name) for text, name in zip(texts, kinds, strict=True)))


def _point(table: Table, text: str | None) -> Point:
    """The time of ``--valid``: a number where the sequence is one."""
    if text is None:
        return None
    sequence = table.changes.sequence_by
    if not sequence or not isinstance(table.type_of(sequence[0]), T.IntegralType):
        return parse_since(text, now())
    try:
        return int(text)
    except ValueError:
        raise IncrementalLoadError(
            f"{table.name}: --valid {text!r} is no whole number",
            rule=f"versions of the table begin at values of {sequence[0]}",
            remedy="write for example --valid 17",
        ) from None
