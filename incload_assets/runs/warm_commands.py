"""Commands of the terminal, forked as runs are; their caller is :mod:`incload_assets.cli.forked`."""

import hmac
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module

from resources.local_servers import command_socket
from resources.local_servers.command_socket import Command

_ANSWER_SECONDS = 2.0
CONNECTION = 3
"""The descriptor of the connection in a child; those before it are the command's own."""
FIRST_USED = (
    "incload_assets.cli.check",
    "incload_assets.cli.compact",
    "incload_assets.cli.loads",
    "incload_assets.cli.program",
    "incload_assets.cli.runs",
    "rich.progress",
)
"""Modules that a command imports when it first uses them."""


def listener(password: str) -> socket.socket:
    """Where commands are taken."""
    made = socket.socket(socket.AF_UNIX)
    made.bind(command_socket.address(password))
    made.listen()
    return made


def take(
    listener: socket.socket,
    password: str,
    suits: Callable[[Command], bool],
    fork: Callable[[Callable[[], None], list[int]], int],
    dotenv: Callable[[], Mapping[str, str]],
) -> int | None:
    """Fork the command that has come; its process, None if it is not forked, and then its caller runs it itself.

    Args:
        listener: Where it has come.
        password: What it has to know.
        suits: Whether it can be forked from what is loaded.
        fork: Makes a child that does something with some open files as its first.
        dotenv: What the ``.env`` says now.
    """
    connection, _ = listener.accept()
    files: list[int] = []
    with connection:
        try:
            connection.settimeout(_ANSWER_SECONDS)
            command, files = command_socket.receive(connection)
            known = hmac.compare_digest(command.password.encode(), password.encode())
            if not known or len(files) != CONNECTION or not suits(command):
                command_socket.say(connection, pid=None)
                return None
            pid = fork(lambda: _run(command, dotenv()), [*files, connection.fileno()])
            command_socket.say(connection, pid=pid)
            return pid
        except (OSError, ValueError, TypeError):
            return None
        finally:
            for file in files:
                os.close(file)


def _run(command: Command, dotenv: Mapping[str, str]) -> None:
    """The command, in a child of the server; its caller is told the exit code."""
    os.environ.clear()
    os.environ.update({**command.environment, **dotenv})
    os.chdir(command.directory)
    sys.argv = ["incload", *command.arguments]
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    connection = socket.socket(fileno=CONNECTION)
    connection.settimeout(None)
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    code = 1
    try:
        import_module("incload_assets.cli.program").program()  # by name: commands are above the runs that they start
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        command_socket.say(connection, code=code)


def _end_with(caller: socket.socket) -> None:
    """Who kills the caller of a command wants the command to end."""
    if not caller.recv(1):
        os.kill(os.getpid(), signal.SIGKILL)
