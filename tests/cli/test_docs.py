"""The documentation in the terminal, and the help of each command."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from incload_assets.cli.commands.docs import FOLDER, PAGES, sections, summary
from incload_assets.cli.program import program
from tests.support.documents import Page
from tests.test_documentation import parse

HEAVY = {"dagster", "pyspark", "pandas", "pandera", "deltalake", "pyarrow", "psycopg", "confluent_kafka"}


def commands(group: TyperGroup, before: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command by its name, and those of groups."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*before, name))
        else:
            yield " ".join([*before, name]), command


ROOT = typer.main.get_command(program)
assert isinstance(ROOT, TyperGroup)
COMMANDS = dict(commands(ROOT))


def shown(*arguments: str) -> Any:
    return CliRunner().invoke(program, ["docs", *arguments])


def test_without_a_name_every_page_is_listed_with_its_title_and_first_sentence() -> None:
    lines = shown().stdout.splitlines()
    for name in PAGES:
        title, sentence = summary((FOLDER / f"{name}.md").read_text())
        [line] = [line for line in lines if line.startswith(f"{name} ")]
        assert title in line and sentence in line


def test_the_list_is_of_the_files_that_are_there() -> None:
    assert sorted(PAGES) == sorted(path.stem for path in FOLDER.glob("*.md"))


def test_a_summary_is_the_title_and_the_first_sentence() -> None:
    page = "# Sources\n\nA source finds\nwhat changed. It reads that.\n\nMore.\n"
    assert summary(page) == ("Sources", "A source finds what changed.")
    assert summary("# Cost\n\nIn one sentence.\n\n## More\n") == ("Cost", "In one sentence.")


@pytest.mark.parametrize("name", ["sources", "Sources", "sources.md", "sour"])
def test_a_page_is_printed_as_it_is_where_no_person_reads_it(name: str) -> None:
    assert shown(name).stdout == (FOLDER / "sources.md").read_text()


@pytest.mark.parametrize("name", ["missed-updates", "Missed updates", "missed"])
def test_one_section_of_a_page_is_shown_by_its_heading(name: str) -> None:
    done = shown("runbooks", name)
    assert done.exit_code == 0 and done.stdout.startswith("## Missed updates\n")
    assert "## Duplicate writes" not in done.stdout and done.stdout in (FOLDER / "runbooks.md").read_text()


def test_a_section_that_is_not_there_is_refused_with_the_names() -> None:
    refused = shown("runbooks", "explosion")
    told = " ".join(re.sub(r"[│╭╰─╮╯]", " ", refused.stderr).split())
    assert refused.exit_code == 2 and "there is no section 'explosion'" in told and "duplicate-writes" in told


@pytest.mark.parametrize("page", PAGES)
def test_the_sections_of_a_page_are_by_the_anchors_of_its_headings(page: str) -> None:
    found = sections((FOLDER / f"{page}.md").read_text())
    assert set(found) <= Page(FOLDER / f"{page}.md").anchors


def test_a_dash_is_an_underscore() -> None:
    assert shown("write-strategies").stdout.startswith("# Write strategies\n")


@pytest.mark.parametrize(("name", "says"), [("orders", "there is no page 'orders'"), ("how", "how_to_extend")])
def test_a_name_that_means_no_page_or_two_is_refused_with_the_names(name: str, says: str) -> None:
    refused = shown(name)
    assert (refused.exit_code, refused.stdout) == (2, "")
    told = " ".join(re.sub(r"[│╭╰─╮╯]", " ", refused.stderr).split())
    assert says in told and "compared_with" in told


def test_on_a_terminal_a_page_is_formatted_and_goes_through_the_pager(tmp_path: Path) -> None:
    paged = tmp_path / "paged.txt"
    environment = {**os.environ, "TERM": "xterm-256color", "PAGER": f"cat > {paged}", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "incload_assets.cli", "docs", "how_a_load_works"]
    try:
        subprocess.run(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, timeout=60, check=True)
    finally:
        os.close(theirs)
        os.close(ours)
    text = paged.read_text()
    assert "How a load works" in text and "# How" not in text and "**" not in text
    named = re.sub(r"\s+", "", text)
    assert "…" not in "".join(re.findall(r"tests/\S+", text)), "names of tests are shown in full"
    assert "tests/model/test_protocol.py" in named
    assert max(map(len, text.splitlines())) <= 110


def test_neither_the_list_nor_a_page_imports_what_takes_long() -> None:
    for arguments in ([], ["sources"], ["--help"]):
        code = (
            "import atexit, json, sys\n"
            f"sys.argv = ['incload', 'docs', *{arguments!r}]\n"
            "found = lambda: print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
            "atexit.register(found)\n"
            "from incload_assets.cli import app\n"
            "app()\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        assert set(json.loads(done.stdout.splitlines()[-1])) & HEAVY == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_commands_help_says_what_it_does_what_it_leaves_alone_and_shows_an_example(name: str) -> None:
    text = COMMANDS[name].help or ""
    first, *_ = text.split("\n\n")
    assert re.match(r"[A-Z].*\.$", first, re.DOTALL), "what it does, in a sentence"
    for what in ("Writes", "Spark", "Dagster's instance"):
        assert re.search(rf"^- \*\*{what}:\*\* \S", text, re.MULTILINE), what
    [example] = re.findall(r"^Example: `incload ([^`]+)`", text, re.MULTILINE)
    assert example.startswith(name)
    parse(shlex.split(example))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_is_shown_as_it_is_written(name: str) -> None:
    done = CliRunner().invoke(program, [*name.split(), "--help"], env={"COLUMNS": "100", "TERM": "dumb"})
    assert done.exit_code == 0
    for what in ("Writes:", "Spark:", "Dagster's instance:", "Example: incload"):
        assert what in done.stdout, what
