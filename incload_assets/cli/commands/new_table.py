"""The declaration of a table, inferred from its data, for ``incload new --from``."""

import keyword
from pathlib import Path

import typer

from incload_assets.cli.commands import what_if
from incload_assets.cli.support import screen
from incload_assets.cli.support.folder import enter_project
from incload_assets.inference.infer import infer
from incload_assets.inference.inferred import Inferred
from incload_assets.inference.places import place_of
from incload_assets.inference.render import module_of
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.project_files import tables_folder
from incload_assets.platform.spark.resource import SparkResource
from incload_assets.platform.wording import several


def new_table(ctx: typer.Context, name: str, source: str) -> None:
    """Writes the module of a table and plans its newest partition.

    Args:
        ctx: The context of the command.
        name: The table's name.
        source: The place of its rows, as a person writes it.

    Raises:
        IncrementalLoadError: The name is no table's, the module is there already, or the place cannot be read.
    """
    here = Path.cwd()
    project = enter_project()
    module = tables_folder(project) / f"{name}.py"
    _expect_new(name, module)
    place = place_of(source, here)
    with screen.under_way(), SparkResource().session(name) as spark:
        found = infer(spark, name, place)
    module.write_text(module_of(found))
    _report(found, module.relative_to(project.root))
    try:
        what_if.plan(ctx, name, partitions=found.origin.newest)
    except (IncrementalLoadError, typer.Exit) as ended:
        if not isinstance(ended, typer.Exit) or ended.exit_code not in (0, 2):
            screen.say(f"Correct or remove {module.relative_to(project.root)}. Plan: incload plan {name} --all-missing")
            raise
    for line in found.origin.environment:
        screen.say(f"Write into .env: {line}")
    screen.say(f"Load it: incload load {name} --all-missing")


def _expect_new(name: str, module: Path) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise IncrementalLoadError(
            f"{name!r} is no name of a table",
            rule="a table is a Python function: letters, digits and _, not beginning with a digit or _",
            remedy="choose another name",
        )
    if module.exists():
        raise IncrementalLoadError(
            f"{module} exists",
            rule="a declaration that is there is never replaced",
            remedy="choose another name, or remove the file",
        )


def _report(found: Inferred, module: Path) -> None:
    key = f"key {', '.join(found.keys)} ({found.keys_why})" if found.keys else found.keys_why
    asked = len(found.questions) + sum(len(column.questions) for column in found.columns)
    screen.say(f"Wrote {module}: {several(len(found.columns), 'column')}, from {found.rows:,} rows; {key}.")
    personal = [column.name for column in found.columns if column.personal]
    if personal:
        screen.say(f"Personal columns: {', '.join(personal)}.")
    if asked:
        screen.say(f"{several(asked, 'question')} that the rows do not answer: see the comments in it.")
