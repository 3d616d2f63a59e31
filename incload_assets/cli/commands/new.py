"""``incload new``: a folder that is a project, with or without a table to look at."""

from pathlib import Path
from typing import Annotated

import typer

from incload_assets.cli.support import screen
from incload_assets.cli.support.scaffold import make_project


def new(
    name: Annotated[Path, typer.Argument(help="Folder of the new project; its last part names it, such as my_lake.")],
    sample: Annotated[bool, typer.Option("--sample", help="Add one table with three days of data.")] = False,
) -> None:
    """Make a folder that is a project: a Dagster code location for your tables.

    The project works at once with `incload`, `dg` and `dagster dev`. Nothing is asked, and no file is overwritten.

    - **Writes:** the folder.
    - **Spark:** not started.
    - **Dagster's instance:** not used.

    Example: `incload new my_lake --sample`
    """
    files = make_project(name, sample=sample)
    screen.say(f"Made {name} with {len(files)} files:")
    for file in files:
        screen.say(f"  {file.relative_to(name)}")
    first = "incload load payments --all-missing" if sample else "read AGENTS.md, which says how to add a table"
    screen.say(f"Next: cd {name}; {first}; incload dev")
