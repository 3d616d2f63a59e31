"""Lineage events, as openlineage-python's own transports deliver them, checked against the published schemas."""

import json
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import dagster as dg
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from incload_assets.assets.incremental import table_of
from incload_assets.declaration.table import Table
from incload_assets.definitions import defs
from incload_assets.monitoring.telemetry.emitters import emitters
from incload_assets.platform.lake import Lake
from tests.support.load_rows import NOON, RUN, failed_row, load_row

LAKE = Lake("s3://lake/prod")
SCHEMAS = {
    schema["$id"]: schema
    for schema in (json.loads(path.read_text()) for path in (Path(__file__).parent / "openlineage").glob("*.json"))
}
"""The published schemas, by their addresses."""

Event = dict[str, Any]


@pytest.fixture(scope="module")
def shop() -> list[Table]:
    return [table for asset in dict.fromkeys(defs.assets or ()) if (table := table_of(asset)) is not None]


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    before = dict(os.environ)
    for name in before:
        if name.startswith("OPENLINEAGE"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("INCLOAD_LANDING", "/landing")
    monkeypatch.chdir(tmp_path)
    yield
    for name in os.environ.keys() - before.keys():  # the client copies one variable to another
        del os.environ[name]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file that events are appended to."""
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(tmp_path / "events.jsonl"))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    return tmp_path / "events.jsonl"


def events_in(file: Path) -> list[Event]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def check(event: Event) -> None:
    """Validate an event, and each facet by the schema that it names."""
    registry = Registry().with_resources(
        (uri, Resource.from_contents(schema)) for uri, schema in SCHEMAS.items()
    )  # fmt: skip
    parts = [event, *_facets(event)]
    for part in parts:
        uri = part.get("_schemaURL") or part["schemaURL"]
        assert uri.partition("#")[0] in SCHEMAS, f"no published schema for {uri}"
        validator = Draft202012Validator({"$ref": uri}, registry=registry)
        assert [error.message for error in validator.iter_errors(part)] == [], uri


def _facets(part: Any) -> Iterator[dict[str, Any]]:
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        if isinstance(value, dict) and "_schemaURL" in value:
            yield value
        yield from _facets(value)


def test_events_of_all_tables_of_the_sample_shop_are_valid(shop: list[Table], sent: Path) -> None:
    rows = [row for table in shop for row in (load_row(1, table=table.name), failed_row(2, table=table.name))]
    emitters(shop, LAKE)(rows)
    events = events_in(sent)
    assert len(events) == 4 * len(shop)
    for event in events:
        check(event)


def test_the_graph_is_that_of_the_declared_dependencies(shop: list[Table], sent: Path) -> None:
    emitters(shop, LAKE)([load_row(1, table=table.name) for table in shop])
    ends = {event["job"]["name"]: event for event in events_in(sent) if event["eventType"] == "COMPLETE"}
    found = {name: {(d["namespace"], d["name"]) for d in event["inputs"]} for name, event in ends.items()}
    produced = {name: [(d["namespace"], d["name"]) for d in event["outputs"]] for name, event in ends.items()}
    graph = defs.resolve_asset_graph()
    for table in shop:
        [output] = produced[table.name]
        assert output == ("s3://lake", f"prod/{table.name}")
        if parents := graph.get(table.key).parent_keys:
            assert found[table.name] == {produced[key.to_user_string()][0] for key in parents}
    of_sources = {name: inputs for name, inputs in found.items() if not graph.get(dg.AssetKey(name)).parent_keys}
    assert of_sources == {
        **{
            name: {("file", f"/landing/{name}")}
            for name in ("articles", "customers", "events", "inventory", "orders", "service_logs", "settings")
        },
        "assortment": {("file", "/landing/assortment_full"), ("file", "/landing/assortment_changes")},
        "prices": {("postgres://sample_shop:5432", "sample_shop.shop.prices")},
        "price_changes": {("postgres://sample_shop:5432", "sample_shop.shop.price_changes")},
        "web_events": {("kafka://sample_shop:9092", "web_events")},
    }


def test_a_load_has_counts_version_window_and_proof(shop: list[Table], sent: Path) -> None:
    emitters(shop, LAKE)([load_row(1)])
    start, end = events_in(sent)
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["eventTime"] < end["eventTime"] == NOON.isoformat()
    assert start["run"]["runId"] == end["run"]["runId"]
    run, [output], [read] = end["run"]["facets"], end["outputs"], end["inputs"]
    assert run["parent"]["run"]["runId"] == RUN
    assert run["nominalTime"]["nominalStartTime"] == "2026-01-01T00:00:00+00:00"
    assert run["processing_engine"]["name"] == "Spark"
    assert output["outputFacets"]["outputStatistics"].items() >= {"rowCount": 5, "size": 1234}.items()
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 7
    facets = output["facets"]
    assert facets["version"]["datasetVersion"] == "3"
    assert facets["documentation"]["description"] == "One row per order, as last changed."
    columns = {column["name"]: column for column in facets["schema"]["fields"]}
    assert columns["amount"]["type"] == "decimal(12,2)" and columns["amount"]["description"]
    proof = {each["name"]: each["success"] for each in facets["dataQualityAssertions"]["assertions"]}
    assert proof == {"nothing_pending": True, "same_content": True, "nothing_quarantined": False}
    assert [each["status"] for each in run["test"]["tests"]] == ["pass", "pass", "fail"]


def test_columns_come_from_fields_of_their_names_where_the_function_returns_its_rows_and_personal_ones_are_marked(
    shop: list[Table], sent: Path
) -> None:
    names = ("customers", "assortment", "articles", "orders", "daily_sales")
    emitters(shop, LAKE)([load_row(1, table=name) for name in names])
    ends = (event["outputs"][0]["facets"] for event in events_in(sent) if event["eventType"] == "COMPLETE")
    facets = dict(zip(names, ends, strict=True))
    assert {tag["field"] for tag in facets["customers"]["tags"]["tags"]} == {"name", "email"}
    [email] = facets["customers"]["columnLineage"]["fields"]["email"]["inputFields"]
    assert (email["namespace"], email["name"], email["field"]) == ("file", "/landing/customers", "email")
    assert email["transformations"][0].items() >= {"type": "DIRECT", "subtype": "IDENTITY"}.items()
    several = facets["assortment"]["columnLineage"]["fields"].popitem()[1]["inputFields"]
    assert {each["name"] for each in several} == {"/landing/assortment_full", "/landing/assortment_changes"}
    assert facets["articles"]["columnLineage"]["fields"]["cdc_sequence"]["inputFields"] == [], "the source adds it"
    assert "columnLineage" not in facets["orders"] and "columnLineage" not in facets["daily_sales"]


def test_failed_and_cancelled_attempts_end_so_with_their_message(shop: list[Table], sent: Path) -> None:
    emitters(shop, LAKE)([failed_row(1), failed_row(2, outcome="cancelled", error_class="", error="")])
    failed, cancelled = (event for event in events_in(sent) if event["eventType"] != "START")
    assert failed["eventType"] == "FAIL" and cancelled["eventType"] == "ABORT"
    assert failed["run"]["facets"]["errorMessage"]["message"] == "ContractViolation: 2 of 7 rows break the contract"
    assert "facets" not in failed["outputs"][0] or failed["outputs"][0]["facets"] == {}


def test_what_is_sent_twice_is_the_same(shop: list[Table], sent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "shop")
    for _ in range(2):
        emitters(shop, LAKE)([load_row(1), load_row(2)])
    events = events_in(sent)
    assert events[:4] == events[4:] and len({event["run"]["runId"] for event in events}) == 2
    assert {event["job"]["namespace"] for event in events} == {"shop"}


def test_the_configuration_file_of_openlineage_is_enough(shop: list[Table], tmp_path: Path) -> None:
    warnings: list[str] = []
    (tmp_path / "openlineage.yml").write_text("tags: {}\n")
    emitters(shop, LAKE, warnings.append)([load_row(1)])
    (tmp_path / "openlineage.yml").write_text(
        f"transport:\n  type: file\n  append: true\n  log_file_path: {tmp_path}/from_file.jsonl\n"
    )
    emitters(shop, LAKE, warnings.append)([load_row(1)])
    assert len(events_in(tmp_path / "from_file.jsonl")) == 2 and warnings == []


def test_events_go_to_a_server_and_one_that_refuses_costs_a_warning(
    shop: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[tuple[str, Event]] = []
    status = [201]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            got.append((self.headers["Authorization"], body))
            self.send_response(status[0])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    warnings: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OPENLINEAGE_API_KEY", "sesame")
        emitters(shop, LAKE, warnings.append)([load_row(1)])
        assert [(key, event["eventType"]) for key, event in got] == [
            ("Bearer sesame", "START"),
            ("Bearer sesame", "COMPLETE"),
        ]
        status[0] = 403
        emitters(shop, LAKE, warnings.append)([load_row(1)])
        server.shutdown()
        thread.join()
    [warning] = warnings
    assert "rejected 2 of 2 events" in warning and "Remedy: " in warning and "sesame" not in warning


def test_nothing_is_sent_or_printed_where_no_transport_is_configured_or_lineage_is_turned_off(
    shop: list[Table], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    warnings: list[str] = []
    emitters(shop, LAKE, warnings.append)([load_row(1)])
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "console")
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    emitters(shop, LAKE, warnings.append)([load_row(1)])
    assert capsys.readouterr().out == "" and warnings == [] and list(tmp_path.iterdir()) == []
