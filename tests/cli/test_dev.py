"""What ``incload dev`` prepares before Dagster starts; that it starts Dagster is shown by the test of the UI."""

import socket
from datetime import timedelta
from pathlib import Path

import pytest
from dagster._core.code_pointer import ModuleCodePointer

from incload_assets.cli.dev import FIRST_DAYS, open_shop, require_free
from incload_assets.loading.errors import IncrementalLoadError
from incload_assets.runs.warm_servers import code_locations
from incload_assets.shop import Shop
from resources.settings import Settings
from tests.clone import PROJECT
from tests.servers.postgres import sample_database_ends


def test_the_sample_shop_trades_for_its_first_days_and_only_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(home=tmp_path)

    with sample_database_ends(tmp_path):
        open_shop(settings)
        open_shop(settings)

    assert [line.rpartition(", ")[2] for line in capsys.readouterr().out.splitlines()] == ["44 prices in its database"]

    shop = Shop(settings)
    assert shop.now.date() - shop.opened == timedelta(days=FIRST_DAYS)
    assert {folder.name for folder in (tmp_path / "landing").iterdir()} == {
        "articles",
        "assortment_changes",
        "assortment_full",
        "customers",
        "events",
        "inventory",
        "orders",
    }


def test_what_is_got_ready_for_is_the_code_location_as_its_runs_name_it() -> None:
    assert list(code_locations(PROJECT / "workspace.yaml")) == [
        ModuleCodePointer("incload_assets.definitions", "defs", ".")
    ]


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
