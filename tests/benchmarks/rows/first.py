"""First loads: of one large window, of many small ones, and of a Spark that has just started."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.context import LoadContext
from incload_assets.checks.observation import look
from incload_assets.checks.reconciliation import ReconciliationConfig, reconciliation
from incload_assets.declaration.window import window_of
from incload_assets.load.ranges import load_first_windows
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import server as connect_server
from incload_assets.platform.spark.resource import open_session
from incload_assets.runs.warm_up import warm_up
from tests.benchmarks.bench import Bench
from tests.benchmarks.by_hand import SCHEMA
from tests.benchmarks.contest import Loads, expect_same
from tests.benchmarks.items import FIRST_WINDOW, WINDOWS, Items
from tests.benchmarks.pairs import Comparison
from tests.benchmarks.rows.small import small_items
from tests.support.tables import Loaded


def first(bench: Bench) -> Iterator[Comparison]:
    """All of a table in one window, against a CREATE and an append by hand that validates and counts, too."""
    rows, spark, by_hand = bench.sizes.first, bench.session(), bench.session()
    landing = bench.new("landing")
    _write_all(spark, landing / f"{FIRST_WINDOW}", rows)
    loaded: list[tuple[str, str]] = []

    def load(number: int) -> None:
        table = Items(rows=0, changes=rows).table(spark, bench.new("lake"), landing)
        loaded.append((table.uri, f"{bench.folder}/by-hand-{number}"))
        assert table.load(f"{FIRST_WINDOW}").evidence.applied == rows

    def append(number: int) -> None:
        assert _append(by_hand, f"{landing}/{FIRST_WINDOW}", loaded[-1][1]) == rows

    found = bench.compare(
        f"first load of {rows:,} rows in one window / CREATE and append by hand", load, append,
        bound=3, sizes={"rows": rows}, warm_up=1,
    )  # fmt: skip
    expect_same(spark, ["id", "value", "seq", "day"], *loaded[-1])
    yield found


def reconcile(bench: Bench) -> Iterator[Comparison]:
    """A large table compared with its log, row by row, by the check that every night runs, against its load."""
    rows, spark, landing = bench.sizes.first, bench.session(), bench.new("landing")
    _write_all(spark, landing / f"{FIRST_WINDOW}", rows)
    config, tables = ReconciliationConfig(all_partitions=True), list[Loaded]()

    def load(_: int) -> None:
        tables.append(Items(rows=0, changes=rows).table(spark, bench.new("lake"), landing))
        assert tables[-1].load(f"{FIRST_WINDOW}").evidence.applied == rows

    load(0)
    with dg.DagsterInstance.local_temp() as instance:

        def compare(_: int) -> None:
            seen = look(instance, tables[-1].table, tables[-1].lake, datetime.now(UTC))
            found = reconciliation(spark, seen, config)
            assert found.passed, found.description

        name = f"reconciliation of a table of {rows:,} rows / its load"
        yield bench.compare(name, compare, load, bound=None, sizes={"rows": rows}, warm_up=0)


def days(bench: Bench) -> Iterator[Comparison]:
    """A year of small windows as ranges, against an append a day."""
    windows = [f"{FIRST_WINDOW + timedelta(days=number)}" for number in range(bench.sizes.backfill)]
    rows, spark, by_hand, landing = bench.sizes.daily, bench.session(), bench.session(), bench.new("landing")
    for number, window in enumerate(windows):
        _write_day(landing / window, number, rows)
    loaded: list[tuple[str, str]] = []

    def load(number: int) -> None:
        table = Items(rows=0, changes=rows).table(spark, bench.new("lake"), landing)
        loaded.append((table.uri, f"{bench.folder}/days-by-hand-{number}"))
        asked = [window_of(WINDOWS, window) for window in windows]
        on = LoadContext(spark, table.table, table.lake.followed())
        done = load_first_windows(on, asked, lambda some: {w.key for w in some})
        assert sum(map(len, done)) == len(windows)

    def append(_: int) -> None:
        for window in windows:
            _append(by_hand, f"{landing}/{window}", loaded[-1][1])

    found = bench.compare(
        f"{len(windows)} days of {rows:,} rows as ranges / an append by hand a day", load, append,
        bound=1.5, sizes={"days": len(windows), "rows of each": rows}, warm_up=0,
    )  # fmt: skip
    expect_same(spark, ["id", "value", "seq", "day"], *loaded[-1])
    yield found


def cold(bench: Bench) -> Iterator[Comparison]:
    """The first load of a server that has just been warmed up, as ``incload dev`` does it, against its thirtieth."""
    items, spark = small_items(bench, bench.sizes.partitions), bench.session()
    filled = items.fill(spark, bench.new("lake"))
    loads: dict[int, Loads] = {}
    with ExitStack() as opened:

        def start(number: int) -> None:
            settings = Settings(home=bench.new("home"), spark="local")
            opened.callback(connect_server.stop, settings)
            connect_server.find_or_start(settings)
            warm_up(settings)
            loads[number] = Loads.into(bench, items, opened.enter_context(open_session(settings)), bench.copy(filled))
            for load in range(THIRTIETH):
                loads[number].write(load)

        def thirtieth(number: int) -> None:
            loads[number].load(THIRTIETH - 1)

        def between(number: int) -> None:
            for load in range(1, THIRTIETH - 1):
                loads[number].load(load)

        def first_load(number: int) -> None:
            loads[number].load(0)

        found = bench.compare(
            "first load after Spark's start / the thirtieth", first_load, thirtieth,
            prepare=start, between=between, bound=3, sizes=items.sizes, warm_up=0,
        )  # fmt: skip
    yield replace(found, note="the server has been warmed up as incload dev does it")


THIRTIETH = 30


def _write_all(spark: SparkSession, folder: Path, rows: int) -> None:
    made = spark.range(0, rows, 1, 8).selectExpr(
        "format_string('k%09d', id) AS id", "hex(xxhash64(id)) AS value", "1 AS seq", "'2020-01-01' AS day", "'u' AS op"
    )
    made.write.json(f"file://{folder}")


def _write_day(folder: Path, number: int, rows: int) -> None:
    folder.mkdir(parents=True)
    day = FIRST_WINDOW + timedelta(days=number)
    with (folder / "changes.json").open("w") as out:
        for row in range(rows):
            of = {"id": f"k{number}-{row}", "value": f"v{row}", "seq": 1, "day": f"{day}", "op": "u"}
            out.write(json.dumps(of) + "\n")


def _append(spark: SparkSession, files: str, uri: str) -> int:
    """Rows without a key or a day stay out; how many came in, as the table says."""
    spark.sql(f"CREATE TABLE IF NOT EXISTS delta.`{uri}` ({SCHEMA}) USING delta PARTITIONED BY (day)")
    read = spark.read.schema(SCHEMA).json(f"file://{files}")
    good = F.col("id").isNotNull() & F.col("day").isNotNull()
    validated = read.withColumn("good", good)
    counts = {row["good"]: row["count"] for row in validated.groupBy("good").count().collect()}
    validated.filter("good").drop("good").write.format("delta").mode("append").save(uri)
    assert spark.read.format("delta").load(uri).count() >= counts[True]
    return int(counts[True])
