"""Maintenance jobs: which tables each is for, and when it runs."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from incload_assets.assets.incremental import table_of
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.maintenance import JOBS
from incload_assets.maintenance.expire_payloads import EXPIRE_PAYLOADS
from incload_assets.maintenance.jobs import schedule_of
from incload_assets.platform.lake import Lake
from incload_assets.progress.audit import AuditEntry, audit_uri, chain_of, record
from tests.support.guest_table import job_of
from tests.test_definitions import items_asset

TABLE = table_of(items_asset())
assert TABLE is not None


@pytest.mark.parametrize(
    ("name", "cron"),
    [
        ("compact_files", "20 2 * * *"),
        ("expire_payloads", "40 2 * * *"),
        ("vacuum_tables", "50 2 * * *"),
        ("compact_logs", "20 3 * * *"),
    ],
)
def test_a_job_runs_every_night_and_does_not_know_other_tables(name: str, cron: str) -> None:
    [job] = [job for job in JOBS if job.name == name]
    assert TABLE is not None
    definition = job_of(job, replace(TABLE, log_retention=timedelta(days=1)))
    schedule = schedule_of(definition, job.cron)
    assert (schedule.cron_schedule, schedule.default_status) == (cron, dg.DefaultScheduleStatus.RUNNING)
    config = {"ops": {job.step_name: {"config": {"tables": ["orders"]}}}}
    resources = {name: dg.ResourceDefinition.none_resource() for name in ("spark", "lake")}
    with pytest.raises(dg.DagsterInvalidConfigError, match=rf"not in enum type {job.whose} got orders"):
        definition.execute_in_process(run_config=config, resources=resources)


def test_a_person_confirms_a_job_that_removes_something_for_good_and_a_schedule_does_not() -> None:
    assert TABLE is not None
    table, worked = replace(TABLE, log_retention=timedelta(days=1)), list[str]()
    resources = {name: dg.ResourceDefinition.none_resource() for name in ("spark", "lake")}

    def run(name: str, tags: dict[str, str] | None = None, **config: object) -> str:
        [job] = [replace(job, of_lake=None) for job in JOBS if job.name == name]
        definition = job_of(replace(job, work=lambda _, table: worked.append(table.name) or {}), table)
        result = definition.execute_in_process(
            run_config={"ops": {job.step_name: {"config": config}}},
            resources=resources,
            raise_on_error=False,
            tags=tags,
        )
        [event] = [e for e in result.all_events if e.event_type_value in ("STEP_OUTPUT", "STEP_FAILURE")]
        return str(event.step_failure_data.error_display_string) if event.is_step_failure else ""

    for name in ("vacuum_tables", "compact_logs", "expire_payloads"):
        assert f"{name} removes " in (refused := run(name)) and "its field confirm is empty" in refused
        assert 'write confirm: "all tables" in its configuration' in refused
        assert "names something else" in run(name, tables=["items"], confirm="all tables")
    assert worked == []
    assert run("vacuum_tables", tables=["items"], confirm="items") == run("vacuum_tables", confirm="all tables") == ""
    assert run("compact_logs", {"dagster/schedule_name": "compact_logs_schedule"}) == run("compact_files") == ""
    assert worked == ["items"] * 4


def test_a_job_that_applies_to_no_table_is_not_defined() -> None:
    assert TABLE is not None and TABLE.log_retention is None
    defined = {job.name for job in JOBS if job.definition([TABLE]) is not None}
    assert defined == {"compact_files", "expire_payloads", "vacuum_tables"}
    assert all(job.definition([]) is None for job in JOBS)


def test_a_job_goes_on_after_a_table_that_cannot_be_read_and_fails_naming_it_alone(tmp_path: Path) -> None:
    assert TABLE is not None
    lake, bad = Lake(str(tmp_path)), replace(TABLE, key=dg.AssetKey("bad"))
    for table in (TABLE, bad):
        write_deltalake(lake.table_uri(table.key.path), pa.table({"n": [1]}))
    torn = tmp_path / "bad" / "_delta_log" / f"{0:020d}.json"
    torn.write_bytes(torn.read_bytes()[:-30])

    def version(_: dg.OpExecutionContext, table: Table) -> dict[str, dg.MetadataValue]:
        return {"version": dg.MetadataValue.int(lake.version(lake.table_uri(table.key.path)) or 0)}

    job = replace(EXPIRE_PAYLOADS, work=version, of_lake=None).definition([bad, TABLE])
    assert job is not None
    resources = {"spark": dg.ResourceDefinition.none_resource(), "lake": dg.ResourceDefinition.hardcoded_resource(lake)}
    confirmed = {"ops": {EXPIRE_PAYLOADS.step_name: {"config": {"confirm": "all tables"}}}}
    done = job.execute_in_process(run_config=confirmed, resources=resources, raise_on_error=False)
    [failure] = [event.step_failure_data.user_failure_data for event in done.all_events if event.is_step_failure]
    assert failure is not None
    assert [event.asset_observation_data.asset_observation.asset_key.path for event in done.all_events
            if event.event_type_value == "ASSET_OBSERVATION"] == [["items"]]  # fmt: skip
    assert set(failure.metadata) == {"bad"} and f"bad: the Delta table {tmp_path}/bad" in str(failure.metadata["bad"])


def test_the_audit_ends_with_the_job_of_all_tables_whose_step_shows_what_there_was_and_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, now = Lake(str(tmp_path)), windows.now()
    for age in (500, 401, 399):
        with monkeypatch.context() as patch:
            patch.setattr(windows, "now", lambda age=age: now - timedelta(days=age))
            record(lake, AuditEntry(action="load", table="items"))
    assert TABLE is not None
    job = job_of(replace(EXPIRE_PAYLOADS, work=lambda *_: {}), TABLE)
    resources = {"spark": dg.ResourceDefinition.none_resource(), "lake": dg.ResourceDefinition.hardcoded_resource(lake)}

    def run(*tables: str) -> dict[str, object]:
        confirmed = {"tables": [*tables], "confirm": ", ".join(tables) or "all tables"}
        config = {"ops": {EXPIRE_PAYLOADS.step_name: {"config": confirmed}}}
        result = job.execute_in_process(run_config=config, resources=resources, raise_on_error=False)
        [event] = [e for e in result.all_events if e.event_type_value in ("STEP_OUTPUT", "STEP_FAILURE")]
        if event.is_step_failure:
            data = event.step_failure_data.user_failure_data
            assert data is not None
            return {name: value.value for name, value in data.metadata.items()}
        return {name: value.value for name, value in event.step_output_data.metadata.items()}

    assert run("items") == {}
    shown = run()
    assert (shown["audit_entries_before"], shown["audit_entries_after"], shown["audit_entries_removed"]) == (3, 2, 2)
    assert chain_of(lake).altered is None
    delta = lake.delta(audit_uri(lake))
    assert delta is not None
    delta.delete("number = 3")
    assert "the audit was altered from entry 3 on" in str(run()["the lake"])
