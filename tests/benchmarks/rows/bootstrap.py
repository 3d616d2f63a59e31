"""A big database table at first: in chunks, against a plain parallel read with an append."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pandera.pyspark as pa
import pyspark.sql.types as T

from incload_assets.assets import Changes, QueryByTime
from incload_assets.change_log.chunks import InChunks
from incload_assets.platform.databases import Database
from incload_assets.sources.database.reading import ROWS_PER_READ, jdbc_properties
from tests.benchmarks.bench import Bench
from tests.benchmarks.contest import expect_same
from tests.benchmarks.pairs import Comparison
from tests.servers.mariadb import running_mariadb
from tests.servers.postgres import running_postgres
from tests.support.tables import day, make

CHUNKS = InChunks(8, 2)


@dataclass(frozen=True)
class Kind:
    """A kind of database, and how its table is made there."""

    name: str
    running: Callable[[], AbstractContextManager[Any]]
    table: str
    statements: tuple[str, ...]
    analyze: str


POSTGRES = Kind(
    "PostgreSQL",
    running_postgres,
    "public.payments",
    (
        """CREATE TABLE payments (id bigint PRIMARY KEY, payer text NOT NULL, amount double precision NOT NULL,
        note text, paid_at timestamptz NOT NULL, changed timestamptz NOT NULL)""",
        """INSERT INTO payments SELECT n, 'payer ' || n % 10000, n % 100000 / 100.0, md5(n::text),
        '2024-01-01'::timestamptz + n * '20 seconds'::interval, '2020-01-01'::timestamptz + n * '2 seconds'::interval
        FROM generate_series(1, {rows}) AS n""",
        "CREATE INDEX ON payments (changed)",
    ),
    "ANALYZE payments",
)
MARIADB = Kind(
    "MariaDB",
    running_mariadb,
    "big.payments",
    (
        """CREATE TABLE payments (id bigint PRIMARY KEY, payer varchar(40) NOT NULL, amount double NOT NULL, note text,
        paid_at datetime(6) NOT NULL, changed datetime(6) NOT NULL)""",
        """INSERT INTO payments SELECT seq, concat('payer ', seq % 10000), seq % 100000 / 100.0, md5(seq),
        '2024-01-01' + INTERVAL 20 * seq SECOND, '2020-01-01' + INTERVAL seq SECOND FROM seq_1_to_{rows}""",
        "CREATE INDEX by_changed ON payments (changed)",
    ),
    "ANALYZE TABLE payments PERSISTENT FOR ALL",
)


class Payment(pa.DataFrameModel):
    """A row of the table."""

    id: T.LongType = pa.Field(nullable=False)
    payer: T.StringType = pa.Field(nullable=False)
    amount: T.DoubleType = pa.Field(nullable=False, ge=0)
    note: T.StringType = pa.Field(nullable=True)
    paid_at: T.TimestampType = pa.Field(nullable=False)
    changed: T.TimestampType = pa.Field(nullable=False)


def bootstrap(bench: Bench) -> Iterator[Comparison]:
    """A table of a database in one window, in chunks, against Spark's parallel read by its key with an append."""
    for kind in (POSTGRES, MARIADB):
        yield _compared(bench, kind)


def _compared(bench: Bench, kind: Kind) -> Comparison:
    rows = bench.sizes.copied
    with kind.running() as server, mock.patch.dict(os.environ, {"INCLOAD_MYSQL": "true"}):
        spark, by_hand = bench.session(), bench.session()  # the driver of MySQL is asked for when a session is opened
        account = {"URL": server.database("big", *(statement.format(rows=rows) for statement in kind.statements))}
        account |= {"USER": server.user, "PASSWORD": server.password, "TIMEOUT": "3600"}
        server.run("big", kind.analyze)
        named = {f"INCLOAD_DATABASE_BIG_{name}": value for name, value in account.items()}
        source = QueryByTime("big", kind.table, modified="changed")
        changes = Changes(keys=["id"], sequence_by=["changed"])
        loaded: list[tuple[str, str]] = []

        def load(number: int) -> None:
            table = make(spark, bench.new("lake"), source=source, contract=Payment, changes=changes)
            loaded.append((table.uri, f"{bench.folder}/by-hand-{kind.name}-{number}"))
            assert table.load(day(1), in_chunks=CHUNKS).evidence.applied == rows

        def copy(_: int) -> None:
            database = Database.named("big")
            reader = by_hand.read.format("jdbc").options(**jdbc_properties(database), url=database.jdbc_url)
            pieces = max(CHUNKS.number, rows // ROWS_PER_READ)
            parts = {"partitionColumn": "id", "lowerBound": 1, "upperBound": rows + 1, "numPartitions": pieces}
            read = reader.options(**parts, dbtable=kind.table).load()
            read.write.format("delta").mode("append").save(loaded[-1][1])

        with mock.patch.dict(os.environ, named):
            name = f"{rows:,} rows from {kind.name} in {CHUNKS.number} chunks / a parallel read with an append"
            found = bench.compare(
                name,
                load,
                copy,
                bound=1 / 0.7,
                sizes={"rows": rows},
                warm_up=1,
            )
        expect_same(spark, ["id", "payer", "amount", "note", "paid_at", "changed"], *loaded[-1])
    return found
