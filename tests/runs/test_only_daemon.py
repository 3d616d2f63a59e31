"""A second daemon of one Dagster instance: refused while there is one, and welcome at once when that is gone."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dagster as dg
import pytest
import yaml

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.local_servers.files import free_port
from incload_assets.runs.only_daemon import OnlyDaemon
from tests.integration.test_dagster_in_postgres import WORKSPACE, home_of
from tests.servers.postgres import PostgresServer
from tests.support.documents import PROJECT
from tests.support.project_copy import Clone

WAIT = 120
UP = "Instance is configured with the following daemons"


def home_in(folder: Path, storage: str, postgres: PostgresServer) -> Path:
    """A folder of Dagster with the workspace's configuration, its storage in SQLite or in Postgres."""
    home, config = folder / "daemon", yaml.safe_load(WORKSPACE.read_text())
    if storage == "postgres":
        postgres.database("daemon")
        home = home_of(folder, postgres, "daemon")
        config |= yaml.safe_load((home / "dagster.yaml").read_text())
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text(yaml.safe_dump(config))
    return home


@contextmanager
def daemon(home: Path, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Dagster's daemon over a code location without definitions."""
    (home / "nothing.py").write_text("import dagster as dg\n\ndefs = dg.Definitions()\n")
    command = [sys.executable, "-m", "dagster._daemon", "run", "-f", str(home / "nothing.py")]
    environment = {**os.environ, "DAGSTER_HOME": str(home), "PYTHONPATH": str(PROJECT)}
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=home, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until_up(process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + WAIT
    while UP not in log.read_text():
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["sqlite", "postgres"])
def test_a_second_daemon_is_refused_until_the_first_is_gone_however_it_ended(
    tmp_path: Path, postgres: PostgresServer, storage: str
) -> None:
    home, logs = home_in(tmp_path, storage, postgres), [tmp_path / name for name in ("first", "second", "third")]
    with ExitStack() as daemons:
        first = daemons.enter_context(daemon(home, logs[0]))
        wait_until_up(first, logs[0])
        second = daemons.enter_context(daemon(home, logs[1]))
        assert second.wait(WAIT) != 0
        told = logs[1].read_text().splitlines()[-1]
        assert UP not in logs[1].read_text()
        assert f": process {first.pid} on " in told and "an instance has one daemon" in told
        assert f"a daemon of Dagster is running on {home if storage == 'sqlite' else postgres.host}" in told
        assert postgres.password not in told
        assert first.poll() is None

        first.kill()
        first.wait()
        third = daemons.enter_context(daemon(home, logs[2]))
        wait_until_up(third, logs[2])


def test_a_daemon_whose_connection_is_lost_claims_the_database_again_and_launches_nothing_beside_another(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incload_assets.runs.only_daemon._PATIENCE", 0.0)
    cut = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1229865804"
    home = home_in(tmp_path, "postgres", postgres)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        one, another = OnlyDaemon(instance), OnlyDaemon(instance)
        one.take()
        with pytest.raises(IncrementalLoadError, match=f"process {os.getpid()}"):
            another.take()
        one.keep()
        postgres.run("daemon", cut)
        one.keep()
        with pytest.raises(IncrementalLoadError, match="one daemon"):
            another.take()
        postgres.run("daemon", cut)
        another.take()
        with pytest.raises(IncrementalLoadError, match="one daemon"):
            one.keep()
        with pytest.raises(IncrementalLoadError, match="one daemon"):
            one.keep()  # not only the first time
        another.give_up()
        one.keep()
        one.give_up()


@pytest.mark.slow
@pytest.mark.integration
def test_a_second_dev_says_which_process_is_the_daemon(tmp_path: Path) -> None:
    clone, said = Clone.of(tmp_path, "sc://localhost:1"), [tmp_path / name for name in ("first", "second")]

    def dev(number: int) -> "subprocess.Popen[bytes]":
        with said[number].open("wb") as out:
            return clone.dev(free_port(), out, INCLOAD_WARM_RUNS="false")

    first = dev(0)
    try:
        deadline = time.monotonic() + WAIT
        while "Dagster is up" not in said[0].read_text():
            assert first.poll() is None and time.monotonic() < deadline, said[0].read_text()
            time.sleep(0.2)
        lines = _ended(dev(1), said[1])
    finally:
        first.send_signal(signal.SIGINT)
        first.wait(WAIT)
        clone.incload("stop")
        shutil.rmtree(clone.root / ".dagster_home")
    assert "a daemon of Dagster is running on" in lines and "stop that one first" in lines
    assert "Traceback" not in lines


def _ended(process: "subprocess.Popen[bytes]", said: Path) -> str:
    assert process.wait(WAIT) == 1, said.read_text()
    return " ".join(said.read_text().split())
