"""What the exporter serves: after failures, deletions and restarts, and to several scrapes at once."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier, Thread

import dagster as dg
import pytest
import requests
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from prometheus_client.parser import text_string_to_metric_families

from incload_assets.declaration.table import Table
from incload_assets.history.loads_table import LoadsTable
from incload_assets.monitoring.facts import Facts
from incload_assets.monitoring.metrics import METRICS
from incload_assets.monitoring.prometheus import exporter as exporting
from incload_assets.monitoring.prometheus.exporter import WHOLE, Exporter, served
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.progress.checkpoint import ERROR_CLASSES
from incload_assets.sources.upstream.state import UpstreamTable
from incload_assets.sources.upstream.tables import Tables
from tests.support.guest_table import DAYS, House, house, key
from tests.support.load_history import days_before, load, named, record

Values = dict[tuple[str, str], float]


@dg.asset(partitions_def=DAYS)
def guests(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
    """A table that is loaded without rows, sources and Spark."""
    if context.partition_key == key(2):
        classes = {ERROR_CLASSES: dg.MetadataValue.json({key(2): "ContractViolation"})}
        raise dg.Failure("no", {key(2): dg.MetadataValue.text("too many rows"), **classes}, allow_retries=False)
    return dg.MaterializeResult(metadata={"rows_read": 5, "inserted": 3, "applied": 3, "seconds": 1.5})


@pytest.fixture
def h(tmp_path: Path) -> Iterator[House]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance, house(tmp_path, Settings(), instance=instance) as h:
        yield h


def run(h: House, *numbers: int) -> None:
    for number in numbers:
        dg.materialize([guests], instance=h.instance, partition_key=key(number), raise_on_error=False)


def values(text: str) -> Values:
    """The values of series by metric and the labels beside the table."""
    return {
        (sample.name, ",".join(sorted(v for n, v in sample.labels.items() if n != "table"))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_counters_do_not_count_backwards_when_runs_are_deleted(h: House) -> None:
    exporter = Exporter(h.instance, [h.table], h.lake)
    run(h, 1, 2, 3)
    before = values(exporter.text())
    for record_of_run in h.instance.get_run_records():
        h.instance.delete_run(record_of_run.dagster_run.run_id)
    after = values(Exporter(h.instance, [h.table], h.lake).text())
    assert before["incload_loads_total", "loaded"] == 2
    assert before["incload_errors_total", "ContractViolation"] == 1
    counters = {name for name, _ in before if name.endswith("_total")}
    assert {name: v for name, v in after.items() if name[0] in counters} == {
        name: v for name, v in before.items() if name[0] in counters
    }


def test_a_load_that_ended_just_now_is_counted_though_no_sensor_has_collected_it(h: House) -> None:
    exporter = Exporter(h.instance, [h.table], h.lake)
    counts = []
    for number in (1, 3):
        run(h, number)
        counts.append(values(exporter.text())["incload_rows_total", "applied"])
    assert counts == [3, 6]


def test_a_lake_without_loads_has_metrics_of_tables_that_were_never_loaded(h: House) -> None:
    found = values(Exporter(h.instance, [h.table], h.lake).text())
    assert found["incload_up", ""] == 1
    assert found["incload_loads_total", "failed"] == 0
    assert ("incload_last_load_timestamp_seconds", "") not in found


def test_a_storage_that_does_not_answer_is_a_metric_and_not_an_error(h: House) -> None:
    told: list[str] = []
    broken = Path(LoadsTable(h.lake).uri) / "_delta_log" / f"{0:020}.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("no JSON")
    with served(
        Exporter(h.instance, [h.table], h.lake, lambda e: told.append(type(e).__name__)), "127.0.0.1", 0
    ) as port:

        def scrape() -> Values:
            answer = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=30)
            assert answer.status_code == 200 and "no JSON" not in answer.text
            return values(answer.text)

        down, again = scrape(), scrape()
        broken.unlink()
        up = scrape()
    assert [found["incload_up", ""] for found in (down, again, up)] == [0, 0, 1]
    assert {name for name, _ in down} == {"incload_up", "incload_gathering_seconds"}
    assert ("incload_sensor_running", "") in up
    assert len(told) == 3 and told[-1] == "NoneType"


def test_scrapes_at_the_same_time_share_one_gathering(h: House, monkeypatch: pytest.MonkeyPatch) -> None:
    gathered, original = [], exporting.gather

    def slow(instance: dg.DagsterInstance, tables: list[Table], lake: Lake, at: datetime) -> Facts:
        gathered.append(at)
        time.sleep(0.5)
        return original(instance, tables, lake, at)

    monkeypatch.setattr(exporting, "gather", slow)
    exporter, start, texts = Exporter(h.instance, [h.table], h.lake), Barrier(4), list[str]()

    def scrape() -> None:
        start.wait()
        texts.append(exporter.text())

    threads = [Thread(target=scrape) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(gathered) == 1 and len(texts) == 4
    exporter.text()
    assert len(gathered) == 2


def test_the_format_is_what_prometheus_reads(h: House) -> None:
    other = named(h.table, "retail/sales", criticality="high", owners=("ada@example.org", "team:data"))
    record(h.lake, [load(table, day) for table in (h.table, other) for day in days_before(datetime.now(UTC), 3)])
    text = Exporter(h.instance, [h.table, other], h.lake).text()
    kinds = {family.name: family.type for family in text_string_to_metric_families(text)}
    named_kinds = {metric.name.removesuffix("_total"): metric.kind for metric in METRICS} | dict.fromkeys(
        WHOLE, "gauge"
    )
    assert kinds.items() <= named_kinds.items()
    assert 'incload_table_info{criticality="high",owner="team:data",table="retail/sales"} 1.0' in text
    assert text.count("# TYPE") == len(kinds)


def test_windows_on_time_are_counted_once_and_only_since_the_first_load(h: House) -> None:
    first, second, third = days_before(datetime.now(UTC) - timedelta(days=2), 3)
    again = timedelta(days=2, hours=3)
    record(h.lake, [
        load(h.table, first),
        load(h.table, first, ended_at=first + again),
        load(h.table, second),
        load(h.table, third, ended_at=third + timedelta(days=2)),
    ])  # fmt: skip
    found = values(Exporter(h.instance, [h.table], h.lake).text())
    missed, due = found["incload_missed_windows_total", ""], found["incload_due_windows_total", ""]
    assert due - missed == 2  # the first two windows were loaded in time; the third a day late
    assert found["incload_backfilled_rows_total", ""] == 7


def test_a_backfill_under_way_is_seen_until_it_ends(h: House) -> None:
    exporter = Exporter(h.instance, [h.table], h.lake)
    backfill = PartitionBackfill(
        backfill_id="b1",
        status=BulkActionStatus.REQUESTED,
        from_failure=False,
        tags={},
        backfill_timestamp=datetime.now(UTC).timestamp(),
        asset_selection=[h.table.key],
    )
    h.instance.add_backfill(backfill)
    during = values(exporter.text())["incload_backfills", ""]
    h.instance.update_backfill(backfill.with_status(BulkActionStatus.COMPLETED_SUCCESS))
    assert (during, values(exporter.text())["incload_backfills", ""]) == (1, 0)


def test_a_derived_table_names_the_tables_that_it_is_made_of_and_whether_they_are_as_critical(h: House) -> None:
    above = UpstreamTable(name="guests", path=("guests",))
    source = Tables(of=(above,), function=lambda guests: guests)
    visits, bills = (
        named(h.table, name, source=source, criticality=how) for name, how in (("visits", "normal"), ("bills", "high"))
    )
    text = Exporter(h.instance, [h.table, visits, bills], h.lake).text()
    assert 'incload_upstream_info{as_critical="yes",table="visits",upstream="guests"} 1.0' in text
    assert 'incload_upstream_info{as_critical="no",table="bills",upstream="guests"} 1.0' in text
