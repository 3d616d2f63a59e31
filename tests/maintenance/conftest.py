"""Every test has a landing area of its own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _landing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
