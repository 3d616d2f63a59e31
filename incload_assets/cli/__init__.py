"""The command line ``incload``: the same loads, checks and checkpoints as in the Dagster UI, from a terminal.

Importing Dagster and the code location takes seconds of processor time. So this module imports next to nothing: it
finds the warm server that runs are forked from, which has loaded the code location, sends it the command with its input
and output, forwards signals, and exits with the command's code.
"""

import atexit
import json
import os
import signal
import socket
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from incload_assets.cli.support.folder import enter_project
from incload_assets.platform.local_servers.command_socket import Command, address, send

__all__ = ["app"]

COMMANDS = ("check", "compact", "load", "status", "trace")
"""The commands that are forked: they need the code location, and are used often."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def app() -> None:
    """Runs a command, in a fork of a process that has loaded the code location, or else in this process."""
    try:
        code = _forked(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130  # a shell's exit code for Ctrl-C
    if code is not None:
        sys.exit(code)
    from incload_assets.cli.program import program  # imported here, because a fork's caller does not need it

    try:
        program()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
            _leave(1)
        _leave(ended.code or 0)


def _leave(code: int) -> NoReturn:
    """Ends this process after its exit handlers.

    Arrow's threads now and then abort a process that ends as Python ends it, and a command that has done its work would
    fail, see https://github.com/apache/arrow/issues/34314.
    """
    atexit._run_exitfuncs()
    with suppress(BrokenPipeError):  # whoever read the output has ended
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _forked(arguments: list[str]) -> int | None:
    """Runs a command, given without the program, in a fork; returns its exit code, or None if no server can fork it."""
    named = next((argument for argument in arguments if not argument.startswith("-")), None)
    if named not in COMMANDS or sys.platform != "linux":
        return None
    try:
        root = enter_project().root
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
