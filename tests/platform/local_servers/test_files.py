"""What the servers of a workspace have in common."""

import socket
from contextlib import ExitStack

from incload_assets.platform.local_servers.files import free_port


def test_a_free_port_is_none_that_an_outgoing_connection_may_take_before_its_server_listens() -> None:
    with ExitStack() as stack:
        given = {stack.enter_context(socket.create_server(("127.0.0.1", free_port()))).getsockname()[1] for _ in "abc"}
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        outgoing = {
            stack.enter_context(socket.create_connection(server.getsockname())).getsockname()[1] for _ in range(20)
        }
    assert len(given) == 3
    assert max(given) < min(outgoing)
