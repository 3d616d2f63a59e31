"""What ``incload dev`` prepares before Dagster starts, what it says afterwards, and how it ends."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from dagster._core.code_pointer import ModuleCodePointer

from incload_assets.cli.support.dev_steps import open_shop, require_free
from incload_assets.declaration.window import now
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.local_servers.files import free_port
from incload_assets.platform.project_files import find_project
from incload_assets.platform.settings import Settings
from incload_assets.runs.warm_servers import code_pointer
from incload_assets.shop import Shop
from tests.servers.postgres import sample_database_ends
from tests.support.project_copy import PROJECT, Clone, readme_files


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
    assert without.startswith("Its web events are missing, everything else works: ")
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


def test_what_is_got_ready_for_is_the_code_location_as_its_runs_name_it() -> None:
    assert code_pointer(find_project(PROJECT / "tests")) == ModuleCodePointer(
        "incload_assets.definitions", "defs", str(PROJECT)
    )


def test_a_free_port_is_fine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    require_free("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused_with_the_reason() -> None:
    with pytest.raises(IncrementalLoadError) as refused:
        require_free("192.0.2.1", 3000)
    assert str(refused.value) == (
        "port 3000 of 192.0.2.1 is not available: Cannot assign requested address. Rule: the UI needs a port of its "
        "own. Remedy: end the program that uses it, or choose another: incload dev --port 3001."
    )


@pytest.mark.slow
@pytest.mark.integration
def test_dev_tells_the_address_and_the_first_green_partition_and_ends_without_a_stack_trace(
    tmp_path: Path, spark_url: str
) -> None:
    clone = Clone.of(tmp_path, spark_url)
    for path, content in readme_files().items():
        clone.write(path.replace("2026-01-05", f"{datetime.now(UTC):%Y-%m-%d}"), content)
    with _dev(clone) as (dev, said):
        _wait(lambda: "The first partition is green" in said.read_text(), dev, said)
        below = [process for process in psutil.Process(dev.pid).children(recursive=True) if _is_dagster(process)]

        dev.send_signal(signal.SIGINT)

        assert dev.wait(120) == 0
    told = said.read_text()
    assert "✓ The first partition is green: payments" in told
    assert "Dagster is up: http://127.0.0.1:" in told
    assert told.endswith("Servers that it used stay for a while; `incload stop` ends them.\n")
    assert "Traceback" not in told
    log = clone.root / ".incload" / "dev" / "dagster.log"
    assert f"its log is {log}\n" in told
    assert "Serving dagster-webserver on" in log.read_text()
    _, alive = psutil.wait_procs(below, timeout=60)  # code servers are told to end, and do when they come to it
    assert below and not alive


@pytest.mark.slow
@pytest.mark.integration
def test_dev_in_the_background_of_a_script_ends_when_it_is_terminated(tmp_path: Path, spark_url: str) -> None:
    clone = Clone.of(tmp_path, spark_url)
    with _dev(clone, before=("sh", "-c", 'trap "" INT; exec "$@"', "script")) as (dev, said):
        _wait(lambda: "Dagster is up" in said.read_text(), dev, said)

        dev.terminate()

        assert dev.wait(30) == 0, "Dagster was told to end, and not killed after a while"
    assert said.read_text().endswith("Servers that it used stay for a while; `incload stop` ends them.\n")


@pytest.mark.slow
@pytest.mark.integration
def test_dev_tells_which_table_is_declared_wrongly(tmp_path: Path, spark_url: str) -> None:
    clone = Clone.of(tmp_path, spark_url)
    wrong = clone.write("my_lake/tables/wrong.py", "import no_such_module\n")
    with _dev(clone) as (dev, said):
        line = f"✗ ModuleNotFoundError: No module named 'no_such_module' ({wrong}, line 1)\n"
        _wait(lambda: line in said.read_text() and "Dagster is up" in said.read_text(), dev, said)


@contextmanager
def _dev(clone: Clone, *, before: Sequence[str] = ()) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """``incload dev``, and the file that it prints into."""
    said = clone.root / "said"
    with said.open("wb") as out:
        dev = clone.dev(free_port(), out, before=before)
    try:
        yield dev, said
    finally:
        if dev.poll() is None:
            os.kill(dev.pid, signal.SIGINT)
            dev.wait(120)
        clone.incload("stop")


def _is_dagster(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return "dagster" in " ".join(process.cmdline())
    return False


def _wait(until: Callable[[], bool], dev: "subprocess.Popen[bytes]", said: Path) -> None:
    deadline = time.monotonic() + 400
    while not until():
        assert dev.poll() is None and time.monotonic() < deadline, said.read_text()
        time.sleep(0.5)
