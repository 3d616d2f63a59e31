"""The local Spark server: one per workspace, for its owner alone, replaced when it died, gone when nobody uses it."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from incload_assets.platform.errors import SparkUnavailable
from incload_assets.platform.local_servers.locks import is_held
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import server as connect_server
from incload_assets.platform.spark.resource import connect, open_session
from incload_assets.platform.spark.server import find_or_start
from incload_assets.platform.spark.server_files import Server, ServerFiles

pytestmark = pytest.mark.integration

ASK = """
import sys
from pathlib import Path
from incload_assets.platform.spark.server import find_or_start
from incload_assets.platform.settings import Settings
print(find_or_start(Settings(home=Path(sys.argv[1]), spark_idle_minutes=5)))
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    settings = Settings(home=tmp_path_factory.mktemp("workspace"), spark_idle_minutes=5)
    yield settings
    connect_server.stop(settings)


@pytest.fixture(scope="module")
def files(settings: Settings) -> ServerFiles:
    return ServerFiles.of(settings.home_root)


@pytest.fixture(scope="module")
def answers(settings: Settings) -> list[str]:
    """What two processes were told that asked for a server at the same time, when there was none."""
    asking = [
        subprocess.Popen([sys.executable, "-c", ASK, str(settings.home)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    return [process.communicate(timeout=150)[0].strip() for process in asking]


@pytest.fixture
def server(answers: list[str], settings: Settings, files: ServerFiles) -> Server:
    """The server that is up, found or started again."""
    find_or_start(settings)
    server = files.read()
    assert server is not None
    return server


def _eventually(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.1)
    return true()


def test_two_processes_at_once_end_up_on_one_server(answers: list[str], server: Server) -> None:
    assert answers == [server.url, server.url]


def test_the_server_outlives_the_processes_that_started_it(server: Server) -> None:
    assert os.getsid(server.pid) == server.pid
    assert server.answers()


def test_another_user_can_neither_read_the_key_nor_see_it(server: Server, files: ServerFiles) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files.folder.iterdir() if path.is_file()}
    assert modes == dict.fromkeys(
        ["server.json", "server.lock", "server.log", "spark.properties", "start.lock"], stat.S_IRUSR | stat.S_IWUSR
    )
    assert stat.S_IMODE(files.folder.stat().st_mode) == stat.S_IRWXU
    shown = [argument for pid in (server.pid, server.jvm_pid) for argument in psutil.Process(pid).cmdline()]
    assert not [argument for argument in shown if server.token in argument]
    assert server.token not in files.log.read_text()


def test_the_server_listens_on_loopback_only(server: Server) -> None:
    listening = {
        socket.laddr.ip.removeprefix("::ffff:")
        for socket in psutil.Process(server.jvm_pid).net_connections("tcp")
        if socket.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_a_client_with_another_key_is_refused(server: Server) -> None:
    with pytest.raises(SparkUnavailable, match="refuses the key") as caught:
        connect(f"sc://localhost:{server.port}/;token=guessed")
    assert ("guessed" in str(caught.value), caught.value.transient) == (False, False)


def test_a_configured_http_proxy_is_not_asked_for_the_local_server(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "no_grpc_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    session = connect(server.url)
    assert session.range(3).count() == 3
    session.stop()


def test_a_server_with_other_settings_is_not_used_silently(server: Server, settings: Settings) -> None:
    other = settings.model_copy(update={"spark_conf": {"spark.sql.shuffle.partitions": "7"}})
    with open_session(settings) as session:
        session.range(1).count()
        with pytest.raises(SparkUnavailable, match="was started with other settings and has 1 connections"):
            find_or_start(other)
        assert session.range(2).count() == 2


def test_an_answer_without_a_server_behind_it_is_not_believed(tmp_path: Path) -> None:
    files = ServerFiles.of(tmp_path)
    files.write(Server(port=9, pid=os.getpid(), jvm_pid=os.getpid(), token="t", configuration="c"))
    assert connect_server.stop(Settings(home=tmp_path)) is False


def test_a_server_killed_in_mid_load_is_a_transient_fault_and_the_next_call_replaces_it(
    server: Server, settings: Settings, files: ServerFiles
) -> None:
    with pytest.raises(SparkUnavailable, match="orders 2026-01-03: the connection to Spark was lost") as caught:  # noqa: SIM117
        with open_session(settings, "orders 2026-01-03") as session:
            session.range(1).count()
            threading.Timer(2.0, os.kill, (server.jvm_pid, signal.SIGKILL)).start()
            session.sql("SELECT count(*) FROM range(1000000000000) WHERE hash(id) % 7 = 3").first()
    assert caught.value.transient
    assert _eventually(lambda: not is_held(files.lock)), "the server outlived its JVM"
    assert not files.record.exists()
    assert "Spark's JVM ended with code -9" in files.log.read_text()

    url = find_or_start(settings)

    assert url != server.url
    with open_session(settings) as session:
        assert session.range(3).count() == 3


def test_an_unused_server_with_other_settings_is_replaced_and_an_idle_one_ends(
    server: Server, settings: Settings, files: ServerFiles
) -> None:
    seconds = 3.0
    changed = {"spark_conf": {"spark.sql.shuffle.partitions": "7"}, "spark_idle_minutes": seconds / 60}
    assert _eventually(lambda: server.connections() == 0), "sessions of earlier tests are still open"
    with open_session(settings.model_copy(update=changed)) as session:
        assert session.conf.get("spark.sql.shuffle.partitions") == "7"
        assert not server.answers(), "the former server is still there"
        time.sleep(seconds * 2)
        assert session.range(3).count() == 3, "a server in use ended"
    assert _eventually(lambda: not is_held(files.lock), seconds * 3 + 10)
    assert not files.record.exists()


def test_a_jvm_whose_server_was_killed_ends_too(server: Server, files: ServerFiles) -> None:
    os.kill(server.pid, signal.SIGKILL)
    assert _eventually(lambda: not psutil.pid_exists(server.jvm_pid))
    assert files.record.exists(), "nobody was left to remove it, and yet:"
    assert not is_held(files.lock)


def test_a_server_that_cannot_start_says_why_in_one_line(tmp_path: Path) -> None:
    broken = Settings(home=tmp_path, spark_conf={"spark.master": "lokal[2]"})
    with pytest.raises(SparkUnavailable) as caught:
        find_or_start(broken)
    assert str(caught.value) == (
        "Spark does not start: org.apache.spark.SparkException: Master must either be yarn or start with spark, "
        f"k8s, or local. Remedy: see {tmp_path}/spark/server.log."
    )
