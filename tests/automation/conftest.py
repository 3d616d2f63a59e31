"""A workshop for each test."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from tests.automation.tower import towers as towers
from tests.support.guest_table import NO_OUTPUT
from tests.support.workshop import Workshop, items_asset


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home"), overrides=NO_OUTPUT) as instance:
        yield instance


@pytest.fixture
def workshop(tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    monkeypatch.delenv("INCLOAD_LANDING", raising=False)
    monkeypatch.delenv("INCLOAD_LAKE", raising=False)
    (tmp_path / "landing").mkdir()
    return Workshop(tmp_path, instance, items_asset())
