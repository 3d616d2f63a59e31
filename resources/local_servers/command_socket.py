"""How a command of the terminal reaches the process that it is forked from.

The socket is in Linux's abstract namespace: its name is derived from the server's password, and no file is left behind.
With a command come its standard input, output and error; what comes back are lines of JSON.
"""

import hashlib
import json
import socket
import struct
from dataclasses import asdict, dataclass
from typing import Any

_LENGTH = struct.Struct("!I")


@dataclass(frozen=True)
class Command:
    """A command to run.

    Args:
        password: The server's.
        arguments: As in ``sys.argv``, without the program.
        directory: Where it works.
        environment: Its environment.
    """

    password: str
    arguments: list[str]
    directory: str
    environment: dict[str, str]


def address(password: str) -> str:
    """Where the server with a password listens."""
    return f"\0incload-{hashlib.sha256(f'commands:{password}'.encode()).hexdigest()}"


def send(connection: socket.socket, command: Command, files: list[int]) -> None:
    """Send a command with its files.

    Args:
        connection: To the server.
        command: What to run.
        files: Descriptors of its standard input, output and error.
    """
    content = json.dumps(asdict(command)).encode()
    socket.send_fds(connection, [_LENGTH.pack(len(content))], files)
    connection.sendall(content)


def receive(connection: socket.socket) -> tuple[Command, list[int]]:
    """What :func:`send` sent; the files are the caller's to close.

    Raises:
        ValueError, TypeError: It is no command.
    """
    head, files, _, _ = socket.recv_fds(connection, _LENGTH.size, 3)
    (length,) = _LENGTH.unpack(head)
    content = b""
    while len(content) < length and (more := connection.recv(length - len(content))):
        content += more
    return Command(**json.loads(content)), files


def say(connection: socket.socket, **facts: Any) -> None:
    """Send a line of facts back."""
    connection.sendall(json.dumps(facts).encode() + b"\n")
