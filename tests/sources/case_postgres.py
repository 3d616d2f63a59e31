"""Tables of a real PostgreSQL, by time and by number."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from incload_assets.declaration.source import Source
from incload_assets.declaration.window import first_window, window_of
from incload_assets.platform.lake import Lake
from incload_assets.sources.database import source as database_source
from incload_assets.sources.database.query_by_id import QueryById
from incload_assets.sources.database.query_by_time import QueryByTime
from tests.servers.postgres import PostgresServer
from tests.servers.switch import switched
from tests.sources.case import TYPES, Case, Content, Place
from tests.support.detection import detected

SQL_TYPES = {
    "str": "text", "Decimal": "numeric", "int": "bigint", "float": "float8", "bool": "boolean", "date": "date",
    "datetime": "timestamptz",
}  # fmt: skip
READER, PASSWORD = "conformance", "not-to-be-shown"


class PostgresCase(Case):
    """A database of its own, by way of a switch, and an account that may read one table."""

    keeps_changes = False
    can_rewrite = False  # rows that leave a window stay where they were landed
    can_hang = True
    shows_empty_windows = True
    named = r"shop\.(public\.)?everything"
    secret = PASSWORD

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.server: PostgresServer = place.server("postgres")
        columns = ", ".join(f"{name} {SQL_TYPES[type.__name__]}" for name, type in TYPES.items())
        self.server.database("conformance")
        self.server.run(
            "conformance",
            f"CREATE TABLE everything (no bigserial, changed timestamptz, {columns})",
            f"DO $$ BEGIN CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}'; "
            "EXCEPTION WHEN duplicate_object THEN NULL; END $$",
            f"GRANT SELECT ON everything TO {READER}",
        )
        self.switch = place.closing.enter_context(switched(self.server.port))
        place.patch.setenv("INCLOAD_DATABASE_SHOP_URL", f"postgresql://127.0.0.1:{self.switch.port}/conformance")
        place.patch.setenv("INCLOAD_DATABASE_SHOP_USER", READER)
        place.patch.setenv("INCLOAD_DATABASE_SHOP_PASSWORD", PASSWORD)

    def fill(self, content: Content) -> None:
        for window in sorted(content):
            self.fill_window(window, content[window])

    def fill_window(self, window: str, rows: Sequence[Any]) -> None:
        """Insert the rows, spread over the window."""
        start = window_of(self.partitions_def, window).start
        with self.server.connect("conformance") as connection:
            for number, row in enumerate(rows):
                values = {**row, "changed": start + timedelta(hours=number)}
                marks = ", ".join(["%s"] * len(values))
                connection.execute(
                    f"INSERT INTO everything ({', '.join(values)}) VALUES ({marks})".encode(), list(values.values())
                )

    def fail(self) -> None:
        self.switch.down()

    def fail_amid_reading(self) -> None:
        self.switch.break_off(after=6000)

    def hang(self) -> None:
        self.switch.hang()

    def recover(self) -> None:
        self.switch.up()

    def refuse(self) -> None:
        self.place.patch.setenv("INCLOAD_DATABASE_SHOP_PASSWORD", f"wrong-{PASSWORD}")


class PostgresByTime(PostgresCase):
    """By the time of the last change."""

    name = "postgres by time"

    def source(self) -> Source:
        return QueryByTime("shop", "public.everything", modified="changed")


class PostgresById(PostgresCase):
    """By number; each window ends, and is looked at, as soon as its rows are there."""

    name = "postgres by id"

    def source(self) -> Source:
        return QueryById("shop", "public.everything", id="no", lag=timedelta(0))

    def fill(self, content: Content) -> None:
        ask, lake = database_source.server_of, Lake(str(self.place.folder / "lake"))
        first = first_window(self.partitions_def).start
        for window in sorted(content):
            ended = window_of(self.partitions_def, window)
            self.fill_window(window, content[window])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(database_source, "server_of", lambda *given, end=ended.end: replace(ask(*given), now=end))
                detected(self.source(), "items", [ended], {}, first=first, lake=lake)
