"""A workshop for each test."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from tests.automation.tower import towers as towers
from tests.support.workshop import Workshop, items_asset


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    (tmp_path / "home").mkdir()
    # no logs of output: Dagster would start four processes for each run, and may leave them to be found later
    none = {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
    with dg.DagsterInstance.local_temp(str(tmp_path / "home"), overrides={"compute_logs": none}) as instance:
        yield instance


@pytest.fixture
def workshop(tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    monkeypatch.delenv("INCLOAD_LANDING", raising=False)
    monkeypatch.delenv("INCLOAD_LAKE", raising=False)
    (tmp_path / "landing").mkdir()
    return Workshop(tmp_path, instance, items_asset())
