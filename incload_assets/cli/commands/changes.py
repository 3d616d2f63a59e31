"""``incload changes``: the rows that a table's commits changed."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape

from incload_assets.cli.support import screen
from incload_assets.cli.support.options import AsJson, TableName
from incload_assets.cli.support.project import open_project
from incload_assets.history.feed import Feed, feed_of
from incload_assets.platform.wording import several


def changes(
    table: TableName,
    since: Annotated[
        str,
        typer.Option(
            "--since", help="From this version, time (UTC), length of time such as `2h`, or commit of this run on."
        ),
    ],
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="Show this many rows, the oldest; all are counted.")
    ] = 50,
    as_json: AsJson = False,
) -> None:
    """Show which rows a table's commits changed, from its change feed.

    Commits are shown oldest first, with the rows that each inserted, updated and deleted, and its partitions and run.
    An update has the row before (`update_preimage`) and after it (`update_postimage`). Personal values are masked. The
    table needs `change_feed=True`. The exit code is 1 if the feed does not reach back so far.

    - **Writes:** nothing.
    - **Spark:** not started.
    - **Dagster's instance:** not used; the table is read.

    Example: `incload changes orders --since 2h`
    """
    with open_project() as project:
        found = feed_of(project.table(table), project.lake, since, limit=limit)
    if as_json:
        screen.print_json(asdict(found))
    else:
        _show(found)


def _show(found: Feed) -> None:
    """Prints a feed."""
    grid = screen.grid("version", "at (UTC)", "partitions", "run", "inserted", "updated", "deleted")
    for one in found.commits:
        grid.add_row(
            str(one.version),
            f"{one.at:%Y-%m-%d %H:%M:%S}",
            escape(one.windows),
            ", ".join(run[:8] for run in one.runs),
            *(f"{count:,}" for count in (one.inserted, one.updated, one.deleted)),
        )
    if found.commits:
        screen.print_grid(grid)
    for row in found.rows:
        screen.say(escape(f"{row.version} {row.change}: {json.dumps(row.values, default=screen.plain)}"))
    inserted, updated, deleted = found.counts
    total, shown = inserted + 2 * updated + deleted, len(found.rows)
    if shown < total:
        screen.say(f"{shown:,} of {total:,} rows of the feed are shown; --limit shows more.")
    screen.say(
        escape(
            f"{found.table}: versions {found.since} to {found.until}, {several(len(found.commits), 'commit')} with "
            f"{several(inserted, 'insert')}, {several(updated, 'update')}, {several(deleted, 'delete')}."
        )
        if found.since <= found.until
        else escape(f"{found.table}: nothing has changed since; version {found.until} is its newest.")
    )
