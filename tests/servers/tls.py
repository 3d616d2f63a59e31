"""TLS in front of a server that speaks none: a process whose port does the handshake and passes the bytes on.

A process of its own, because some clients hold Python's lock while they wait for an answer.
"""

import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

HERE = "127.0.0.1"
ROOT = Path(__file__).parents[2]


@contextmanager
def tls_in_front_of(
    port: int, proof: tuple[Path, Path], *, protocols: Sequence[str] = (), asked_before: int = 0
) -> Iterator[int]:
    """A port of this machine that speaks TLS for as long as the block runs.

    Args:
        port: Of the server behind.
        proof: The files of its certificate and of the key.
        protocols: What it offers by ALPN, for example ``h2``.
        asked_before: How many bytes a client asks with before the handshake; the answer is ``S``, as PostgreSQL's.
    """
    arguments = [str(port), *map(str, proof), ",".join(protocols), str(asked_before)]
    command = ["setpriv", "--pdeathsig=KILL", "--", sys.executable, "-m", "tests.servers.tls", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def serve(port: int, context: ssl.SSLContext, asked_before: int) -> None:
    """Listen on any port, print it, and pass on what clients and the server say."""

    def pass_on(client: socket.socket) -> None:
        with suppress(OSError), client:  # a client that does not trust the certificate goes
            if asked_before:
                client.recv(asked_before)
                client.sendall(b"S")
            with (
                context.wrap_socket(client, server_side=True) as inside,
                socket.create_connection((HERE, port)) as server,
            ):
                back = threading.Thread(target=_pump, args=[server, inside, socket.SHUT_RDWR], daemon=True)
                back.start()
                _pump(inside, server, socket.SHUT_WR)
                back.join()

    with socket.create_server((HERE, 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            threading.Thread(target=pass_on, args=[listener.accept()[0]], daemon=True).start()


def _pump(source: socket.socket, target: socket.socket, how: int) -> None:
    with suppress(OSError):
        while some := source.recv(65536):
            target.sendall(some)
    with suppress(OSError):
        socket.socket.shutdown(target, how)  # the method of an SSL socket would go on without encryption


def main(port: str, certificate: str, key: str, protocols: str, asked_before: str) -> None:
    """Serve until the process is ended."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    if protocols:
        context.set_alpn_protocols(protocols.split(","))
    serve(int(port), context, int(asked_before))


if __name__ == "__main__":
    main(*sys.argv[1:])
