"""The pages of the dashboards, served to a test."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from incload_assets.history.loads_table import LoadsTable
from incload_assets.monitoring.dashboard.drawing import Links
from incload_assets.monitoring.dashboard.page_server import Looks, PageServer


@contextmanager
def served(looks: Looks, loads: LoadsTable, links: Links | None = None) -> Iterator[PageServer]:
    """A server at a free port of this machine."""
    with PageServer(("127.0.0.1", 0), looks, loads, links or Links()) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def asked(server: PageServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    """Status, headers and text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
    connection.close()
    return found
