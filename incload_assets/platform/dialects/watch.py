"""A limit for connections whose server's time-outs do not help, because the network drops packets silently."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Timer


@contextmanager
def cut_after(seconds: float, descriptor: int) -> Iterator[None]:
    """A block after whose time a connection is closed from outside, so that who waits for its answer gets an error."""
    watch = Timer(seconds, _cut, [descriptor])
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def _cut(descriptor: int) -> None:
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as same:
        same.shutdown(socket.SHUT_RDWR)
