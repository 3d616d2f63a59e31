"""A person's terminal in a clone: the commands of a page, run one after the other, and what they print."""

import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import typer

from incload_assets.cli.program import program
from tests.support.project_copy import Clone

COMMANDS = typer.main.get_command(program).commands  # type: ignore[attr-defined]
_FORKED = "import sys; from incload_assets import cli; cli.COMMANDS = tuple(sys.argv[1:2]); cli.app()"
"""``incload`` with every command forked from the process that has loaded the code location: imports take seconds."""


@dataclass(frozen=True)
class Terminal:
    """The terminal of ada on etl-1.

    Args:
        clone: Where she is.
        settings: Of the commands.
        places: Folders that a page names and the test has elsewhere, by name.
    """

    clone: Clone
    settings: dict[str, str]
    places: dict[str, str] = field(default_factory=dict)

    def run(self, words: Sequence[str], **environment: str) -> tuple[int, str]:
        """Exit code and output of a command, with the names of this machine replaced."""
        done = subprocess.run(
            _process([self.placed(word) for word in words]),
            cwd=self.clone.root,
            env=self._environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=500,
            check=False,
        )
        return done.returncode, done.stdout.replace(f"{self.clone.root}/", "").replace(socket.gethostname(), "etl-1")

    def warm(self) -> None:
        """Have the code loaded as it is now by a process from which commands are forked."""
        self.run(["incload", "stop"])
        start = [sys.executable, "-m", "incload_assets.runs"]
        subprocess.run(start, cwd=self.clone.root, env=self._environment({}), stdin=subprocess.DEVNULL, check=True)

    def placed(self, text: str) -> str:
        """A text of a page, with the test's folders."""
        for name, place in self.places.items():
            text = text.replace(name, place)
        return text

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        return self.clone.environment(**{"LOGNAME": "ada"} | self.settings | more)


def _process(words: Sequence[str]) -> list[str]:
    """The process of a command; ``incload`` with ``--yes`` where a person would be asked."""
    name, *arguments = words
    if name == "dagster":
        return [sys.executable, "-m", "dagster", *arguments]
    if name != "incload":
        return ["sh", "-c", " ".join(words)]
    asks = any("--yes" in option.opts for option in COMMANDS[arguments[0]].params)
    return [sys.executable, "-c", _FORKED, *arguments, *(["--yes"] if asks and "--yes" not in arguments else [])]


def comparable(text: str) -> list[str]:
    """The lines of an output, without what differs from run to run: numbers, times, identifiers, padding.

    The unit of a size differs with its number.

    Example:
        >>> comparable("2 rows of run 5c0e5f6a,  3.1 s")
        ['0 row of run 0, 0 s']
    """
    text = re.sub(r"\b[0-9a-f]{8,}\b", "0", text)
    text = re.sub(r"\d[\d.,:TZ-]*(?<=[\dZ])", "0", text)
    text = re.sub(r"\b0 (Bytes?|[kMG]B)\b", "0 B", text)
    text = re.sub(r"\b0 (row|window|part|partition|change|entrie|file|database|version)s\b", r"0 \1", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]
