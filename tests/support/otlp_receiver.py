"""A receiver of traces by OTLP over HTTP."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Receiver:
    """What was received.

    Args:
        url: The address.
        requests: The parsed requests, in order.
        headers: Their headers.
        status: The status of the answers.
        delay: Seconds before an answer.
    """

    url: str
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    status: int = 200
    delay: float = 0.0

    @property
    def spans(self) -> list[Span]:
        """All spans, in order."""
        return [
            span
            for request in self.requests
            for of_resource in request.resource_spans
            for scope in of_resource.scope_spans
            for span in scope.spans
        ]

    @property
    def resource(self) -> dict[str, Any]:
        """The attributes of the resource of the last request."""
        return attributes(self.requests[-1].resource_spans[0].resource)


def attributes(of: Any) -> dict[str, Any]:
    """The attributes of a span, an event or a resource."""
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in of.attributes}


@contextmanager
def otlp_receiver() -> Iterator[Receiver]:
    """A receiver at a free port of this machine, in a thread."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.headers.append({name.lower(): value for name, value in self.headers.items()})
            if received.status == 200 and self.path == "/v1/traces":
                received.requests.append(ExportTraceServiceRequest.FromString(body))
            time.sleep(received.delay)
            self.send_response(received.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: requests are not logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        received = Receiver(f"http://127.0.0.1:{server.server_port}")
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield received
        finally:
            server.shutdown()
            thread.join()
