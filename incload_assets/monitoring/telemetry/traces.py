"""OpenTelemetry spans of loads, made from rows of ``_loads``: one trace per run, sent by OTLP over HTTP.

The spans are made after the load, by whatever collects the rows: a load neither waits for an endpoint nor loses its
spans with its process. The package ``dagster-otel`` is not used, because it exports from the process of the run while
it runs, and knows Dagster's steps, but neither windows nor the phases of a load.

All identifiers follow from the row, so spans that are sent again are the same spans.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from incload_assets.history.load_row import COUNTS, LoadRow
from incload_assets.platform.errors import IncrementalLoadError

SPANS_AT_ONCE = 500
"""Number of spans in a request."""
TIMEOUT_SECONDS = 5.0
"""Longest time of a request with its repetitions, if the environment does not set one."""
_SCOPE = InstrumentationScope("incload", version("incload"))
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def send_traces(rows: Sequence[LoadRow]) -> None:
    """Sends the spans of rows to the endpoint that the ``OTEL_…`` variables name.

    Raises:
        IncrementalLoadError: The endpoint does not take them.
    """
    protocol = next(filter(None, map(os.environ.get, _PROTOCOLS)), "http/protobuf")
    if protocol != "http/protobuf":
        raise IncrementalLoadError(
            f"the protocol of the traces' endpoint is {protocol!r}",
            rule="traces are sent by OTLP over HTTP, which collectors take at port 4318",
            remedy=f"set {_PROTOCOLS[0]}=http/protobuf, and the endpoint's address for it",
        )
    exporter = OTLPSpanExporter(timeout=None if any(map(os.environ.get, _TIMEOUTS)) else TIMEOUT_SECONDS)
    try:
        spans = spans_of(rows, resource())
        for start in range(0, len(spans), SPANS_AT_ONCE):
            if exporter.export(spans[start : start + SPANS_AT_ONCE]) is not SpanExportResult.SUCCESS:
                raise IncrementalLoadError(
                    f"the trace endpoint rejected {len(spans) - start} of {len(spans)} spans",
                    remedy="see the log of opentelemetry above for its answer; check OTEL_EXPORTER_OTLP_ENDPOINT and "
                    "OTEL_EXPORTER_OTLP_HEADERS",
                )
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]


def resource() -> Resource:
    """The origin of the spans: the service ``incload``, unless the environment names another one."""
    given = OTELResourceDetector().detect().attributes
    return Resource.create({SERVICE_NAME: "incload", SERVICE_VERSION: _SCOPE.version or "", **given})


def spans_of(rows: Sequence[LoadRow], source: Resource) -> list[ReadableSpan]:
    """The spans of rows: per run a root, below it one for each load, below that one for each part of a phase.

    The root of a run whose rows are collected in several parts is made with each of them, with the same identifier; the
    last one covers the run.
    """
    runs: dict[str, list[LoadRow]] = {}
    for row in rows:
        runs.setdefault(row.run_id, []).append(row)
    return [span for of_run in runs.values() for span in _Trace(of_run, source).spans()]


class _Trace:
    """The spans of rows of one run."""

    def __init__(self, rows: Sequence[LoadRow], source: Resource) -> None:
        self.rows, self.source, self.run_id = rows, source, rows[0].run_id
        self.number = trace_number(rows[0].trace_id)

    def spans(self) -> Iterator[ReadableSpan]:
        starts, ends = [row.began for row in self.rows], [_end(row) for row in self.rows]
        asked = [row.asked_at for row in self.rows if row.asked_at is not None]
        first, failed = self.rows[0], [row for row in self.rows if row.outcome != "loaded"]
        run = self._context(self.run_id)
        yield self._span(
            f"run {', '.join(sorted({row.table for row in self.rows}))}",
            run,
            None,
            min(starts + asked),
            max(ends),
            {"dagster.run_id": self.run_id, "incload.trigger": first.trigger},
            failed[0] if failed else None,
        )
        for row in self.rows:
            yield from self._load(row, run)

    def _load(self, row: LoadRow, run: SpanContext) -> Iterator[ReadableSpan]:
        place = f"{row.run_id}/{row.table}/{row.window}/{row.event}"
        load, failed = self._context(place), row if row.outcome != "loaded" else None
        yield self._span(f"load {row.table}", load, run, row.began, _end(row), _attributes(row), failed)
        for number, (phase, start, took) in enumerate(row.spans):
            part = self._context(f"{place}/{phase}/{number}")
            about: dict[str, AttributeValue] = {"incload.table": row.table, "incload.window": row.window}
            yield self._span(phase, part, load, start, start + took, about, None)

    def _context(self, place: str) -> SpanContext:
        number = int.from_bytes(hashlib.sha256(place.encode()).digest()[:8]) or 1  # 0 is invalid
        return SpanContext(self.number, number, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    def _span(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        start: datetime,
        end: datetime,
        attributes: dict[str, AttributeValue],
        failed: LoadRow | None,
    ) -> ReadableSpan:
        status, events = Status(StatusCode.UNSET), []
        if failed is not None:
            kind = failed.error_class or failed.outcome
            attributes |= {"error.type": kind}
            about = {"exception.type": kind, "exception.message": failed.error}
            status = Status(StatusCode.ERROR, f"{kind}: {failed.error}" if failed.error else kind)
            events = [Event("exception", about, _nanoseconds(failed.ended_at))]
        return ReadableSpan(
            name,
            context,
            parent,
            self.source,
            attributes,
            events,
            status=status,
            start_time=_nanoseconds(start),
            end_time=_nanoseconds(end),
            instrumentation_scope=_SCOPE,
        )


def trace_number(trace_id: str) -> int:
    """The number of a trace whose identifier in ``_loads`` is given; a hash, should it not be a number itself."""
    try:
        number = int(trace_id, 16) if len(trace_id) == 32 else 0
    except ValueError:
        number = 0
    return number or int.from_bytes(hashlib.sha256(trace_id.encode()).digest()[:16])


def _attributes(row: LoadRow) -> dict[str, AttributeValue]:
    proof = json.loads(row.proof)
    found: dict[str, AttributeValue | None] = {
        "table": row.table,
        "window": row.window,
        "window.start": row.window_start.isoformat(),
        "window.end": row.window_end.isoformat(),
        "due_at": row.due_at.isoformat(),
        "on_time": row.on_time,
        "outcome": row.outcome,
        "trigger": row.trigger,
        "why": row.why,
        "attempt": row.attempt,
        "code_version": row.code_version,
        "table_version": row.table_version,
        "log_version": row.log_version,
        "position": row.position,
        "fingerprint": row.fingerprint,
        "commit": row.commit,
        "proof.keys": proof.get("keys"),
        "proof.pending": proof.get("pending"),
    }
    if row.outcome == "loaded":
        found |= {f"rows.{name.removeprefix('rows_')}": getattr(row, name) for name in COUNTS}
        found |= {"bytes": row.bytes, "seconds": row.seconds}
    return {f"incload.{name}": value for name, value in found.items() if value is not None and value != ""}


def _end(row: LoadRow) -> datetime:
    return max([row.ended_at, *(start + took for _, start, took in row.spans)])


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1000
