"""The ``incload`` program: its commands, imported when they are called, and its error messages."""

from collections.abc import Iterator, Mapping
from copy import copy
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, Literal, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from incload_assets.cli import commands
from incload_assets.cli.catalogue import COMMANDS
from incload_assets.cli.support import screen
from incload_assets.platform.errors import IncrementalLoadError

MARKUP: Literal["markdown"] = "markdown"


class _Imported(Mapping[str, Any]):
    """The commands by name; the module of one is imported when that one is taken."""

    def __getitem__(self, name: str) -> Any:
        return _command(name)

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Group(TyperGroup):
    """Commands that are imported when they are called, and that print an expected error as one message.

    An unexpected error is one line with a hint. Lists of the commands are made of the catalogue alone, see
    https://click.palletsprojects.com/en/stable/complex/#lazily-loading-subcommands.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = cast(dict[str, Any], _Imported())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _command(cmd_name) if cmd_name in COMMANDS else None

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.commands]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        TyperGroup.format_help(self._listed(), ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        of_lines = copy(ctx)
        of_lines.command = self._listed()
        return TyperGroup.shell_complete(of_lines.command, of_lines, incomplete)

    def _listed(self) -> TyperGroup:
        """A group of the same commands that have only a name, a line and a panel."""
        listed = TyperGroup(rich_markup_mode=self.rich_markup_mode, params=self.params, help=self.help)
        listed.commands = {
            name: TyperCommand(name, help=entry.line, rich_help_panel=entry.panel) for name, entry in COMMANDS.items()
        }
        return listed

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (TyperException, typer.Exit, typer.Abort):  # Typer prints these itself
            raise
        except Exception as error:
            if ctx.params.get("verbose"):
                raise
            screen.complain(_message_of(error))
            raise typer.Exit(1) from None


@cache
def _command(name: str) -> Any:
    """A command or a group of commands, imported."""
    made = typer.Typer(rich_markup_mode=MARKUP)
    found = getattr(import_module(f"{commands.__name__}.{COMMANDS[name].module}"), name.replace("-", "_"))
    if isinstance(found, typer.Typer):
        made.add_typer(found, name=name)
    else:
        made.command(name)(found)
    return typer.main.get_group(made).commands[name]


def _version(wanted: bool) -> None:
    if wanted:
        screen.say(f"incload {version('incload')}")
        raise typer.Exit


program = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode=MARKUP,
    pretty_exceptions_show_locals=False,  # locals may hold credentials
    context_settings={"help_option_names": ["-h", "--help"]},
)


@program.callback()
def incload(
    ctx: typer.Context,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show Dagster's log while loading, and stack traces of errors.")
    ] = False,
    _: Annotated[
        bool, typer.Option("--version", help="Show the version, and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Load, check and maintain incremental tables from a terminal.

    Commands work on the same Dagster instance as the UI: what is loaded here is green there. The help of each command
    shows what it writes, whether it starts Spark, and an example.
    """
    ctx.obj = verbose


def _message_of(error: Exception) -> str:
    """The message of an error for a person."""
    from pydantic import ValidationError  # here: it takes longer than the help of all commands

    if isinstance(error, IncrementalLoadError):
        return str(error)
    if isinstance(error, ValidationError) and error.title == "Settings":
        lines = [
            f"INCLOAD_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors(include_input=False)
        ]
        return "\n".join(lines)
    return f"{type(error).__name__}: {error}. Unexpected; `incload --verbose …` shows the stack trace."
