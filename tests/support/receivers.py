"""A real HTTP server and a real SMTP server on this machine that keep what they receive."""

import json
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class Posts:
    """What an HTTP server received.

    Args:
        url: Its address.
        bodies: The JSON of each post that was answered with success, by path.
        status: The status of further answers.
    """

    url: str
    bodies: list[tuple[str, Any]] = field(default_factory=list)
    status: int = 200

    def texts(self, path: str) -> list[str]:
        """The texts that were posted to a path."""
        return [body["text"] for posted, body in self.bodies if posted == path]


@contextmanager
def posts_receiver() -> Iterator[Posts]:
    """An HTTP server at a free port, in a thread."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if found.status == 200:
                found.bodies.append((self.path, body))
            self.send_response(found.status)
            if found.status == 302:
                self.send_header("Location", f"{found.url}/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, _serving(server):
        found = Posts(f"http://127.0.0.1:{server.server_port}")
        yield found


@contextmanager
def mail_receiver() -> Iterator[tuple[int, list[EmailMessage], list[str]]]:
    """An SMTP server at a free port, in a thread: the port, the messages, and the commands."""
    messages: list[EmailMessage] = []
    commands: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline():
                commands.append(line.decode().strip())
                verb = commands[-1].upper()
                if verb == "DATA":
                    self.wfile.write(b"354 go on\r\n")
                    content = b"".join(iter(self.rfile.readline, b".\r\n"))
                    messages.append(message_from_bytes(content, policy=policy.default))
                self.wfile.write(
                    b"250-here\r\n250 AUTH PLAIN\r\n" if verb.startswith("EHLO")
                    else b"235 known\r\n" if verb.startswith("AUTH")
                    else b"221 bye\r\n" if verb == "QUIT"
                    else b"250 good\r\n"
                )  # fmt: skip

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server, _serving(server):
        yield server.server_address[1], messages, commands


@contextmanager
def _serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
