"""Serves the pages of the dashboards, from looks that all browsers share."""

import re
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from importlib.resources import files
from itertools import pairwise
from threading import Lock, Thread
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import dagster as dg
import uvicorn
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.history.loads_table import LoadsTable
from incload_assets.monitoring.dashboard.drawing import Links, drawn
from incload_assets.monitoring.dashboard.evaluate import Reading
from incload_assets.monitoring.dashboard.loads import load_page
from incload_assets.monitoring.dashboard.page import dashboard_page
from incload_assets.monitoring.dashboard.table_page import rejected_of, table_page
from incload_assets.monitoring.dashboard.trace_page import traced
from incload_assets.monitoring.dashboard.view import View, gauges, look
from incload_assets.monitoring.panels import DASHBOARDS
from incload_assets.monitoring.telemetry.emitters import collect_and_send
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.failures import masked
from incload_assets.platform.lake import Lake
from incload_assets.platform.memory import unsearched
from incload_assets.protection.row_key import needed_columns

PORT = 3070
HERE = f"http://127.0.0.1:{PORT}"
"""The address of the pages, unless ``INCLOAD_DASHBOARD_URL`` says otherwise."""
EVERY_SECONDS = 10.0
"""The shortest time from one look at storage to the next, however many browsers ask."""
SHARE = 0.2
"""The largest share of the time in which storage is looked at, so that many tables do not keep a core busy."""
REMEMBERED, SAMPLES = 120, 100_000
"""The most earlier looks whose gauges are kept, and the most samples of them."""
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_FILES = {"/page.css": "text/css", "/page.js": "text/javascript"}
_RUN, _DOCUMENT = re.compile(r"[0-9A-Za-z-]{1,64}"), re.compile(r"[a-z_]+\.md")
RUNBOOKS = "/docs/runbooks.md"
"""The path of the page with the runbooks."""


class Looks:
    """The looks at storage, shared by all requests.

    Args:
        take: Takes a look; it gets the samples of earlier ones by instant.
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
                self._last = None  # two of them would need twice the memory
                with unsearched():
                    self._last = self._take(dict(self._remembered))
                ended = self._clock()
                self._due = ended + max(EVERY_SECONDS, (ended - began) * (1 / SHARE - 1))
                self._remembered[self._last.at] = kept = gauges(self._last)
                most = min(REMEMBERED, max(SAMPLES // (sum(map(len, kept.values())) or 1), 1))
                for at in sorted(self._remembered)[:-most]:
                    del self._remembered[at]
            return self._last


def looks(instance: dg.DagsterInstance, tables: Mapping[str, Table], lake: Lake) -> Looks:
    """Looks at the storage of a code location; the loads that ended meanwhile are collected first."""

    def take(remembered: Mapping[datetime, Reading]) -> View:
        collect_and_send(instance, tables.values(), lake)
        return look(instance, [*tables.values()], lake, now(), remembered)

    return Looks(take)


class PageServer:
    """The server of the pages; ``serve_forever()`` serves them until ``shutdown()``.

    Args:
        address: The address and the port to listen on; port 0: a free one.
        loads: The history of loads, for runs that ended longer ago.
    """

    def __init__(self, address: tuple[str, int], looks: Looks, loads: LoadsTable, links: Links) -> None:
        self.looks, self.loads, self.links = looks, loads, links
        self.local = address[0] in LOOPBACK
        self._shown: datetime | None = None
        self._pages: dict[str, tuple[HTTPStatus, str]] = {}
        self._lock = Lock()
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._socket = socket.create_server(address, family=family)
        app = Starlette(routes=[Route("/{path:path}", self._answer)], exception_handlers={405: _refused}, debug=False)
        config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False, lifespan="off")
        self._server = uvicorn.Server(config)

    @property
    def server_address(self) -> tuple[str, int]:
        """The address and the port that it listens on."""
        host, port, *_ = self._socket.getsockname()
        return host, port

    def serve_forever(self) -> None:
        """Serves the pages until :meth:`shutdown`, or until Ctrl-C."""
        self._server.run(sockets=[self._socket])

    def begin(self) -> None:
        """Begins the first look, before somebody asks for a page."""

        def first() -> None:
            with suppress(Exception):  # the page that is asked for shows it
                self.page("/")

        Thread(target=first, name="incload-first-look", daemon=True).start()

    def shutdown(self) -> None:
        """Ends :meth:`serve_forever`."""
        self._server.should_exit = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def page(self, path: str, query: str = "") -> tuple[HTTPStatus, str]:
        """The page at a decoded path, drawn once for each look at storage; the trace of a row (``query``) each time."""
        view = self.looks.last()
        kind, _, name = path.removeprefix("/").partition("/")
        if kind == "trace" and (facts := view.facts.tables.get(name)) is not None and needed_columns(facts.table):
            return traced(facts.table, self.loads.lake, query, self.links)
        with self._lock:
            if view.at != self._shown:
                self._shown, self._pages = view.at, {}
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
        if kind == "docs" and (shown := _document(name, view.at)) is not None:
            return HTTPStatus.OK, shown
        wanted = {
            "table": f"There is no table {name!r}.",
            "trace": f"There is no table {name!r} whose rows have a key.",
            "load": f"No load of a run {name!r} is known.",
        }
        text = wanted.get(kind, "There is no such page.")
        return HTTPStatus.NOT_FOUND, drawn("message", view.at, title="Not found", text=text)

    def _answer(self, request: Request) -> Response:
        path = request.scope["path"]
        if not self._is_meant(request):
            return _response(HTTPStatus.FORBIDDEN, "This address belongs to another server.\n", "text/plain")
        if path in _FILES:
            text = files(__package__).joinpath(path.removeprefix("/")).read_text(encoding="utf-8")
            return _response(HTTPStatus.OK, text, _FILES[path])
        try:
            return _response(*self.page(path, request.url.query))
        except IncrementalLoadError as error:
            status, title, fault = HTTPStatus.SERVICE_UNAVAILABLE, "Storage does not answer", str(error)
        except Exception as error:
            status, title = HTTPStatus.INTERNAL_SERVER_ERROR, "An unexpected error"
            fault = f"{type(error).__name__}: {error}"
        return _response(status, drawn("message", now(), title=title, fault=masked(fault)))

    def _is_meant(self, request: Request) -> bool:
        """True if a request names this machine; otherwise a web page elsewhere has its own name lead here."""
        if not self.local:
            return True
        with suppress(ValueError):
            return urlsplit(f"//{request.headers.get('host', '')}").hostname in LOOPBACK
        return False


def _refused(_: Request, __: Exception) -> Response:
    answer = _response(HTTPStatus.METHOD_NOT_ALLOWED, "These pages are only read.\n", "text/plain")
    answer.headers["Allow"] = "GET, HEAD"
    return answer


def _response(status: HTTPStatus, text: str, kind: str = "text/html") -> Response:
    return Response(text, status, HEADERS, kind)


def _document(name: str, at: datetime) -> str | None:
    """A page of the documentation, whose headings have the anchors that its links use; None if there is none."""
    page = files("incload_assets").joinpath("docs", name)
    if not _DOCUMENT.fullmatch(name) or not page.is_file():
        return None
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(page.read_text(encoding="utf-8"))
    for heading, text in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", re.sub(r"[^\w\- ]", "", text.content.lower()).replace(" ", "-"))
    title, start = tokens[1].content, 3  # the heading of the page is the frame's
    return drawn(
        "message", at, title=title, body=Markup(markdown.renderer.render(tokens[start:], markdown.options, {}))
    )
