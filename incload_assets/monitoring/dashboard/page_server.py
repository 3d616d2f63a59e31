"""Serves the pages of the dashboards, from looks that all browsers share."""

import re
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Lock
from urllib.parse import unquote, urlsplit

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.history.loads_table import LoadsTable
from incload_assets.monitoring.dashboard.docs_page import docs_page
from incload_assets.monitoring.dashboard.evaluate import Reading
from incload_assets.monitoring.dashboard.load_page import load_page
from incload_assets.monitoring.dashboard.markup import element
from incload_assets.monitoring.dashboard.page import dashboard_page
from incload_assets.monitoring.dashboard.parts import Links, frame, notice
from incload_assets.monitoring.dashboard.quarantine import rejected_of
from incload_assets.monitoring.dashboard.table_page import table_page
from incload_assets.monitoring.dashboard.trace_page import traced
from incload_assets.monitoring.dashboard.view import View, look
from incload_assets.monitoring.panels import DASHBOARDS
from incload_assets.monitoring.telemetry.emitters import collect_and_send
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.failures import masked
from incload_assets.platform.lake import Lake
from incload_assets.protection.row_key import needed_columns

PORT = 3070
HERE = f"http://127.0.0.1:{PORT}"
"""The address of the pages, unless ``INCLOAD_DASHBOARD_URL`` says otherwise."""
EVERY_SECONDS = 10.0
"""The shortest time from one look at storage to the next, however many browsers ask."""
SHARE = 0.2
"""The largest share of the time in which storage is looked at, so that many tables do not keep a core busy."""
REMEMBERED = 120
"""The number of earlier looks of which the gauges are kept."""
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_FILES = {"/page.css": "text/css", "/page.js": "text/javascript"}
_RUN = re.compile(r"[0-9A-Za-z-]{1,64}")


class Looks:
    """The looks at storage, shared by all requests.

    Args:
        take: Takes a look; it is given the samples of earlier ones by instant.
        clock: The seconds of a clock that never goes back.
    """

    def __init__(
        self, take: Callable[[Mapping[datetime, Reading]], View], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._take, self._clock, self._lock = take, clock, Lock()
        self._last: View | None = None
        self._due = 0.0
        self._remembered: dict[datetime, Reading] = {}

    def last(self) -> View:
        """The last look, or a new one if that is old enough."""
        with self._lock:
            if self._last is None or self._clock() >= self._due:
                began = self._clock()
                self._last = self._take(dict(self._remembered))
                ended = self._clock()
                self._due = ended + max(EVERY_SECONDS, (ended - began) * (1 / SHARE - 1))
                self._remembered[self._last.at] = self._last.now
                for at in sorted(self._remembered)[:-REMEMBERED]:
                    del self._remembered[at]
            return self._last


def looks(instance: dg.DagsterInstance, tables: Mapping[str, Table], lake: Lake) -> Looks:
    """Looks at the storage of a code location; the loads that ended meanwhile are collected first.

    Args:
        instance: The instance with runs, checks and sensors.
        tables: The tables by name.
        lake: The lake.
    """

    def take(remembered: Mapping[datetime, Reading]) -> View:
        collect_and_send(instance, tables.values(), lake)
        return look(instance, [*tables.values()], lake, now(), remembered)

    return Looks(take)


class PageServer(ThreadingHTTPServer):
    """The server of the pages; ``serve_forever()`` serves them.

    Args:
        address: The address and the port to listen on; port 0: a free one.
        looks: The looks at storage.
        loads: The history of loads, for runs that ended longer ago.
        links: The addresses that the pages point to.
    """

    daemon_threads = True

    def __init__(self, address: tuple[str, int], looks: Looks, loads: LoadsTable, links: Links) -> None:
        self.looks, self.loads, self.links = looks, loads, links
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._shown: View | None = None
        self._pages: dict[str, tuple[HTTPStatus, str]] = {}
        self._lock = Lock()
        super().__init__(address, _Handler)
        self.local = address[0] in LOOPBACK

    def page(self, path: str, query: str = "") -> tuple[HTTPStatus, str]:
        """The page at a path, drawn once for each look at storage; the trace of a row each time.

        Args:
            path: Decoded, for example ``/table/orders``.
            query: The key of a row to trace, for example ``order_id=17``.
        """
        view = self.looks.last()
        kind, _, name = path.removeprefix("/").partition("/")
        if kind == "trace" and (facts := view.facts.tables.get(name)) is not None and needed_columns(facts.table):
            return traced(facts.table, self.loads.lake, query, self.links)
        with self._lock:
            if view is not self._shown:
                self._shown, self._pages = view, {}
            if path not in self._pages:
                drawn = self._drawn(path, view)
                if drawn[0] is not HTTPStatus.OK:  # there is no end of such paths
                    return drawn
                self._pages[path] = drawn
            return self._pages[path]

    def _drawn(self, path: str, view: View) -> tuple[HTTPStatus, str]:
        for dashboard in DASHBOARDS:
            if path == f"/{dashboard.name}" or (path == "/" and dashboard is DASHBOARDS[0]):
                return HTTPStatus.OK, dashboard_page(dashboard, view, self.links)
        kind, _, name = path.removeprefix("/").partition("/")
        if kind == "table" and name in view.facts.tables:
            facts = view.facts.tables[name]
            return HTTPStatus.OK, table_page(facts, view, self.links, rejected_of(facts, self.loads.lake))
        if kind == "load" and _RUN.fullmatch(name):
            rows = [row for facts in view.facts.tables.values() for row in facts.recent if row.run_id == name]
            if rows := rows or self.loads.rows(runs=[name]):
                return HTTPStatus.OK, load_page(rows, view, self.links)
        if kind == "docs" and (shown := docs_page(name, view.at)) is not None:
            return HTTPStatus.OK, shown
        no_key = f"There is no table {name!r} whose rows have a key."
        wanted = {
            "table": f"There is no table {name!r}.",
            "trace": no_key,
            "load": f"No load of a run {name!r} is known.",
        }
        text = wanted.get(kind, "There is no such page.")
        return HTTPStatus.NOT_FOUND, frame("Not found", element("p", text), at=view.at)


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: PageServer
    server_version, sys_version = "incload", ""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        path = unquote(asked.path)
        if not self._is_meant():
            return self._answer(HTTPStatus.FORBIDDEN, "text/plain", "This address belongs to another server.\n")
        if path in _FILES:
            text = files(__package__).joinpath(path.removeprefix("/")).read_text(encoding="utf-8")
            return self._answer(HTTPStatus.OK, _FILES[path], text)
        try:
            status, text = self.server.page(path, asked.query)
        except IncrementalLoadError as error:
            status = HTTPStatus.SERVICE_UNAVAILABLE
            text = frame("Storage does not answer", notice(masked(str(error))), at=now())
        except Exception as error:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            text = frame("An unexpected error", notice(masked(f"{type(error).__name__}: {error}")), at=now())
        self._answer(status, "text/html", text)

    do_HEAD = do_GET

    def _refuse(self) -> None:
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", "These pages are only read.\n")

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse

    def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        with suppress(ConnectionError):  # the browser has gone
            self.send_response(status)
            for name, value in {**HEADERS, "Content-Type": f"{kind}; charset=utf-8"}.items():
                self.send_header(name, value)
            if status is HTTPStatus.METHOD_NOT_ALLOWED:
                self.send_header("Allow", "GET, HEAD")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    def _is_meant(self) -> bool:
        """Whether a request names this machine; otherwise a web page elsewhere has its own name lead here."""
        if not self.server.local:
            return True
        with suppress(ValueError):
            return urlsplit(f"//{self.headers.get('Host', '')}").hostname in LOOPBACK
        return False

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""
