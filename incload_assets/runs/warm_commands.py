"""Commands of the terminal, forked in the same way as runs; their caller is :mod:`incload_assets.cli`."""

import hmac
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module

from incload_assets.platform.local_servers import command_socket
from incload_assets.platform.local_servers.command_socket import Command

_ANSWER_SECONDS = 2.0
CONNECTION = 3
"""The file descriptor of the connection in a child; the lower ones are the command's input, output and error."""
FIRST_USED = (
    *(f"incload_assets.cli.commands.{name}" for name in ("check", "load", "operate", "status", "trace")),
    "incload_assets.cli.program",
    "rich.progress",
)
"""The modules of the commands that are forked, loaded in advance."""


def listener(password: str) -> socket.socket:
    """A socket that accepts commands, at the address derived from the password."""
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
    """Accepts one command and forks it; None if it was not forked, and its caller runs it itself.

    Args:
        suits: Whether a command can be forked from the loaded code.
        fork: Runs a function in a child, with the given open files as the child's first file descriptors.
        dotenv: Returns the present content of the ``.env``.
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
        import_module("incload_assets.cli.program").program()  # by name: the layer of commands is above this one
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        command_socket.say(connection, code=code)


def _end_with(caller: socket.socket) -> None:
    """Kills this process when its caller is gone, because killing the caller is meant to end the command."""
    if not caller.recv(1):
        os.kill(os.getpid(), signal.SIGKILL)
