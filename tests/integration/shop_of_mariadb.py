"""The shop's database in MariaDB, with the types that only MariaDB and MySQL have."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import pymysql

from tests.integration.shop_database import Shop

TABLES = (
    """CREATE TABLE orders (id bigint PRIMARY KEY, status varchar(40) NOT NULL, amount decimal(12,2),
        placed_at datetime(3), changed_at datetime(6), seen_at timestamp(6) NULL, due date, flag tinyint(1),
        counted bigint unsigned, bits bit(9), kind enum('a', 'b''c', 'ü'), kinds set('x', 'y', 'z'),
        body longtext, doc json, data longblob)""",
    """CREATE TABLE customers (name varchar(40), region varchar(40), note text, credit decimal(20,6), born date,
        clock time(6), joined datetime, PRIMARY KEY (name, region))""",
    "CREATE TABLE signals (id varchar(100) PRIMARY KEY, type varchar(40), data text)",
)


@dataclass
class MariadbShop(Shop):
    """Random transactions over a connection that commits each statement, unless it is told to wait."""

    connection: "pymysql.Connection[Any]"  # type: ignore[assignment]
    large: tuple[str, ...] = field(default=("body", "doc", "data"))

    def rotate(self) -> None:
        """The next transaction is in a new file of the binary log."""
        self._execute("FLUSH BINARY LOGS")

    def _pipeline(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def _execute(self, statement: str, *values: Any) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values or None)

    def _small(self) -> dict[str, Any]:
        values = super()._small() | {
            "seen_at": self._or_null(f"{self.random.randrange(1971, 2037)}-03-04 05:06:07.123456"),
            "flag": self._or_null(self.random.randrange(2)),
            "counted": self._or_null(self.random.getrandbits(64)),
            "bits": self._or_null(self.random.getrandbits(9)),
            "kind": self._or_null(self.random.choice(("a", "b'c", "ü"))),
            "kinds": self._or_null(",".join(name for name in "xyz" if self.random.random() < 0.5)),
        }
        del values["code"]
        return values

    def _clock(self) -> str:
        hours = self.random.choice((self.random.randrange(24), self.random.randrange(-838, 839)))
        return f"{hours:03d}:{self.random.randrange(60):02d}:07.{self.random.randrange(10**6):06d}"
