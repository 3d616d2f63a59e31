"""Traces of loads, as a receiver of OTLP over HTTP gets them."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from incload_assets.monitoring.telemetry.emitters import emitters
from incload_assets.monitoring.telemetry.traces import resource, spans_of
from incload_assets.platform.lake import Lake
from tests.support.load_rows import NOON, RUN, failed_row, load_row
from tests.support.otlp_receiver import Receiver, attributes, otlp_receiver

LAKE = Lake("/nowhere")
SECOND = timedelta(seconds=1)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with otlp_receiver() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        yield received


@pytest.fixture
def warnings() -> list[str]:
    return []


def only(spans: list[Span], start: str) -> Span:
    [found] = [span for span in spans if span.name.startswith(start)]
    return found


def test_a_run_is_one_trace_with_a_span_for_each_load_and_each_part_of_a_phase(receiver: Receiver) -> None:
    emitters([], LAKE)([load_row(1), load_row(2, at=NOON + 20 * SECOND)])
    spans = receiver.spans
    assert {span.trace_id.hex() for span in spans} == {RUN.replace("-", "")}
    assert len({span.span_id for span in spans}) == len(spans) == 1 + 2 + 2 * 6
    root = only(spans, "run ")
    loads = [span for span in spans if span.name == "load orders"]
    assert root.parent_span_id == b"" and {span.parent_span_id for span in loads} == {root.span_id}
    assert [attributes(span)["incload.window"] for span in loads] == ["2026-01-01", "2026-01-02"]
    for load in loads:
        parts = [span.name for span in spans if span.parent_span_id == load.span_id]
        assert parts == ["prepare", "detect", "ingest", "merge", "ingest", "reconcile"]
    assert root.start_time_unix_nano == (NOON - 30 * SECOND).timestamp() * 1e9
    assert root.end_time_unix_nano == (NOON + 20 * SECOND).timestamp() * 1e9
    by_id = {span.span_id: span for span in spans}
    for span in spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        if span.parent_span_id:
            parent = by_id[span.parent_span_id]
            assert parent.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= parent.end_time_unix_nano


def test_a_load_has_its_counts_versions_verdict_and_trigger(receiver: Receiver) -> None:
    emitters([], LAKE)([load_row(1)])
    found = attributes(only(receiver.spans, "load "))
    assert (
        found.items()
        >= {
            "incload.table": "orders",
            "incload.outcome": "loaded",
            "incload.trigger": "sensor",
            "incload.attempt": 1,
            "incload.rows.read": 7,
            "incload.rows.quarantined": 2,
            "incload.table_version": 3,
            "incload.proof.pending": 0,
            "incload.on_time": False,
        }.items()
    )
    assert only(receiver.spans, "load ").status.code == Status.STATUS_CODE_UNSET


def test_a_failed_attempt_is_an_error_with_class_and_message(receiver: Receiver) -> None:
    emitters([], LAKE)([load_row(1), failed_row(2)])
    good, bad = [span for span in receiver.spans if span.name == "load orders"]
    assert good.status.code == Status.STATUS_CODE_UNSET
    for span in (bad, only(receiver.spans, "run ")):
        assert span.status.code == Status.STATUS_CODE_ERROR
        assert span.status.message == "ContractViolation: 2 of 7 rows break the contract"
        assert attributes(span)["error.type"] == "ContractViolation"
        [event] = span.events
        assert attributes(event)["exception.message"] == "2 of 7 rows break the contract"
    assert "incload.rows.read" not in attributes(bad)


def test_what_is_sent_twice_has_the_same_identifiers(receiver: Receiver) -> None:
    rows = [load_row(1), failed_row(2)]
    emitters([], LAKE)(rows)
    once = list(receiver.spans)
    emitters([], LAKE)(rows)
    assert receiver.spans == once + once


def test_the_root_of_a_run_that_is_collected_in_parts_stays_the_same_span_and_grows(receiver: Receiver) -> None:
    emitters([], LAKE)([load_row(1)])
    emitters([], LAKE)([load_row(2, at=NOON + 60 * SECOND)])
    early, late = [span for span in receiver.spans if span.name.startswith("run ")]
    assert early.span_id == late.span_id and early.start_time_unix_nano == late.start_time_unix_nano
    assert late.end_time_unix_nano - early.end_time_unix_nano == 60e9
    assert len({span.span_id for span in receiver.spans}) == 1 + 2 * 7


def test_loads_of_different_runs_are_different_traces_even_if_their_identifiers_are_no_numbers(
    receiver: Receiver,
) -> None:
    emitters([], LAKE)([load_row(1), load_row(1, run_id="game day"), load_row(1, run_id="")])
    assert len({span.trace_id for span in receiver.spans}) == 3
    assert all(len(span.trace_id) == 16 and any(span.trace_id) for span in receiver.spans)


def test_the_standard_variables_say_headers_service_and_resource(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitters([], LAKE)([load_row(1)])
    assert receiver.resource["service.name"] == "incload"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop loads")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,team=data")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=seven")
    emitters([], LAKE)([load_row(1)])
    assert receiver.resource.items() >= {"service.name": "shop loads", "team": "data"}.items()
    assert receiver.headers[-1]["x-tenant"] == "seven"


@pytest.mark.parametrize(
    "changed",
    [
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_nothing_is_sent_where_the_environment_names_no_endpoint_or_says_no(
    receiver: Receiver, warnings: list[str], monkeypatch: pytest.MonkeyPatch, changed: dict[str, str]
) -> None:
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    emitters([], LAKE, warnings.append)([load_row(1)])
    assert receiver.headers == warnings == []


def test_many_spans_are_sent_in_several_requests(receiver: Receiver) -> None:
    emitters([], LAKE)([load_row(1, run_id=f"run {number}") for number in range(200)])
    assert len(receiver.requests) == 4 and len(receiver.spans) == 200 * 8


@pytest.mark.parametrize(("status", "url"), [(401, ""), (200, "http://127.0.0.1:9")])
def test_an_endpoint_that_is_down_or_refuses_costs_a_warning_and_nothing_else(
    receiver: Receiver, warnings: list[str], monkeypatch: pytest.MonkeyPatch, status: int, url: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
    receiver.status = status
    if url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"http://user:secret@{url.removeprefix('http://')}")
    emitters([], LAKE, warnings.append)([load_row(1)])
    [warning] = warnings
    assert warning.startswith("traces of 1 load may be lost: the trace endpoint rejected 8 of 8 spans.")
    assert "Remedy: " in warning and "secret" not in warning


def test_an_endpoint_that_never_answers_holds_up_a_collection_for_a_limited_time(
    warnings: list[str], monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    monkeypatch.setattr("incload_assets.monitoring.telemetry.emitters.LIMIT_SECONDS", 0.2)
    receiver.delay = 0.6
    emitters([], LAKE, warnings.append)([load_row(1)])
    assert "took longer than" in warnings[0]


def test_another_protocol_is_refused_with_what_to_set(
    receiver: Receiver, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    emitters([], LAKE, warnings.append)([load_row(1)])
    assert "set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf" in warnings[0] and receiver.requests == []


def test_without_the_package_the_warning_names_it_and_how_to_install_it(
    receiver: Receiver, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "incload_assets.monitoring.telemetry.traces", None)
    emitters([], LAKE, warnings.append)([load_row(1)])
    [warning] = warnings
    assert "OTEL_EXPORTER_OTLP_ENDPOINT asks for them" in warning and "pip install 'incload[observability]'" in warning


def test_a_window_that_one_run_loads_twice_has_two_spans() -> None:
    once, again = ([span.context.span_id for span in spans_of([row], resource())]
                   for row in (load_row(1), replace(load_row(1), event=7)))  # fmt: skip
    assert once[0] == again[0] and set(once[1:]).isdisjoint(again[1:])
