"""What tables of real databases share, whatever the database: by time and by number."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from incload_assets.declaration.source import Source
from incload_assets.declaration.window import first_window, window_of
from incload_assets.platform.lake import Lake
from incload_assets.sources.database import source as database_source
from incload_assets.sources.database.query_by_id import QueryById
from incload_assets.sources.database.query_by_time import QueryByTime
from tests.servers.switch import switched
from tests.sources.case import TYPES, Case, Content, Place
from tests.support.detection import detected

DATABASE, READER, PASSWORD = "conformance", "conformance", "not-to-be-shown"


class DatabaseCase(Case):
    """A database of its own, by way of a switch, and an account that may read one table."""

    keeps_changes = False
    can_rewrite = False  # rows that leave a window stay where they were landed
    can_hang = True
    shows_empty_windows = True
    secret = PASSWORD
    server_fixture: ClassVar[str]
    amid: ClassVar[int]
    """How many bytes the server has sent when the next read is in its midst."""
    sql_types: ClassVar[dict[str, str]]
    """Types of columns by the names of Python's types; ``number`` and ``changed`` are the columns of windows."""
    in_utc: ClassVar[dict[str, str]] = {}
    """Options of the connection that writes rows."""
    account: ClassVar[tuple[str, ...]]
    """Statements that make the account and let it read ``everything``."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.server: Any = place.server(self.server_fixture)
        columns = ", ".join(f"{name} {self.sql_types[type.__name__]}" for name, type in TYPES.items())
        ranged = f"no {self.sql_types['number']}, changed {self.sql_types['changed']}"
        url = self.server.database(DATABASE, f"CREATE TABLE everything ({ranged}, {columns})", *self.account)
        self.switch = place.closing.enter_context(switched(self.server.port))
        place.patch.setenv("INCLOAD_DATABASE_SHOP_URL", url.replace(str(self.server.port), str(self.switch.port)))
        place.patch.setenv("INCLOAD_DATABASE_SHOP_USER", READER)
        place.patch.setenv("INCLOAD_DATABASE_SHOP_PASSWORD", PASSWORD)

    @property
    @abstractmethod
    def table(self) -> str:
        """The table, as a source names it."""

    def fill(self, content: Content) -> None:
        for window in sorted(content):
            self.fill_window(window, content[window])

    def fill_window(self, window: str, rows: Sequence[Any]) -> None:
        """Insert the rows, spread over the window."""
        start = window_of(self.partitions_def, window).start
        with self.server.connect(DATABASE, **self.in_utc) as connection, connection.cursor() as cursor:
            for number, row in enumerate(rows):
                values = {**row, "changed": start + timedelta(hours=number)}
                values = {k: v.astimezone(UTC) if isinstance(v, datetime) else v for k, v in values.items()}
                marks = ", ".join(["%s"] * len(values))
                cursor.execute(f"INSERT INTO everything ({', '.join(values)}) VALUES ({marks})", [*values.values()])
            connection.commit()

    def fail(self) -> None:
        self.switch.down()

    def fail_amid_reading(self) -> None:
        self.switch.break_off(after=self.amid)

    def hang(self) -> None:
        self.switch.hang()

    def recover(self) -> None:
        self.switch.up()

    def refuse(self) -> None:
        self.place.patch.setenv("INCLOAD_DATABASE_SHOP_PASSWORD", f"wrong-{PASSWORD}")


class ByTime(DatabaseCase):
    """By the time of the last change."""

    def source(self) -> Source:
        return QueryByTime("shop", self.table, modified="changed")


class ById(DatabaseCase):
    """By number; each window ends, and is looked at, as soon as its rows are there."""

    def source(self) -> Source:
        return QueryById("shop", self.table, id="no", lag=timedelta(0))

    def fill(self, content: Content) -> None:
        ask, lake = database_source.server_of, Lake(str(self.place.folder / "lake"))
        first = first_window(self.partitions_def).start
        for window in sorted(content):
            ended = window_of(self.partitions_def, window)
            self.fill_window(window, content[window])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(database_source, "server_of", lambda *given, end=ended.end: replace(ask(*given), now=end))
                detected(self.source(), "items", [ended], {}, first=first, lake=lake)
