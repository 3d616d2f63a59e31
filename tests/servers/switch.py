"""The way to a server, which a test can close, open again, and break off in the middle of an answer."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from incload_assets.platform.local_servers.files import free_port

HERE = "127.0.0.1"


class Switch:
    """A port of this machine that leads to another one, for as long as it is open.

    Args:
        target: The server's port.
        port: Of the switch; default any.

    Attributes:
        port: What a client connects to; the same after it was closed and opened again.
        requests: How many HTTP requests went through.
    """

    def __init__(self, target: int, port: int | None = None) -> None:
        self.target, self.port, self.requests = target, port or free_port(), 0
        self._left: int | None = None
        self._hanging = False
        self._open = set[socket.socket]()
        self.up()

    def up(self) -> None:
        """Let clients through."""
        self._left = None
        self._hanging = False
        self._listener = socket.create_server((HERE, self.port))
        threading.Thread(target=self._listen, args=[self._listener], daemon=True).start()

    def down(self) -> None:
        """Refuse connections, and cut those that are open."""
        for one in [self._listener, *self._open]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._open.clear()

    def break_off(self, after: int) -> None:
        """Be down as soon as the server has sent this many bytes more."""
        self._left = after

    def hang(self) -> None:
        """Go on taking connections, and let no answer through."""
        self._hanging = True

    def _listen(self, listener: socket.socket) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = listener.accept()
                try:
                    server = socket.create_connection((HERE, self.target))
                except OSError:  # the server itself is down
                    client.close()
                    continue
                self._open |= {client, server}
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=[source, target, source is client], daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, asking: bool) -> None:
        with suppress(OSError):
            while some := source.recv(65536):
                if asking:
                    self.requests += some.startswith((b"GET ", b"POST ", b"PUT ", b"HEAD "))
                elif self._left is not None:
                    some = some[: self._left]
                    self._left -= len(some)
                if asking or not self._hanging:
                    target.sendall(some)
                if not asking and self._left == 0:
                    self.down()
        if self._hanging:
            return
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
            self._open.discard(one)


@contextmanager
def switched(target: int, port: int | None = None) -> Iterator[Switch]:
    """A switch for as long as the block runs."""
    switch = Switch(target, port)
    try:
        yield switch
    finally:
        switch.down()
