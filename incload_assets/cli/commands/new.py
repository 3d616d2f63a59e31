"""``incload new``: a folder that is a project, or the declaration of a table that is inferred from its data."""

from pathlib import Path
from typing import Annotated

import typer

from incload_assets.cli.support import screen
from incload_assets.cli.support.scaffold import make_project
from incload_assets.inference.places import FORMS


def new(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Folder of a new project, such as `my_lake`; with --from: a table.")],
    source: Annotated[
        str | None, typer.Option("--from", metavar="PLACE", help=f"Where the table's rows are: {FORMS}.")
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Add a table with three days of data to the project.")
    ] = False,
) -> None:
    """Make a folder that is a project, or declare a table of a project as its rows look.

    A project works at once with `incload`, `dg` and `dagster dev`. Nothing is asked, and no file is overwritten.

    With `--from` up to 20,000 rows are looked at. Columns, types, NULLs, key, order, windows and personal columns are
    declared with their evidence as comments, and what the rows do not tell is a question in a comment. Then the newest
    partition is planned, and the command that loads is printed.

    - `--from data/orders` or `--from data/orders/2026-01-05.csv`: files, by the dates in their names.
    - `--from s3://bucket/orders`: files on S3, with the credentials of the environment.
    - `--from shop.public.orders`: a table of the database `shop`, that is `INCLOAD_DATABASE_SHOP_URL`.
    - `--from postgresql://reader@host/shop/public.orders`: the password is taken from `PGPASSWORD`, and never written.
    - `--from mariadb://reader@host/shop/orders`: the same, with `MYSQL_PWD`.
    - `--from shop.orders` or `--from kafka://host:9092/orders`: a topic of JSON messages, or of Debezium's events.

    - **Writes:** the folder, or a module in the project's folder of tables.
    - **Spark:** started for `--from` if it is not up.
    - **Dagster's instance:** needed for the plan of `--from`.

    Example: `incload new my_lake --sample`
    """
    if source is None:
        _new_project(Path(name), sample=sample)
    elif sample:
        raise typer.BadParameter("a project has a --sample; a table is made --from its rows")
    else:
        from incload_assets.cli.commands.new_table import new_table  # here: it takes seconds, and a project needs none

        new_table(ctx, name, source)


def _new_project(folder: Path, *, sample: bool) -> None:
    files = make_project(folder, sample=sample)
    screen.say(f"Made {folder} with {len(files)} files:")
    for file in files:
        screen.say(f"  {file.relative_to(folder)}")
    first = "incload load payments --all-missing" if sample else "incload new TABLE --from FILES, or read AGENTS.md"
    screen.say(f"Next: cd {folder}; {first}; incload dev")
