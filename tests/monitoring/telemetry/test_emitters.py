"""What the collection of loads sends, and that nothing it sends to can stop it."""

import json
import re
import sys
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.history.loads_table import LoadsTable
from incload_assets.monitoring.telemetry.emitters import emitters
from incload_assets.monitoring.telemetry.sensor import loads_sensor
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from tests.support.documents import documented_block
from tests.support.guest_table import House, guest, house, key
from tests.support.load_rows import NOON, load_row
from tests.support.otlp_receiver import otlp_receiver


@pytest.fixture(autouse=True)
def lineage_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where lineage goes."""
    file = tmp_path / "lineage.jsonl"
    monkeypatch.setenv(
        "OPENLINEAGE__TRANSPORT", json.dumps({"type": "file", "append": True, "log_file_path": str(file)})
    )
    return file


def tick(h: House) -> str:
    """One evaluation of the sensor, as the daemon does it."""
    with dg.build_sensor_context(h.instance, resources={"lake": h.lake}) as context:
        return str(loads_sensor([h.table]).evaluate_tick(context).skip_message)


def test_loads_are_recorded_traced_and_told_by_the_sensor_and_recorded_while_the_receivers_are_down(
    tmp_path: Path, spark_settings: Settings, lineage_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_TRACE_URL", "https://traces.example/trace/{trace_id}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"), guest("2"))
        h.deliver(2, guest("3", room=0, day=2))
        assert h.load(1, 2) == [True, False]
        with otlp_receiver() as received:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
            assert (tick(h), tick(h)) == ("2 loads recorded", "0 loads recorded")
        found = h.instance.get_latest_materialization_event(h.table.key)
        told_of = dg.AssetMaterialization(h.table.key, partition=key(3), metadata={"rows_read": 1})
        h.instance.report_runless_asset_event(told_of)
        lineage = lineage_file.read_text().splitlines()
        lineage_file.unlink()
        lineage_file.mkdir()
        assert tick(h) == "1 load recorded"
        loaded, failed, _ = LoadsTable(h.lake).rows()
    assert [span.trace_id.hex() for span in received.spans if not span.parent_span_id] == [
        loaded.trace_id,
        failed.trace_id,
    ]
    parts = [span.name for span in received.spans if span.trace_id.hex() == loaded.trace_id][2:]
    assert parts == [name for name, _, _ in loaded.spans]
    assert found is not None and found.asset_materialization is not None
    metadata = found.asset_materialization.metadata
    assert metadata["trace_id"].value == loaded.trace_id
    assert metadata["trace"].value == f"https://traces.example/trace/{loaded.trace_id}"
    events = [json.loads(line) for line in lineage]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE", "START", "FAIL"]
    assert events[1]["run"]["facets"]["parent"]["run"]["runId"] == loaded.run_id
    assert events[1]["outputs"][0]["name"] == h.lake.table_uri(h.table.key.path)
    tests = {test["name"]: test["status"] for test in events[1]["run"]["facets"]["test"]["tests"]}
    assert tests == {"nothing_pending": "pass", "same_content": "pass", "nothing_quarantined": "pass"}
    assert key(2) in events[3]["run"]["facets"]["errorMessage"]["message"]


@pytest.mark.parametrize(
    ("module", "variable"), [("traces", "OTEL_EXPORTER_OTLP_ENDPOINT"), ("lineage", "OPENLINEAGE__TRANSPORT")]
)
def test_without_the_package_the_warning_names_what_asks_for_it_and_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, module: str, variable: str
) -> None:
    warnings: list[str] = []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    monkeypatch.setitem(sys.modules, f"incload_assets.monitoring.telemetry.{module}", None)
    emitters([], Lake("/nowhere"), warnings.append)([load_row(1)])
    [warning] = [text for text in warnings if "is not installed" in text]
    assert f"{variable} asks for them" in warning and "pip install 'incload[observability]'" in warning


def test_what_was_lost_is_sent_again_from_the_history(
    tmp_path: Path, lineage_file: Path, monkeypatch: pytest.MonkeyPatch, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h, otlp_receiver() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        rows = [load_row(day, table=h.table.name, at=NOON.replace(day=day)) for day in (3, 4, 5)]
        assert LoadsTable(h.lake).append(rows, after=0)
        names: dict[str, object] = {}
        exec(documented_block("python", "def send_again"), names)
        names["send_again"]([h.table], h.lake, since=NOON.replace(day=4))  # type: ignore[operator]
    assert len([span for span in received.spans if span.name == "load guests"]) == 2
    assert len(lineage_file.read_text().splitlines()) == 4


def test_whatever_collects_loads_also_sends_them() -> None:
    modules = (Path(__file__).parents[3] / "incload_assets").rglob("*.py")
    taking = re.compile(r"^from incload_assets\.history\.collect import .*\bcollect\b", re.MULTILINE)
    assert [module.stem for module in modules if taking.search(module.read_text())] == ["emitters"]
