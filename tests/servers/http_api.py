"""The HTTP API of a shop: changes day by day, in pages, for who has the token."""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

TOKEN = "not-to-be-shown"
PAGE = 3


class HttpApi:
    """A server with its content, which a test may change at any time.

    - ``GET /days?since=2026-01-01&until=2026-01-31``: of each day that has changes ``day``, ``count`` and ``version``.
    - ``GET /changes?day=2026-01-01&version=…``: the day's changes; 409 if it has another version by now.

    Both with ``page=`` from 1 on; an answer has ``items`` and ``next``, the number of the next page or null.

    Attributes:
        content: Changes by day.
        port: Where it listens.
    """

    def __init__(self) -> None:
        self.content: dict[str, Sequence[Mapping[str, Any]]] = {}
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                address = urlsplit(self.path)
                status, body = 401, {"error": f"unknown token {self.headers.get('Authorization')}"}
                if self.headers.get("Authorization") == f"Bearer {TOKEN}":
                    status, body = api.answer(address.path, dict(parse_qsl(address.query)))
                text = json.dumps(body, default=_text).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_port

    def answer(self, path: str, query: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Status and body for a request of somebody who is known."""
        if path == "/days":
            days = [day for day in sorted(self.content) if query["since"] <= day <= query["until"]]
            found = [{"day": day, "count": len(self.content[day]), "version": self._version(day)} for day in days]
            return 200, _page(found, int(query["page"]))
        if path != "/changes":
            return 404, {"error": "no such resource"}
        if query["version"] != self._version(query["day"]):
            return 409, {"error": "another version"}
        return 200, _page(self.content[query["day"]], int(query["page"]))

    def _version(self, day: str) -> str:
        return hashlib.sha1(json.dumps(self.content.get(day), default=_text).encode()).hexdigest()[:12]


def _page(items: Sequence[Any], number: int) -> dict[str, Any]:
    begin, end = (number - 1) * PAGE, number * PAGE
    return {"items": items[begin:end], "next": number + 1 if end < len(items) else None}


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, date | datetime) else str(value)


@contextmanager
def running_http_api() -> Iterator[HttpApi]:
    """A server for as long as the block runs."""
    api = HttpApi()
    thread = threading.Thread(target=api._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api._server.shutdown()
        api._server.server_close()
        thread.join(10)
