"""What a load costs, as ratios.

    INCLOAD_SPARK=local python -m tests.benchmarks.loads [PAIRS]

* small loads with the settings of ``loading/tuning.py`` against the server's own,
* a new day of 1,000 rows into a table that holds 30 days against one that holds 1: the cost follows the change,
* a version more of 100 keys into a history with 200 versions of each of 1,000 keys against one with 2,
* a replay of a checkpointed window against its first load.
"""

import sys
from pathlib import Path
from tempfile import mkdtemp
from unittest import mock

from pyspark.sql import SparkSession

from incload_assets.loading import History, Merge, applying, load
from incload_assets.loading.load import LoadReport
from resources.settings import Settings
from resources.spark import open_session
from tests.benchmarks.pairs import compare
from tests.loading.literal_source import Record
from tests.loading.tables import DatedItem, Loaded, day, item, make

ROWS = 1_000


def rows(number: int) -> list[Record]:
    """A day's changes."""
    return [item(f"{number}-{n}", f"value {n}", n, day=day(number)) for n in range(ROWS)]


def table(spark: SparkSession, days: int) -> Loaded:
    """A table that holds some days, loaded as one window."""
    content = {day(1): [row for number in range(1, days + 1) for row in rows(number)]}
    loaded = make(
        spark, Path(mkdtemp(prefix="benchmark-")), content, contract=DatedItem, write=Merge(partition_by="day")
    )
    loaded.load(1)
    return loaded


def next_day(loaded: Loaded, number: int) -> LoadReport:
    """One more window, of rows of the 31st."""
    loaded.content[day(2 + number)] = [{**row, "id": f"{number}/{row['id']}"} for row in rows(31)]
    return loaded.load(2 + number)


def history(spark: SparkSession, versions: int) -> Loaded:
    """A history of keys with some versions each, loaded as one window."""
    content = {day(1): [item(f"{n}", f"value {at}", at) for n in range(ROWS) for at in range(1, versions + 1)]}
    loaded = make(spark, Path(mkdtemp(prefix="benchmark-")), content, write=History())
    loaded.load(1)
    return loaded


def next_version(loaded: Loaded, number: int) -> LoadReport:
    """One more window, with a newer version of some keys."""
    loaded.content[day(2 + number)] = [item(f"{n}", f"newer {number}", 1_000 + number) for n in range(100)]
    return loaded.load(2 + number)


def main(pairs: int) -> None:
    """Run all comparisons."""
    with open_session(Settings()) as spark:
        tuned, plain = table(spark, 1), table(spark, 1)

        def untuned(number: int) -> None:
            for name in ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode"):
                spark.conf.unset(name)
            for name in ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions"):
                spark.conf.unset(name)
            with mock.patch.object(load, "tune_landing"), mock.patch.object(applying, "tune_plan"):
                next_day(plain, number)

        compare("small load, tuned / untuned", lambda n: next_day(tuned, n), untuned, pairs=pairs)
        large, small = table(spark, 30), table(spark, 1)
        compare(
            "new day, table of 30 days / of 1 day",
            lambda n: next_day(large, n),
            lambda n: next_day(small, n),
            pairs=pairs,
        )
        long, short = history(spark, 200), history(spark, 2)
        compare(
            "version more of 100 keys, history of 200 versions / of 2",
            lambda n: next_version(long, n),
            lambda n: next_version(short, n),
            pairs=pairs,
        )
        reports: dict[int, LoadReport] = {}
        fresh = table(spark, 1)

        def first(number: int) -> None:
            reports[number] = next_day(fresh, number)

        def replayed(number: int) -> None:
            fresh.replay(reports[number - 1] if number else fresh.load(1))

        compare("replay / first load", replayed, first, pairs=pairs)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
