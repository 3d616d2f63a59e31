"""A landing area of its own for each test."""

from pathlib import Path

import pytest


@pytest.fixture
def landing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of an empty landing area; the home of the code location is beside it."""
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("INCLOAD_LANDING", raising=False)
    root = tmp_path / "home" / "landing"
    root.mkdir(parents=True)
    return root
