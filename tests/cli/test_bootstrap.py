"""``incload bootstrap``, as a person runs it: killed, repeated, and beside other loads and writers."""

import re
import signal
import subprocess
import threading
import time
from itertools import count
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.servers.postgres import PostgresServer
from tests.support.project_copy import Clone

ROWS = 40_000
TABLE = '''"""Items of the shop's database."""

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.assets import Changes, QueryByTime, incremental_asset


class Item(pa.DataFrameModel):
    """An item."""

    id: T.LongType = pa.Field(nullable=False)
    value: T.StringType = pa.Field(nullable=True)
    changed: T.TimestampType = pa.Field(nullable=False)


@incremental_asset(
    partitions_def=dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-03"),
    source=QueryByTime("shop", "public.items", modified="changed"),
    contract=Item,
    changes=Changes(keys=["id"], sequence_by=["changed"]),
)
def items(changes: DataFrame) -> DataFrame:
    """Items of the shop's database."""
    return changes
'''


@pytest.fixture
def database(postgres: PostgresServer) -> PostgresServer:
    """Many old items; loads that read one of the last ones wait as long as somebody holds the lock."""
    postgres.database("big")
    postgres.run(
        "big",
        "CREATE TABLE stored (id bigint PRIMARY KEY, value text, changed timestamptz NOT NULL)",
        "INSERT INTO stored SELECT n, 'v' || n, '2025-06-01'::timestamptz + n * '1 minute'::interval "
        f"FROM generate_series(1, {ROWS}) AS n",
        "CREATE INDEX ON stored (changed)",
        "CREATE FUNCTION passes(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
        f"IF id = {ROWS - 10} AND current_query() LIKE '%AS _rows%' THEN "
        "PERFORM pg_advisory_xact_lock_shared(1); END IF; RETURN true; END $$",
        "CREATE VIEW items AS SELECT * FROM stored WHERE passes(id)",
    )
    return postgres


def chunks_read(clone: Clone) -> int:
    return len(list((clone.root / ".incload" / "lake" / "_changes" / "items").rglob("chunk.note")))


def write_until(server: PostgresServer, over: threading.Event) -> None:
    """Updates and inserts of random items, all in the second window."""
    with server.connect("big", autocommit=True) as connection:
        for number in count():
            if over.wait(0.05):
                return
            at = f"'2026-01-02'::timestamptz + {number} * '1 millisecond'::interval"
            some = f"SELECT 1 + floor(random() * {ROWS - 100})::bigint FROM generate_series(1, 5)"
            connection.execute(f"UPDATE stored SET value = value || '+', changed = {at} WHERE id IN ({some})".encode())
            connection.execute(f"INSERT INTO stored SELECT max(id) + 1, 'new', {at} FROM stored".encode())


@pytest.mark.slow
@pytest.mark.integration
def test_a_copy_that_is_killed_goes_on_beside_loads_and_writers_and_ends_as_the_source(
    tmp_path: Path, spark_url: str, database: PostgresServer
) -> None:
    clone = Clone.of(tmp_path, spark_url)
    clone.write("my_lake/tables/items.py", TABLE)
    account = {
        "INCLOAD_SAMPLES": "false",
        "INCLOAD_DATABASE_SHOP_URL": f"postgresql://127.0.0.1:{database.port}/big",
        "INCLOAD_DATABASE_SHOP_USER": database.user,
        "INCLOAD_DATABASE_SHOP_PASSWORD": database.password,
    }
    over = threading.Event()
    writer = threading.Thread(target=write_until, args=(database, over))
    writer.start()
    try:
        with subprocess.Popen(
            clone.command("bootstrap", "items", "--chunks", "8", "--at-once", "2"),
            cwd=clone.root, env=clone.environment(**account), stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            assert process.stdout.readline().startswith("items: partition 2026-01-01, about ")
            with database.connect("big", autocommit=True) as lock:
                lock.execute("SELECT pg_advisory_lock(1)")
                while chunks_read(clone) < 7:
                    assert process.poll() is None
                    time.sleep(0.1)
                beside = clone.incload("load", "items", "--partitions", "2026-01-02", **account)
                process.send_signal(signal.SIGKILL)
        assert beside.returncode == 0 and "✓ items 2026-01-02" in beside.stdout
        assert chunks_read(clone) == 7
        done = clone.incload("bootstrap", "items", "--chunks", "8", **account)
    finally:
        over.set()
        writer.join()
    rest = clone.incload("load", "items", "--partitions", "2026-01-02", **account)
    again = clone.incload("bootstrap", "items", **account)
    assert done.returncode == 0 and "✓ items 2026-01-01" in done.stdout
    # what was written meanwhile may fill another chunk
    assert re.search(r"items 2026-01-01: 8 of [89] chunks", done.stdout), done.stdout
    assert "items 2026-01-01: 1 of" not in done.stdout
    assert rest.returncode == 0 and again.returncode == 0
    assert again.stdout == "items: the source has no rows for a partition that was never loaded.\n"
    assert chunks_read(clone) == 0
    assert clone.status("items", **account)["loaded"] == ["2026-01-01", "2026-01-02"]
    rows = DeltaTable(clone.root / ".incload" / "lake" / "items").to_pyarrow_table().to_pylist()
    wanted = database.rows("big", "SELECT id, value, changed FROM stored")
    assert sorted((row["id"], row["value"], row["changed"]) for row in rows) == sorted(wanted)
