"""TLS in front of a server that speaks none: a port that does the handshake and passes the bytes on."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

HERE = "127.0.0.1"


@contextmanager
def tls_in_front_of(
    port: int,
    proof: tuple[Path, Path],
    *,
    protocols: Sequence[str] = (),
    greeting: Callable[[socket.socket], None] = lambda client: None,
) -> Iterator[int]:
    """A port of this machine that speaks TLS for as long as the block runs.

    Args:
        port: Of the server behind.
        proof: The files of its certificate and of the key.
        protocols: What it offers by ALPN, for example ``h2``.
        greeting: What is said before the handshake.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*proof)
    if protocols:
        context.set_alpn_protocols([*protocols])

    def serve(client: socket.socket) -> None:
        with suppress(OSError), client:  # a client that does not trust the certificate says so, and goes
            greeting(client)
            with (
                context.wrap_socket(client, server_side=True) as inside,
                socket.create_connection((HERE, port)) as server,
            ):
                back = threading.Thread(target=_pump, args=[server, inside], daemon=True)
                back.start()
                _pump(inside, server)
                back.join()

    def listen() -> None:
        with suppress(OSError):  # closed
            while True:
                threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()

    with socket.create_server((HERE, 0)) as listener:
        threading.Thread(target=listen, daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while some := source.recv(65536):
            target.sendall(some)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
