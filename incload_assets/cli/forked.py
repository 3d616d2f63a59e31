"""A command as a fork of the process that runs are forked from, which has loaded the code location.

To import Dagster and the code location takes seconds of processor time. This module imports next to nothing: it finds
that process, gives it the command with its input and output, passes signals on and ends as the command ends.
"""

import json
import os
import signal
import socket
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from incload_assets.cli.project import enter_project
from resources.local_servers.command_socket import Command, address, send

COMMANDS = ("check", "compact", "load", "status")
"""The commands that need the code location."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def forked(arguments: list[str]) -> int | None:
    """Run a command in a fork; its exit code, or None if there is nothing to fork it from.

    Args:
        arguments: As in ``sys.argv``, without the program.
    """
    named = next((argument for argument in arguments if not argument.startswith("-")), None)
    if named not in COMMANDS or sys.platform != "linux":
        return None
    try:
        root = enter_project()
    except Exception:
        return None  # the command says what is wrong
    for record in sorted(Path(os.environ.get("INCLOAD_HOME", ".incload"), "warm_runs").glob("**/server.json")):
        with ExitStack() as stack, suppress(OSError, ValueError, KeyError, TypeError):
            password = json.loads(record.read_text())["password"]
            connection = stack.enter_context(socket.socket(socket.AF_UNIX))
            connection.connect(address(password))
            files = [_open(number, stack) for number in range(3)]
            send(connection, Command(password, arguments, str(root), dict(os.environ)), files)
            answers = stack.enter_context(connection.makefile("r"))
            if (pid := _facts(answers.readline()).get("pid")) is not None:
                return _attend(pid, answers)
    return None


def _attend(pid: int, answers: Any) -> int:
    """Wait for a command, and pass signals on to it; its exit code, or a shell's for one that was killed."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    return int(_facts(answers.readline()).get("code", 128 + signal.SIGKILL))


def _facts(line: str) -> dict[str, Any]:
    return dict(json.loads(line)) if line else {}


def _open(number: int, stack: ExitStack) -> int:
    """A standard file, or nothing in place of one that is closed."""
    try:
        os.fstat(number)
    except OSError:
        nothing = os.open(os.devnull, os.O_RDWR)
        stack.callback(os.close, nothing)
        return nothing
    return number
