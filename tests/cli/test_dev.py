"""What ``incload dev`` prepares before Dagster starts; that it starts Dagster is shown by the test of the UI."""

import re
import socket
from pathlib import Path

import pytest

from incload_assets.cli.dev import open_shop, require_free
from incload_assets.loading.errors import IncrementalLoadError
from incload_assets.loading.window import now
from incload_assets.shop import Shop
from resources.settings import Settings
from tests.servers.postgres import sample_database_ends


def test_the_sample_shop_trades_up_to_the_present_and_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INCLOAD_KAFKA", "false")
    settings, began = Settings(home=tmp_path), now()

    with sample_database_ends(tmp_path):
        open_shop(settings)
        traded_to = Shop(settings).now
        open_shop(settings)

    assert traded_to == Shop(settings).now >= began
    [opened, without] = [line for line in capsys.readouterr().out.replace("\n ", " ").splitlines() if line]
    assert re.fullmatch(r"The sample shop opened: \d+ files since .*, \d+ prices in its database", opened)
    assert without.startswith("Its web events are missing, all else works: ")
    assert {folder.name for folder in (tmp_path / "landing").iterdir()} == {
        "articles",
        "assortment_changes",
        "assortment_full",
        "customers",
        "events",
        "inventory",
        "orders",
        "service_logs",
        "settings",
    }


def test_a_free_port_is_fine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    require_free("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused_with_the_reason() -> None:
    with pytest.raises(IncrementalLoadError) as refused:
        require_free("192.0.2.1", 3000)
    assert str(refused.value) == (
        "port 3000 of 192.0.2.1 cannot be had: Cannot assign requested address. Rule: the UI needs a port of its own. "
        "Remedy: end the program that uses it, or choose another: incload dev --port 3001."
    )
