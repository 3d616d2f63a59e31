"""The history that Dagster has in SQLite files, copied into PostgreSQL row by row: for numbers about both."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

import dagster as dg
import psycopg
import yaml
from psycopg import sql

from tests.servers.postgres import PostgresServer

_FILES = ("history/runs.db", "history/runs/index.db", "schedules/schedules.db")


def move_history(home: Path, server: PostgresServer, database: str) -> None:
    """Gives an instance with its history in SQLite a storage in a new database with the same history.

    The output and events of runs, which are in files of their own, are left out.
    """
    server.database(database)
    config = yaml.safe_load((home / "dagster.yaml").read_text())
    account = {"scheme": "postgresql+psycopg2", "hostname": server.host, "port": server.port, "db_name": database,
               "username": server.user, "password": server.password, "params": {}}  # fmt: skip
    (home / "dagster.yaml").write_text(yaml.safe_dump(config | {"storage": {"postgres": {"postgres_db": account}}}))
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert instance.all_instigator_state() == []  # which makes the tables
    with server.connect(database) as target:
        target.execute("SET session_replication_role = replica")  # the order of tables does not matter
        for file in _FILES:
            with closing(sqlite3.connect(home / file)) as source:
                for table in _tables(source):
                    _copy(source, target, table)
    server.run(database, "ANALYZE")


def _tables(source: sqlite3.Connection) -> Iterator[str]:
    named = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> ?"
    yield from (name for (name,) in source.execute(named, ["alembic_version"]))


def _copy(source: sqlite3.Connection, target: psycopg.Connection[tuple[object, ...]], table: str) -> None:
    """Replaces the rows of a table, and lets its numbers go on after them."""
    there = {row[0] for row in target.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = %s", [table]
    )}  # fmt: skip
    columns = [row[1] for row in source.execute(f"PRAGMA table_info({table})") if row[1] in there]
    if not columns:
        return
    name, of_rows = sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    quoted = ", ".join(f'"{column}"' for column in columns)
    rows = source.execute(f'SELECT {quoted} FROM "{table}"')
    if (first := rows.fetchone()) is None:
        return
    target.execute(sql.SQL("DELETE FROM {}").format(name))
    with target.cursor().copy(sql.SQL("COPY {} ({}) FROM STDIN").format(name, of_rows)) as copy:
        for row in chain([first], rows):
            copy.write_row(row)
    if "id" in columns and (found := target.execute("SELECT pg_get_serial_sequence(%s, 'id')", [table]).fetchone()):
        newest = sql.SQL("SELECT setval(%s, (SELECT max(id) FROM {}))").format(name)
        target.execute(newest, found)
