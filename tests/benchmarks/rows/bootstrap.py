"""A big database table at first: in chunks, against a plain parallel read with an append."""

import os
from collections.abc import Iterator
from unittest import mock

import pandera.pyspark as pa
import pyspark.sql.types as T

from incload_assets.assets import Changes, QueryByTime
from incload_assets.change_log.chunks import InChunks
from incload_assets.platform.databases import Database
from incload_assets.sources.database.reading import jdbc_properties
from tests.benchmarks.bench import Bench
from tests.benchmarks.contest import expect_same
from tests.benchmarks.pairs import Comparison
from tests.servers.postgres import running_postgres
from tests.support.tables import day, make

CHUNKS = InChunks(8, 2)
TABLE = """CREATE TABLE payments (id bigint PRIMARY KEY, payer text NOT NULL, amount double precision NOT NULL,
  note text, paid_at timestamptz NOT NULL, changed timestamptz NOT NULL)"""
ROWS = """INSERT INTO payments SELECT n, 'payer ' || n % 10000, n % 100000 / 100.0, md5(n::text),
  '2024-01-01'::timestamptz + n * '20 seconds'::interval, '2020-01-01'::timestamptz + n * '2 seconds'::interval
  FROM generate_series(1, {rows}) AS n"""


class Payment(pa.DataFrameModel):
    """A row of the table."""

    id: T.LongType = pa.Field(nullable=False)
    payer: T.StringType = pa.Field(nullable=False)
    amount: T.DoubleType = pa.Field(nullable=False, ge=0)
    note: T.StringType = pa.Field(nullable=True)
    paid_at: T.TimestampType = pa.Field(nullable=False)
    changed: T.TimestampType = pa.Field(nullable=False)


def bootstrap(bench: Bench) -> Iterator[Comparison]:
    """A table of PostgreSQL in one window, in chunks, against Spark's parallel read by its key with an append."""
    rows, spark, by_hand = bench.sizes.copied, bench.session(), bench.session()
    with running_postgres() as server:
        account = {"URL": server.database("big", TABLE, ROWS.format(rows=rows), "CREATE INDEX ON payments (changed)")}
        account |= {"USER": server.user, "PASSWORD": server.password}
        server.run("big", "ANALYZE payments")
        named = {f"INCLOAD_DATABASE_BIG_{name}": value for name, value in account.items()}
        source = QueryByTime("big", "public.payments", modified="changed")
        changes = Changes(keys=["id"], sequence_by=["changed"])
        loaded: list[tuple[str, str]] = []

        def load(number: int) -> None:
            table = make(spark, bench.new("lake"), source=source, contract=Payment, changes=changes)
            loaded.append((table.uri, f"{bench.folder}/by-hand-{number}"))
            assert table.load(day(1), in_chunks=CHUNKS).evidence.applied == rows

        def copy(_: int) -> None:
            database = Database.named("big")
            reader = by_hand.read.format("jdbc").options(**jdbc_properties(database), url=database.jdbc_url)
            parts = {"partitionColumn": "id", "lowerBound": 1, "upperBound": rows + 1, "numPartitions": CHUNKS.number}
            read = reader.options(**parts, dbtable="payments").load()
            read.write.format("delta").mode("append").save(loaded[-1][1])

        with mock.patch.dict(os.environ, named):
            found = bench.compare(
                f"{rows:,} rows from PostgreSQL in {CHUNKS.number} chunks / a parallel read with an append", load, copy,
                bound=1 / 0.7, sizes={"rows": rows}, warm_up=1,
            )  # fmt: skip
        expect_same(spark, ["id", "payer", "amount", "note", "paid_at", "changed"], *loaded[-1])
    yield found
