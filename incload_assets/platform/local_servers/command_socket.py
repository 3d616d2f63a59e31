"""The protocol between a command of the terminal and the process that forks it.

The socket is in Linux's abstract namespace: its name is derived from the server's password, and no file is left behind.
A command is sent with its standard input, output and error; the answers are lines of JSON.
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
        password: The server's password.
        arguments: The arguments, ``sys.argv`` without the program.
        directory: The working directory.
        environment: The environment.
    """

    password: str
    arguments: list[str]
    directory: str
    environment: dict[str, str]


def address(password: str) -> str:
    """The address of the server with a password."""
    return f"\0incload-{hashlib.sha256(f'commands:{password}'.encode()).hexdigest()}"


def send(connection: socket.socket, command: Command, files: list[int]) -> None:
    """Sends a command with its files.

    Args:
        connection: The connection to the server.
        command: The command to run.
        files: Descriptors of its standard input, output and error.
    """
    content = json.dumps(asdict(command)).encode()
    socket.send_fds(connection, [_LENGTH.pack(len(content))], files)
    connection.sendall(content)


def receive(connection: socket.socket) -> tuple[Command, list[int]]:
    """Receives a command sent by :func:`send`; the caller has to close the files.

    Raises:
        ValueError, TypeError: The message is no command.
    """
    head, files, _, _ = socket.recv_fds(connection, _LENGTH.size, 3)
    (length,) = _LENGTH.unpack(head)
    content = b""
    while len(content) < length and (more := connection.recv(length - len(content))):
        content += more
    return Command(**json.loads(content)), files


def say(connection: socket.socket, **facts: Any) -> None:
    """Sends an answer, as a line of JSON."""
    connection.sendall(json.dumps(facts).encode() + b"\n")
