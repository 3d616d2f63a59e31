"""``incload --help``: the commands by purpose, listed without importing them."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from incload_assets.cli import commands
from incload_assets.cli.catalogue import COMMANDS
from incload_assets.cli.program import program
from tests.cli.test_docs import HEAVY

ROOMS = ("First week", "Load", "Look", "Repair", "People's data", "Operate", "Develop")
GROUPS = {"contract", "monitoring", "spark"}
MOST_LINES = 60


def test_the_ten_commands_of_the_first_week_come_first_and_the_others_by_purpose() -> None:
    shown = CliRunner().invoke(program, ["--help"], env={"COLUMNS": "200", "TERM": "dumb"}).stdout
    assert tuple(re.findall(r"(?m)^╭─ ([A-Z][\w' ]+) ─", shown)) == ("Options", *ROOMS)
    assert re.findall(r"(?m)^│ ([a-z][\w-]*) ", shown) == [*COMMANDS]
    week = [name for name, entry in COMMANDS.items() if entry.panel == "First week"]
    assert week == ["new", "dev", "docs", "status", "load", "plan", "check", "trace", "quarantine", "stop"]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_of_a_command_is_the_first_of_its_own_help(name: str) -> None:
    command = typer.main.get_command(program).commands[name]  # type: ignore[attr-defined]
    assert command.help.partition("\n")[0] == COMMANDS[name].line
    assert hasattr(command, "commands") == (name in GROUPS)


@pytest.mark.parametrize("arguments", [["--help"], ["no-such-command"], []])
def test_neither_the_help_nor_a_completion_imports_a_command(arguments: list[str]) -> None:
    code = (
        "import json, os, sys\n"
        "from incload_assets.cli import commands, program\n"
        "from typer.testing import CliRunner\n"
        f"arguments = {arguments!r}\n"
        "completing = {'_INCLOAD_COMPLETE': 'complete_bash', 'COMP_WORDS': 'incload ', 'COMP_CWORD': '1'}\n"
        "environment = {} if arguments else completing\n"
        "done = CliRunner().invoke(program.program, arguments, prog_name='incload', env=environment)\n"
        "print(json.dumps([done.output, sorted(sys.modules)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    said, modules = json.loads(done.stdout)
    assert "No such command" in said if arguments == ["no-such-command"] else "restore-instance" in said
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()
    assert [name for name in modules if name.startswith(f"{commands.__name__}.")] == []


def test_commands_are_short() -> None:
    long = {}
    for file in Path(*commands.__path__).glob("*.py"):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                long |= {f"{file.name}: {node.name}": lines} if lines > MOST_LINES else {}
    assert long == {}
