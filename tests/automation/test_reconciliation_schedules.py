"""Weekly and monthly reconciliations: which windows they compare, in runs of which size."""

from datetime import UTC, datetime
from math import inf
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.automation import reconciliation_schedules
from incload_assets.automation.check_jobs import CHECK_RECONCILIATION
from incload_assets.automation.reconciliation_schedules import DEPTHS, run_requests
from incload_assets.checks import last_results
from incload_assets.code_location import incremental_definitions
from incload_assets.platform.settings import Settings
from tests.support.guest_table import guest, house, job_of, key


def test_the_more_depends_on_a_table_the_more_is_compared() -> None:
    weekly, monthly = DEPTHS
    assert weekly.windows["high"] > weekly.windows["normal"] > 0
    assert monthly.windows == {"high": inf, "normal": inf}


def test_a_month_is_compared_in_runs_of_bounded_size_that_find_what_differs(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciliation_schedules, "WINDOWS_PER_RUN", 2)
    with house(tmp_path, spark_settings) as h:
        for number in (1, 2, 3):
            h.deliver(number, guest(str(number), day=number))
        assert h.load(1, 2, 3) == [True, True, True]
        requests = list(run_requests(DEPTHS[1], [h.table], h.lake, "now"))
        configs = [request.run_config["ops"]["reconcile_each_table"]["config"] for request in requests]
        assert configs == [
            {"tables": ["guests"], "partitions": [key(3), key(2)]},
            {"tables": ["guests"], "partitions": [key(1)]},
        ]
        assert len({request.run_key for request in requests}) == 2
        for request, windows in zip(requests, (2, 1), strict=True):
            job = job_of(CHECK_RECONCILIATION, h.table)
            result = job.execute_in_process(
                run_config=dict(request.run_config), instance=h.instance, resources=h.resources
            )
            _, verdict = last_results(h.instance, [h.table])["guests"]["reconciliation"]
            assert result.success and verdict.passed
            assert verdict.metadata["windows_compared"].value == windows


def test_the_schedules_are_part_of_the_code_location(tmp_path: Path) -> None:
    with house(tmp_path, Settings(home=tmp_path)) as h:
        definitions = incremental_definitions([h.asset], Settings(home=tmp_path))
        schedule = definitions.get_repository_def().get_schedule_def("reconcile_monthly")
        context = dg.build_schedule_context(
            scheduled_execution_time=datetime(2026, 2, 1, tzinfo=UTC), resources={"lake": h.lake}
        )
        assert schedule.evaluate_tick(context).run_requests == []
        assert "all of tables of high criticality" in (schedule.description or "")
