"""Small shops in folders of their own."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from incload_assets.platform.settings import Settings
from incload_assets.shop import Shop

MONDAY = date(2026, 1, 5)


@pytest.fixture(autouse=True)
def _no_outer_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INCLOAD_SHOP_OPENED", "INCLOAD_HOME", "INCLOAD_LANDING"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens there, without which every shop would start a server."""
    monkeypatch.setenv("INCLOAD_DATABASE_SAMPLE_SHOP_URL", "postgresql://127.0.0.1:9/shop")
    monkeypatch.setenv("INCLOAD_DATABASE_SAMPLE_SHOP_USER", "shop")


@pytest.fixture(autouse=True)
def _no_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is there a broker."""
    monkeypatch.setenv("INCLOAD_KAFKA", "false")
    monkeypatch.delenv("INCLOAD_KAFKA_SAMPLE_SHOP_SERVERS", raising=False)


@pytest.fixture
def a_shop(tmp_path: Path) -> Callable[[str], Shop]:
    """A shop of a quarter of the usual size, opened on a Monday, in the named home folder."""

    def build(home: str = "home") -> Shop:
        return Shop(Settings(home=tmp_path / home), opened=MONDAY, seed=7, scale=0.25)

    return build


def landed(home: Path) -> dict[str, bytes]:
    """Everything in the landing area, hidden files included, by path."""
    landing = home / "landing"
    return {str(file.relative_to(landing)): file.read_bytes() for file in landing.rglob("*") if file.is_file()}
