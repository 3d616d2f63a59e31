"""Running a command in a fork of the warm server that runs are forked from, which has loaded the code location.

Importing Dagster and the code location takes seconds of processor time. This module imports next to nothing: it finds
the server, sends it the command with its input and output, forwards signals, and exits with the command's code.
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

from incload_assets.cli.support.folder import enter_project
from resources.local_servers.command_socket import Command, address, send

COMMANDS = ("check", "compact", "load", "status", "trace")
"""The commands that need the code location."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def forked(arguments: list[str]) -> int | None:
    """Runs a command in a fork; returns its exit code, or None if no server can fork it.

    Args:
        arguments: The arguments, ``sys.argv`` without the program.
    """
    named = next((argument for argument in arguments if not argument.startswith("-")), None)
    if named not in COMMANDS or sys.platform != "linux":
        return None
    try:
        root = enter_project()
    except Exception:
        return None  # the command reports the error itself
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
    """Waits for a command and forwards signals to it; returns its exit code, or a shell's code if it was killed."""

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
    """A standard file, or the null device in place of a closed one."""
    try:
        os.fstat(number)
    except OSError:
        nothing = os.open(os.devnull, os.O_RDWR)
        stack.callback(os.close, nothing)
        return nothing
    return number
