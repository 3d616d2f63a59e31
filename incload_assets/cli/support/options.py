"""The arguments, options and questions that several commands have in the same words."""

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.progress.confirmed import RULE

TableName = Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")]
TableNames = Annotated[list[str] | None, typer.Argument(help="Names of tables; default: all.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AllAsJson = Annotated[bool, typer.Option("--json", help="Print JSON, with everything that is recorded.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask; for scripts.")]
"""The option of each command that asks."""


def confirm(
    command: str,
    word: str,
    what: str,
    shows: Callable[[], Iterable[str]],
    *,
    yes: bool,
    console: Console | None = None,
    rule: str = RULE,
    asks: str = "This cannot be taken back. To go on",
) -> None:
    """Shows what a command is about to do, for example to remove for good, and has a person type a word to go on.

    Args:
        word: What has to be typed; never shown, as it may be personal.
        what: What the word is, for people: ``the table's name``.
        shows: Finds out what will be done, line by line; with no line there is nothing to ask.
        yes: Whether not to ask.
        console: Where to ask; by default on standard output.
        rule: Why it is asked.
        asks: The beginning of the question.

    Raises:
        IncrementalLoadError: There is no terminal to ask at, or something else was typed.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise IncrementalLoadError(
            f"{command} asks before it goes on, and its input is no terminal",
            rule=rule,
            remedy="see what it would do at a terminal; a script adds --yes",
        )
    if not (lines := [*shows()]):
        return
    shown, typed = console or Console(soft_wrap=True, highlight=False), ""
    for line in lines:
        shown.print(line, markup=False)
    with suppress(EOFError):
        typed = shown.input(f"{asks}, type {what}: ", markup=False)
    if typed.strip() != word:
        raise IncrementalLoadError(
            f"{command}: what was typed is not {what}", rule=rule, remedy="repeat the command if it is meant"
        )
