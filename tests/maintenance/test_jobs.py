"""Maintenance jobs: which tables each is for, and when it runs."""

from dataclasses import replace
from datetime import timedelta

import dagster as dg
import pytest

from incload_assets.assets.incremental import table_of
from incload_assets.maintenance import JOBS
from incload_assets.maintenance.jobs import schedule_of
from tests.support.guest_table import job_of
from tests.test_definitions import items_asset

TABLE = table_of(items_asset())
assert TABLE is not None


@pytest.mark.parametrize(
    ("name", "cron"), [("compact_files", "20 2 * * *"), ("vacuum_tables", "50 2 * * *"), ("compact_logs", "20 3 * * *")]
)
def test_a_job_runs_every_night_and_does_not_know_other_tables(name: str, cron: str) -> None:
    [job] = [job for job in JOBS if job.name == name]
    assert TABLE is not None
    definition = job_of(job, replace(TABLE, log_retention=timedelta(days=1)))
    schedule = schedule_of(definition, job.cron)
    assert (schedule.cron_schedule, schedule.default_status) == (cron, dg.DefaultScheduleStatus.RUNNING)
    config = {"ops": {job.step_name: {"config": {"tables": ["orders"]}}}}
    resources = {name: dg.ResourceDefinition.none_resource() for name in ("spark", "lake")}
    with pytest.raises(dg.Failure, match=rf"orders: not among the {job.whose} \(items\)"):
        definition.execute_in_process(run_config=config, resources=resources)


def test_a_job_that_applies_to_no_table_is_not_defined() -> None:
    assert TABLE is not None and TABLE.log_retention is None
    defined = {job.name for job in JOBS if job.definition([TABLE]) is not None}
    assert defined == {"compact_files", "expire_payloads", "vacuum_tables"}
    assert all(job.definition([]) is None for job in JOBS)
