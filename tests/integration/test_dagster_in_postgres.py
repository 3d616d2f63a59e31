"""Dagster's storage in a real Postgres: processes that load at once, a dump that is restored, a lost storage."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest
import yaml
from pyspark.sql import SparkSession

from incload_assets.automation.window_requests import look
from incload_assets.change_log.context import LoadContext
from incload_assets.checks import RECORD_AGAIN, last_results, record_what_changed
from incload_assets.declaration.window import now
from incload_assets.history.expire_runs import expire_runs
from incload_assets.platform.dagster_private import keep_connection
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.settings import Settings
from incload_assets.progress.backup import back_up, is_sqlite
from incload_assets.progress.progress import progress_of
from incload_assets.progress.run_tags import LOADS_NOTHING
from incload_assets.restore.rebuild import rebuild
from tests.integration.loader import started
from tests.servers.postgres import PostgresServer
from tests.support.documents import documented_block, statements
from tests.support.guest_table import NO_OUTPUT, NOON, House, guest, house, key

WORKSPACE = Path(__file__).parents[2] / ".dagster_home" / "dagster.yaml"
DAYS = (1, 2, 3, 4)


def home_of(folder: Path, server: PostgresServer, database: str, user: str = "", password: str = "") -> Path:
    """A folder for Dagster whose storage is in a database, by the section that the workspace's configuration offers."""
    user, password = user or server.user, password or server.password
    home = folder / database
    home.mkdir()
    offered = re.search(r"^# storage:\n(?:#   .*\n)+", WORKSPACE.read_text(), re.MULTILINE)
    assert offered is not None
    storage = yaml.safe_load(re.sub("^# ", "", offered.group(), flags=re.MULTILINE))["storage"]
    of_server = {"hostname": server.host, "port": server.port, "db_name": database}
    account = {"username": user, "password": password, "params": {}}
    storage["postgres"]["postgres_db"] |= of_server | account
    (home / "dagster.yaml").write_text(
        yaml.safe_dump({"telemetry": {"enabled": False}, "storage": storage} | NO_OUTPUT)
    )
    return home


@contextmanager
def house_of(folder: Path, home: Path, remote: str) -> Iterator[House]:
    """The house whose Dagster is in a folder."""
    with (
        dg.DagsterInstance.from_config(str(home)) as instance,
        house(folder, Settings(spark=remote), instance=instance) as h,
    ):
        yield h


def load(folder: Path, home: Path, remote: str, *numbers: int) -> None:
    """Load days in this process."""
    with house_of(folder, home, remote) as h:
        assert all(h.load(*numbers))


def state(h: House) -> tuple[dict[str, str], list[object], list[int | None]]:
    """The status of each partition, what the sensor asks for, and the versions of table and log."""
    uris = (h.lake.table_uri(h.table.key.path), h.lake.log_uri(h.table.key.path))
    statuses = {window.key: window.status for window in progress_of(h.instance, h.table, h.lake, NOON)}
    return statuses, list(look(h.instance, h.table, h.lake, NOON)[1].asks), [h.lake.version(uri) for uri in uris]


@pytest.mark.slow
def test_partitions_are_green_in_a_restored_database_and_nothing_is_loaded_twice(
    tmp_path: Path, postgres: PostgresServer, spark: SparkSession, spark_url: str
) -> None:
    for name in ("dagster", "restored", "empty"):
        postgres.database(name)
    first, second, empty = (home_of(tmp_path, postgres, name) for name in ("dagster", "restored", "empty"))
    with house_of(tmp_path, first, spark_url) as h:
        for number in DAYS:
            h.deliver(number, guest(f"own {number}", day=number), guest("moving", seq=number, day=1))
        assert not is_sqlite(h.instance)
        with pytest.raises(IncrementalLoadError, match=r"PostgresRunStorage.*pg_dump"):
            back_up(h.instance, tmp_path / "backups")
    loads = [started(load, tmp_path, first, spark_url, *numbers) for numbers in (DAYS[::2], DAYS[1::2])]
    for process in loads:
        process.join(300)
    assert [process.exitcode for process in loads] == [0, 0]
    with house_of(tmp_path, first, spark_url) as h:
        loaded = state(h)
        assert loaded[:2] == ({key(number): "loaded" for number in DAYS}, [])

    postgres.restore("restored", postgres.dump("dagster"))
    with house_of(tmp_path, second, spark_url) as h:
        assert state(h) == loaded
        assert h.load(*DAYS) == [True] * len(DAYS)  # by hand, for nothing: the checkpoints are trusted
        assert state(h) == loaded
        h.deliver(2, guest("own 2", seq=9, day=2), guest("moving", seq=2, day=1))
        assert [asked.partition for asked in look(h.instance, h.table, h.lake, NOON)[1].asks] == [key(2)]
        assert h.load(2) == [True]
        loaded = state(h)
        assert loaded[:2] == ({key(number): "loaded" for number in DAYS}, [])

    with house_of(tmp_path, empty, spark_url) as h:  # lost without a dump
        found = rebuild(LoadContext(spark, h.table, h.lake), h.instance)
        assert (found.proven, found.refused) == ([key(number) for number in DAYS], {})
        assert state(h) == loaded
        assert rebuild(LoadContext(spark, h.table, h.lake), h.instance).kept == [key(number) for number in DAYS]


def test_dagsters_role_of_the_documentation_keeps_the_history_of_loads_and_can_do_nothing_else(
    tmp_path: Path, postgres: PostgresServer, spark_url: str
) -> None:
    of_server = statements(documented_block("sql", "CREATE DATABASE dagster"))
    of_database = statements(documented_block("sql", "CREATE ON SCHEMA public TO dagster"))
    [(role, password)] = re.findall(r"CREATE ROLE (\w+) LOGIN PASSWORD '(.*)'", of_server[0])
    gone = f"DROP DATABASE IF EXISTS {role} WITH (FORCE)"
    postgres.run("postgres", gone, *of_server)
    postgres.run(role, *of_database)
    try:
        home = home_of(tmp_path, postgres, role, role, password)
        with house_of(tmp_path, home, spark_url) as h:
            h.deliver(1, guest("own 1", day=1))
            assert h.load(1) == [True]
            assert h.instance.all_instigator_state() == []
            h.instance.upgrade()
            assert state(h)[0][key(1)] == "loaded"
        assert postgres.dump(role, user=role, password=password).startswith(b"PGDMP")
        for statement in ("CREATE SCHEMA more", "CREATE TEMPORARY TABLE more ()", "CREATE DATABASE more",
                          "CREATE ROLE more", f"ALTER ROLE {role} CREATEROLE"):  # fmt: skip
            with (
                postgres.connect(role, user=role, password=password, autocommit=True) as connection,
                pytest.raises(psycopg.errors.InsufficientPrivilege),
            ):
                connection.execute(statement.encode())
    finally:
        postgres.run("postgres", gone, f"DROP ROLE {role}")


@dg.job
def upkeep() -> None:
    """A job without steps."""


def test_repeated_results_and_old_runs_leave_a_database_as_they_leave_files(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    postgres.database("history")
    with house_of(tmp_path, home_of(tmp_path, postgres, "history"), "local") as h:
        for number in range(4):
            last = last_results(h.instance, [h.table])[h.table.name]
            record_what_changed(h.instance, h.look(NOON + number * RECORD_AGAIN), last, only=["volume"])
        volume = dg.AssetCheckKey(h.table.key, "volume")
        assert len(h.instance.event_log_storage.get_asset_check_execution_history(volume, limit=10)) == 2
        run = h.instance.create_run_for_job(upkeep, tags=LOADS_NOTHING, status=dg.DagsterRunStatus.SUCCESS)
        h.instance.report_engine_event("began", run)
        assert expire_runs(h.instance, [h.table], h.lake, now() + timedelta(minutes=1)) == 1
        assert h.instance.get_runs() == []
    account = {"host": postgres.host, "port": postgres.port, "user": postgres.user, "password": postgres.password}
    with psycopg.connect(dbname="history", **account) as connection:  # type: ignore[arg-type]
        assert (
            connection.execute("SELECT dagster_event_type FROM event_logs").fetchall()
            == [("ASSET_CHECK_EVALUATION",)] * 2
        )


def test_a_command_opens_one_connection_to_each_storage_for_all_questions(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    postgres.database("kept")

    def backends(instance: dg.DagsterInstance) -> set[int]:
        storages: list[Any] = [instance.run_storage, instance.event_log_storage, instance.schedule_storage]
        found = set()
        for storage in storages * 3:
            connect = getattr(storage, "index_connection", None) or storage.connect
            with connect() as connection:
                found.add(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar())
        return found

    with dg.DagsterInstance.from_config(str(home_of(tmp_path, postgres, "kept"))) as instance:
        assert len(backends(instance)) == 9
        keep_connection(instance)
        assert len(backends(instance)) == 3
