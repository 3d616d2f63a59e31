"""``incload docs``: the documentation, in the terminal."""

import os
import re
import sys
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.table import Table

from incload_assets.cli.support import screen

FOLDER = Path(__file__).parents[2] / "docs"
PAGES = (
    *("tables", "evolution", "protection", "sources", "write_strategies", "how_a_load_works", "operating", "recovery"),
    *("service_levels", "dashboards", "monitoring", "runbooks", "traces_and_lineage", "production"),
    *("beyond_one_machine", "privileges", "cost", "how_to_extend", "changes", "compared_with"),
)
"""The names of the pages, in the order in which to read them."""
WIDTH = 110
"""Longest line: longer ones are hard to read, however wide the terminal is."""


def docs(
    page: Annotated[str | None, typer.Argument(help="Name of a page, or its beginning; none: list all pages.")] = None,
    section: Annotated[str | None, typer.Argument(help="A section of the page, by its heading or anchor.")] = None,
) -> None:
    """List the pages of the documentation, or show one, or one section of it.

    A page is formatted, and opens in a pager, where the output is a terminal; elsewhere it is printed as Markdown.

    - **Writes:** nothing.
    - **Spark:** not started.
    - **Dagster's instance:** not used.

    Example: `incload docs runbooks missed-updates`
    """
    if page is not None:
        text = (FOLDER / f"{_named(page)}.md").read_text(encoding="utf-8")
        _show(text if section is None else _section(text, section))
        return
    grid = screen.grid("page", "title", "content")
    grid.columns[1].no_wrap = True
    for name in PAGES:
        grid.add_row(name, *summary((FOLDER / f"{name}.md").read_text(encoding="utf-8")))
    screen.print_grid(grid)
    screen.say("Read one: incload docs NAME")


def summary(text: str) -> tuple[str, str]:
    """The title of a page, and the first sentence below it."""
    title, paragraph, *_ = text.split("\n\n", 2)
    sentence, end, _ = " ".join(paragraph.split()).partition(". ")
    return title.removeprefix("# "), sentence + end.strip()


def _named(page: str) -> str:
    """The name of the page that is meant."""
    wanted = page.lower().replace("-", "_").removesuffix(".md")
    found = [name for name in PAGES if name == wanted] or [name for name in PAGES if name.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    problem = f"{page!r} may be {' or '.join(found)}" if found else f"there is no page {page!r}"
    raise typer.BadParameter(f"{problem}. The pages are {', '.join(PAGES)}.")


def sections(text: str) -> dict[str, str]:
    """The sections of a page by the anchor of their heading, each with the headings below it."""
    found: dict[str, str] = {}
    for part in re.split(r"(?m)^(?=## )", text)[1:]:
        heading = part.partition("\n")[0].removeprefix("## ")
        found[re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")] = part.rstrip() + "\n"
    return found


def _section(text: str, section: str) -> str:
    """The section that is meant."""
    known, wanted = sections(text), section.lower().replace(" ", "-").replace("_", "-")
    found = [name for name in known if name == wanted] or [name for name in known if name.startswith(wanted)]
    if len(found) == 1:
        return known[found[0]]
    problem = f"{section!r} may be {' or '.join(found)}" if found else f"there is no section {section!r}"
    raise typer.BadParameter(f"{problem}. The sections are {', '.join(known)}.")


class _Folded(TableElement):
    """A table whose cells show long words, such as names of tests, in full."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            for column in part.columns if isinstance(part, Table) else ():
                column.overflow = "fold"
            yield part


class _Page(Markdown):
    """A page with such tables."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "table_open": _Folded}


def _show(text: str) -> None:
    """A page, formatted where a person reads it."""
    console = Console()
    if not console.is_terminal:
        sys.stdout.write(text)
        return
    page = _Page(text, hyperlinks=False)  # links are relative to the file: they are shown, not opened
    width = min(console.width, WIDTH)
    if not sys.stdin.isatty() or console.is_dumb_terminal:
        console.print(page, width=width)
        return
    os.environ.setdefault("LESS", "-R")  # colours; other pagers get none
    with console.pager(styles="less" in os.environ.get("PAGER", "less"), links=False):
        console.print(page, width=width)
