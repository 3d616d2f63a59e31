"""A database of a shop and random transactions over it: what a change stream is compared with."""

import json
import random
import string
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import psycopg

BIG = 2500
"""Characters of a value that PostgreSQL keeps beside its row, so that an update of other columns does not repeat it."""

TABLES = (
    """CREATE TABLE orders (id bigint PRIMARY KEY, status text NOT NULL, amount numeric(12,2), placed_at timestamp(3),
        changed_at timestamp, seen_at timestamptz, due date, body text, tags text[], numbers bigint[], doc jsonb,
        code uuid, data bytea)""",
    *(
        f"ALTER TABLE orders ALTER {column} SET STORAGE EXTERNAL"
        for column in ("body", "tags", "numbers", "doc", "data")
    ),
    """CREATE TABLE customers (name text, region text, note text, credit numeric, born date, clock time,
        joined timestamp(3), PRIMARY KEY (name, region))""",
    "ALTER TABLE customers ALTER note SET STORAGE EXTERNAL",
    "ALTER TABLE customers REPLICA IDENTITY FULL",
    "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)",
)
LARGE = ("body", "tags", "numbers", "doc", "data")
"""The columns of orders that may be big."""


@dataclass
class Shop:
    """Random transactions.

    Args:
        random: Where chance comes from.
        connection: To the database; every transaction is one of it.
    """

    random: random.Random
    connection: psycopg.Connection[Any]
    orders: list[int] = field(default_factory=list)
    customers: list[tuple[str, str]] = field(default_factory=list)
    large: Sequence[str] = LARGE
    extra: bool = False
    """Whether orders have the column that was added."""
    _next: int = 1

    def run(self, transactions: int) -> None:
        """So many transactions, a few of them rolled back."""
        with self._pipeline():
            for _ in range(transactions):
                orders, customers = list(self.orders), list(self.customers)
                self._execute("BEGIN")
                for _ in range(self.random.choice((1, 1, 2, 5))):
                    self.random.choice((self.change_orders, self.change_orders, self.change_customers))()
                if self.random.random() < 0.05:
                    self._execute("ROLLBACK")
                    self.orders, self.customers = orders, customers
                else:
                    self._execute("COMMIT")

    def add_column(self) -> None:
        """Orders get another column."""
        self._execute("ALTER TABLE orders ADD COLUMN extra int")
        self.extra = True

    def truncate_customers(self) -> None:
        """Customers are emptied."""
        self._execute("TRUNCATE customers")
        self.customers.clear()

    def change_orders(self) -> None:
        """Insert, update (small columns, or big ones), give a new key, delete."""
        chance = self.random.random()
        if not self.orders or chance < 0.3:
            self.orders.append(self._id())
            row = {"id": self.orders[-1], **self._small(), **self._large(*self.large)}
            names = ", ".join(row)
            self._execute(f"INSERT INTO orders ({names}) VALUES ({', '.join(['%s'] * len(row))})", *row.values())
        elif chance < 0.75:
            self._update(self.random.choice(self.orders), self._small())
        elif chance < 0.85:
            self._update(self.random.choice(self.orders), self._large(self.random.choice(self.large)))
        elif chance < 0.9:  # the event of a new key lacks the big columns that are left alone
            old = self.orders.pop(self.random.randrange(len(self.orders)))
            self.orders.append(self._id())
            changed = (name for name in self.large if self.random.random() < 0.2)
            self._update(old, {"id": self.orders[-1], **self._large(*changed)})
        else:
            old = self.orders.pop(self.random.randrange(len(self.orders)))
            self._execute("DELETE FROM orders WHERE id = %s", old)

    def change_customers(self) -> None:
        """Likewise; a new key leaves big columns alone."""
        chance = self.random.random()
        if not self.customers or chance < 0.4:
            self.customers.append(self._name())
            values = (*self.customers[-1], self._text(), self._credit(), self._date(), self._clock(), self._time(3))
            self._execute("INSERT INTO customers VALUES (%s, %s, %s, %s, %s, %s, %s)", *values)
            return
        at = self.random.randrange(len(self.customers))
        where = "WHERE name = %s AND region = %s"
        if chance < 0.7:
            new = (self._credit(), self._clock())
            self._execute(f"UPDATE customers SET credit = %s, clock = %s {where}", *new, *self.customers[at])
        elif chance < 0.8:
            self._execute(f"UPDATE customers SET note = %s {where}", self._text(), *self.customers[at])
        elif chance < 0.9:
            old, self.customers[at] = self.customers[at], self._name()
            self._execute(f"UPDATE customers SET name = %s, region = %s {where}", *self.customers[at], *old)
        else:
            self._execute(f"DELETE FROM customers {where}", *self.customers.pop(at))

    def _update(self, id: int, values: dict[str, Any]) -> None:
        assignments = ", ".join(f"{name} = %s" for name in values)
        self._execute(f"UPDATE orders SET {assignments} WHERE id = %s", *values.values(), id)

    def _pipeline(self) -> AbstractContextManager[Any]:
        return self.connection.pipeline()

    def _execute(self, statement: str, *values: Any) -> None:
        self.connection.execute(statement.encode(), values)

    def _id(self) -> int:
        self._next += 1
        return self._next

    def _name(self) -> tuple[str, str]:
        return f"{self.random.choice('äbç')} {self._id()}", self.random.choice(("eu", "us", "a|b"))

    def _small(self) -> dict[str, Any]:
        values = {
            "status": self.random.choice(("new", "paid", "sent", "", 'with "quotes" and \\')),
            "amount": self._or_null(f"{self.random.randrange(-(10**9), 10**10)}e-2"),
            "placed_at": self._or_null(self._time(3)),
            "changed_at": self._or_null(self._time(6)),
            "seen_at": self._or_null(self._time(6) + self.random.choice(("Z", "+02:00"))),
            "due": self._or_null(self._date()),
            "code": self._or_null(f"{self.random.getrandbits(128):032x}"),
        }
        return values | ({"extra": self.random.randrange(100)} if self.extra else {})

    def _large(self, *names: str) -> dict[str, Any]:
        big = self.random.random() < 0.4
        texts = [self._text(big) for _ in range(3)]
        values = {
            "body": self._or_null(texts[0]),
            "tags": self._or_null([texts[1], None, "x"]),
            "numbers": self._or_null([self.random.getrandbits(62) for _ in range(BIG // 6 if big else 2)]),
            "doc": self._or_null(json.dumps({"text": texts[2], "number": 1.10})),
            "data": self._or_null(self.random.randbytes(BIG if big else 3)),
        }
        return {name: values[name] for name in names}

    def _text(self, big: bool | None = None) -> str:
        big = self.random.random() < 0.4 if big is None else big
        return "".join(self.random.choices(string.ascii_letters, k=BIG if big else 5))

    def _credit(self) -> str:
        return f"{self.random.randrange(-(10**12), 10**12)}e-{self.random.randrange(6)}"

    def _date(self) -> str:
        return f"{self.random.randrange(1, 9999):04d}-02-{self.random.randrange(1, 29):02d}"

    def _clock(self) -> str:
        return f"{self.random.randrange(24):02d}:00:{self.random.randrange(60):02d}.{self.random.randrange(10**6):06d}"

    def _time(self, digits: int) -> str:
        return f"{self.random.randrange(1900, 2200)}-03-04 05:06:07.{self.random.randrange(10**digits):0{digits}d}"

    def _or_null(self, value: Any) -> Any:
        return None if self.random.random() < 0.1 else value
