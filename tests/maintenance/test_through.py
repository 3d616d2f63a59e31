"""The way of a nightly job through its tables, over several attempts."""

import re
from dataclasses import replace
from pathlib import Path

import dagster as dg

from incload_assets.assets.incremental import table_of
from incload_assets.declaration.table import Table
from incload_assets.maintenance.compact_files import COMPACT_FILES
from incload_assets.platform.dagster_private import CODE_LOCATION_TAG
from tests.test_definitions import items_asset

TABLE = table_of(items_asset())


class Killed(BaseException):
    """The end of a process."""


WORKED: list[str] = []


def job_that_is_killed_at_its_second_table_once() -> dg.JobDefinition:
    def work(_: dg.OpExecutionContext, table: Table) -> None:
        WORKED.append(table.name)
        if WORKED == ["first", "items"]:
            raise Killed

    assert TABLE is not None
    job = replace(COMPACT_FILES, work=work, of_lake=None).definition([TABLE, replace(TABLE, key=dg.AssetKey("first"))])
    assert job is not None
    none = {name: dg.ResourceDefinition.none_resource() for name in ("spark", "lake")}
    return dg.Definitions(jobs=[job], resources=none, executor=dg.in_process_executor).resolve_job_def(job.name)


def test_the_attempt_after_a_killed_one_goes_on_where_it_stopped_and_says_how_long_it_took(tmp_path: Path) -> None:
    job = dg.reconstructable(job_that_is_killed_at_its_second_table_once)
    WORKED.clear()
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        assert not dg.execute_job(job, instance).success
        [killed] = instance.get_runs()
        again = dg.ReexecutionOptions(killed.run_id)
        assert dg.execute_job(job, instance, reexecution_options=again).success
        assert WORKED == ["first", "items", "items"]
        said = [entry.user_message for entry in instance.all_logs(instance.get_runs(limit=1)[0].run_id)]
        assert "An attempt before this one has done 1 table." in said
        assert any(re.fullmatch(r"2 of 2 tables done, in .*; the longest, items, .*", line) for line in said)
        # what ended well is done whole if somebody asks for it once more
        assert dg.execute_job(job, instance, reexecution_options=again).success
        assert WORKED[3:] == ["first", "items"]


def test_an_attempt_goes_on_where_it_stopped_whatever_the_job_of_another_code_location_did(tmp_path: Path) -> None:
    job = dg.reconstructable(job_that_is_killed_at_its_second_table_once)
    WORKED.clear()
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        here, there = ({CODE_LOCATION_TAG: name} for name in ("here", "there"))
        assert not dg.execute_job(job, instance, tags=here).success
        [killed] = instance.get_runs()
        assert dg.execute_job(job, instance, tags=there).success
        WORKED.clear()
        again = dg.ReexecutionOptions(killed.run_id)
        assert dg.execute_job(job, instance, tags=here, reexecution_options=again).success
        assert WORKED == ["items"]
