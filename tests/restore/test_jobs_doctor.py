"""A paused table is watched and checked and not loaded, whoever asks, and everybody sees why."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from unittest import mock

import dagster as dg
import pytest

from incload_assets.assets import run as run_module
from incload_assets.code_location import incremental_definitions
from incload_assets.declaration.window import now
from incload_assets.monitoring.facts import gather
from incload_assets.monitoring.metrics import samples
from incload_assets.platform.settings import Settings
from incload_assets.progress.audit import chain_of
from incload_assets.progress.observed import SENSOR, observed_tables
from incload_assets.progress.pause import pause, pause_of, resume
from incload_assets.progress.status import table_status
from incload_assets.restore.jobs_doctor import pause_job, resume_job
from tests.support.guest_table import NOON, House, guest, house, key


@pytest.fixture
def h(tmp_path: Path, spark_settings: Settings) -> Iterator[House]:
    """A house with a delivered day."""
    (tmp_path / "dagster").mkdir()
    with (
        dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance,  # with a storage of sensors
        house(tmp_path, spark_settings, instance=instance) as h,
    ):
        h.deliver(1, guest("1"))
        yield h


def tick(h: House) -> str:
    """Why a tick of the sensor requests nothing, empty if it requests something; it observes the source either way."""
    repository = incremental_definitions([h.asset], Settings()).get_repository_def()
    sensor = repository.get_sensor_def(SENSOR)
    with dg.build_sensor_context(h.instance, repository_def=repository, resources={"lake": h.lake}) as context:
        result = sensor.evaluate_tick(context)
    assert key(1) in observed_tables(h.instance, [h.table])["guests"].pending
    return "" if result.run_requests else result.skip_message or ""


def execute(h: House, job: str, **config: str) -> bool:
    chosen = pause_job if job == "pause" else resume_job
    done = chosen([h.table]).execute_in_process(
        instance=h.instance,
        resources=h.resources,
        run_config={"table": "guests", **config},
        tags={"user": "ada"},
        raise_on_error=False,
    )
    return bool(done.success)


def test_a_table_paused_from_the_ui_is_watched_and_not_loaded_until_it_is_resumed(h: House) -> None:
    assert tick(h) == ""
    assert execute(h, "pause", until="2h", because="the house is painted")
    paused = pause_of(h.lake, "guests")
    assert paused is not None and paused.actor == "ada"

    assert f"guests is {paused}; waiting for its end: 1 window" in tick(h)
    failed = h.run(h.loads, partition=key(1))
    [failure] = failed.get_step_failure_events()
    data = failure.step_failure_data.user_failure_data
    assert data is not None and "paused by ada" in str(data.metadata[key(1)].value)
    assert "incload resume guests" in str(data.metadata[key(1)].value)
    assert h.lake.version(h.lake.log_uri(h.table.key.path)) is None  # nothing was begun

    assert table_status(h.instance, h.table, h.lake).paused == str(paused)
    checks = {
        e.check_name: e for e in h.run(dg.AssetSelection.checks_for_assets(h.table.key)).get_asset_check_evaluations()
    }
    late = checks["freshness"]
    assert not late.passed and late.severity is dg.AssetCheckSeverity.WARN
    assert str(paused) in (late.description or "") and "incload resume guests" in (late.description or "")
    assert metric(h) == 1.0

    assert execute(h, "resume") and not execute(h, "resume")
    assert metric(h) == 0.0
    assert h.load(1) == [True]
    assert [(e.action, e.actor, bool(e.run_id)) for e in chain_of(h.lake).entries][:2] == [
        ("pause", "ada", True), ("resume", "ada", True),
    ]  # fmt: skip


def metric(h: House) -> float:
    [found] = [
        each for each in samples(gather(h.instance, [h.table], h.lake, now())) if each.metric == "incload_paused"
    ]
    return found.value


def test_a_run_that_loads_already_is_not_stopped_by_a_pause(h: House) -> None:
    load_window = run_module.load_window

    def paused_meanwhile(*arguments: object, **options: object) -> object:
        pause(h.lake, "guests", now() + timedelta(hours=1), "why")
        return load_window(*arguments, **options)  # type: ignore[arg-type]

    with mock.patch.object(run_module, "load_window", paused_meanwhile):
        assert h.load(1) == [True]
    assert h.load(1) == [False]
    resume(h.lake, "guests")
    assert h.load(1) == [True]
    assert h.look(NOON).progress[0].status == "loaded"
