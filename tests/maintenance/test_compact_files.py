"""Small files are put together where there are many, whatever loads do meanwhile, and no row changes."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from incload_assets.assets import Merge
from incload_assets.change_log.context import LoadContext
from incload_assets.maintenance import compact_files as small_files
from incload_assets.maintenance.compact_files import FilesCompacted, compact_files, crowded
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from tests.support.tables import DatedItem, Loaded, day, item, make

MANY = 3


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three files are many."""
    monkeypatch.setattr(small_files, "MANY", MANY)


def compacted(loaded: Loaded, spark: SparkSession | None = None) -> FilesCompacted:
    return compact_files(LoadContext(spark or loaded.spark, loaded.table, loaded.lake))


def version(loaded: Loaded) -> int | None:
    return loaded.lake.version(loaded.uri)


def test_the_small_files_of_a_partition_that_has_many_become_one(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(n): [item(f"a{n}", "x", n, day=day(1))] for n in (1, 2, 3)}
    content[day(4)] = [item("b", "y", 1, day=day(2))]
    loaded = make(spark, tmp_path, content, contract=DatedItem, write=Merge(partition_by="day"))
    assert compacted(loaded) == FilesCompacted()
    for number in (1, 2, 3, 4):
        loaded.load(number)
    rows, [other] = loaded.rows(), [file for file in loaded.files() if f"day={day(2)}" in file]
    done = compacted(loaded)
    assert (done.partitions, done.busy, done.before, done.after) == (1, 0, 3, 1)
    assert loaded.rows() == rows
    assert len(loaded.files()) == 2 and other in loaded.files()
    before = version(loaded)
    assert compacted(loaded) == FilesCompacted()
    assert version(loaded) == before, "nothing to do, nothing committed"


def test_what_is_large_enough_is_not_written_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [item(f"{number:05}", f"{number * 2_654_435_761 % 2**32}", 1) for number in range(2_000)]
    loaded = make(spark, tmp_path, {day(1): many} | {day(n): [item(f"a{n}", "x", n)] for n in (2, 3, 4)})
    loaded.load(1)
    large = loaded.files()
    for number in (2, 3, 4):
        loaded.load(number)
    monkeypatch.setattr(small_files, "SMALL_BYTES", 10_000)
    assert compacted(loaded).before == 3
    assert large < loaded.files() and len(loaded.files()) == 2


def test_partitions_are_told_by_values_of_any_type(spark: SparkSession, tmp_path: Path) -> None:
    places = {
        "d": (pa.date32(), [date(2026, 1, 1), None]),
        "at": (pa.timestamp("us", "UTC"), [datetime(2026, 3, 29, 1, 30, 0, 250_000, tzinfo=UTC)] * 2),
        "s": (pa.string(), ["it's\\ü", "a=b/c"]),
        "yes": (pa.bool_(), [True, False]),
        "n": (pa.decimal128(5, 2), [Decimal("1.50"), None]),
    }
    rows = pa.table({name: pa.array(values, kind) for name, (kind, values) in places.items()} | {"id": [1, 2]})
    for _ in range(MANY):
        write_deltalake(f"{tmp_path}", rows, partition_by=list(places), mode="append")
    conditions = crowded(DeltaTable(f"{tmp_path}"))
    table = spark.read.format("delta").load(f"{tmp_path}")
    assert sorted(tuple(row.id for row in table.where(where).collect()) for where in conditions) == [
        (1,) * MANY,
        (2,) * MANY,
    ]
    write_deltalake(f"{tmp_path}", rows.slice(1).set_column(5, "id", [[3]]), mode="append")
    assert len(crowded(DeltaTable(f"{tmp_path}"))) == 2


def test_loads_and_compactions_at_the_same_time_leave_the_table_right(
    spark: SparkSession, spark_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_files, "MANY", 2)
    days = range(1, 7)
    content = {day(n): [item(f"own{n}", "x", n)] + [item("shared", f"v{n}", n)] * (n % 3 == 0) for n in days}
    loaded, over = make(spark, tmp_path, content), Event()

    def compact_until_over() -> FilesCompacted:
        found = FilesCompacted()
        with open_session(Settings(spark=spark_url)) as session:
            while not over.wait(1):
                found += compacted(loaded, session)
        return found

    with ThreadPoolExecutor(1) as pool:
        compactions = pool.submit(compact_until_over)
        try:
            for number in days:
                loaded.load(number)
        finally:
            over.set()
    assert (compactions.result() + compacted(loaded)).partitions, "something was compacted"
    assert loaded.rows() == {("shared", "v6", 6), *((f"own{n}", "x", n) for n in days)}
    assert all(loaded.load(number).evidence.pending == 0 for number in days)
