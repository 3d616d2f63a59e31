"""A small load against the MERGE that people write, and into a large table against a small one.

    INCLOAD_SPARK=local python -m tests.benchmarks.by_hand [PAIRS [MILLIONS]]

A partition of 20,000 rows gets 4,000 changes from a JSON file: 3,000 updates, 500 of them twice, and 500 inserts. The
load does all that a load does; by hand the file is read, the newest change of each key taken, and merged:

* tuned: with the partition as a literal, the newer sequence wins, hash joins in one partition, interpreted as small
  loads are (``loading/tuning.py``), no repartition before the write;
* plain: ``t.id = s.id`` with the server's settings.

The tables are written as they would be after loads of a day each, log included.
"""

import json
import shutil
import sys
from datetime import date, timedelta
from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.loading import Files, Merge
from incload_assets.loading.context import Context
from incload_assets.loading.load import LoadReport, ensure_tables
from incload_assets.loading.tuning import SMALL
from resources.settings import Settings
from resources.spark import open_session
from tests.benchmarks.pairs import compare
from tests.loading.tables import DatedItem, Loaded, make

ROWS = 20_000
UPDATES, TWICE, INSERTS = 3_000, 500, 500
FIRST = date(2020, 1, 1)
SCHEMA = "id string, value string, seq bigint, day date"
HAND = {
    **SMALL,
    "spark.databricks.delta.merge.repartitionBeforeWrite.enabled": "false",
    "spark.databricks.delta.merge.materializeSource": "none",
}


def rows(spark: SparkSession, partitions: int) -> DataFrame:
    """What the table holds: keys in order, a day for each 20,000."""
    day = F.date_add(F.lit(FIRST), (F.col("n") / ROWS).cast("int"))
    columns = {"id": F.format_string("k%09d", "n"), "value": F.hex(F.xxhash64("n")), "seq": F.lit(1), "day": day}
    numbers = spark.range(0, partitions * ROWS, 1, max(2, partitions // 16)).toDF("n")
    return numbers.select(*(column.alias(name) for name, column in columns.items())).selectExpr(
        "id", "value", "CAST(seq AS bigint) AS seq", "day"
    )


def table(spark: SparkSession, folder: Path, partitions: int) -> Loaded:
    """A table of so many days, which takes its changes from below ``folder/landing``."""
    source = Files(f"{folder}/landing/{{window:%Y-%m-%d}}/*.json")
    loaded = make(spark, folder / "lake", source=source, contract=DatedItem, write=Merge(partition_by="day"))
    context = Context(spark, loaded.table, loaded.lake)
    ensure_tables(context)
    held = rows(spark, partitions)
    held.write.format("delta").mode("append").save(loaded.uri)
    engine = [field for field in context.log.schema if field.name.startswith("_")]
    told = {"_window": "CAST(day AS string)", "_kind": "'upsert'"}
    columns = [f"CAST({told.get(f.name, 'NULL')} AS {f.dataType.simpleString()}) AS {f.name}" for f in engine]
    log = held.selectExpr("id", "value", "seq", "day", *columns)
    log.write.format("delta").mode("append").save(context.log.uri)
    return loaded


def changes(folder: Path, number: int) -> tuple[str, str, Path]:
    """Write a round's changes; the window, the day that they are of, and the file."""
    window, day = date(2026, 1, 1) + timedelta(days=number), FIRST + timedelta(days=number)
    keys = range(number * ROWS, number * ROWS + UPDATES)
    updates = [(f"k{key:09d}", 2 + again) for again in (0, 1) for key in (keys if not again else keys[:TWICE])]
    inserts = [(f"new{number}-{key}", 1) for key in range(INSERTS)]
    file = folder / "landing" / f"{window}" / "changes.json"
    file.parent.mkdir(parents=True)
    file.write_text(
        "".join(
            json.dumps({"id": key, "value": f"newer {seq}", "seq": seq, "day": f"{day}", "op": "u"}) + "\n"
            for key, seq in [*updates, *inserts]
        )
    )
    return f"{window}", f"{day}", file


def by_hand(spark: SparkSession, uri: str, file: Path, day: str | None) -> None:
    """What people write; with the day's literal it touches one partition only."""
    spark.read.schema(SCHEMA).json(f"{file}").createOrReplaceTempView("read")
    newest = "SELECT *, row_number() OVER (PARTITION BY id ORDER BY seq DESC) AS place FROM read"
    matched = f"t.id = s.id AND t.day = s.day AND t.day = DATE'{day}'" if day else "t.id = s.id"
    newer = "AND s.seq > t.seq" if day else ""
    spark.sql(
        f"MERGE INTO delta.`{uri}` t USING (SELECT id, value, seq, day FROM ({newest}) WHERE place = 1) s ON {matched} "
        f"WHEN MATCHED {newer} THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ).first()


def main(pairs: int, millions: int) -> None:
    """Run all comparisons."""
    with open_session(Settings()) as spark, open_session(Settings()) as tuned, open_session(Settings()) as plain:
        for name, value in HAND.items():
            tuned.conf.set(name, value)
        folders = {name: Path(mkdtemp(prefix=f"benchmark-{name}-")) for name in ("small", "large", "tuned", "plain")}
        small, large = table(spark, folders["small"], 50), table(spark, folders["large"], millions * 50)
        hand = {name: f"{folders[name]}/items" for name in ("tuned", "plain")}
        for uri in hand.values():
            shutil.copytree(large.uri, uri)
        reports: list[LoadReport] = []

        def load(loaded: Loaded, name: str, number: int) -> None:
            window, _, _ = changes(folders[name], number)
            reports.append(loaded.load(window))
            assert reports[-1].merged.updated == UPDATES and reports[-1].merged.inserted == INSERTS

        def write(spark: SparkSession, name: str, number: int) -> None:
            _, day, file = changes(folders[name], number)
            by_hand(spark, hand[name], file, day if name == "tuned" else None)

        done = iter(range(10_000))
        numbered = iter(range(10_000))
        compare(
            "load / MERGE by hand, tuned",
            lambda _: load(large, "large", next(done)),
            lambda n: write(tuned, "tuned", n),
            pairs=pairs,
        )
        compare(
            f"load into {millions} million rows / into 1 million",
            lambda _: load(large, "large", next(done)),
            lambda _: load(small, "small", next(numbered)),
            pairs=pairs,
        )
        compare(
            "load / MERGE by hand, plain",
            lambda _: load(large, "large", next(done)),
            lambda n: write(plain, "plain", n),
            pairs=pairs,
            warm_up=1,
        )
        total = sum(sum(report.seconds.values()) for report in reports)
        shares = {name: sum(r.seconds.get(name, 0) for r in reports) / total for name in reports[0].seconds}
        print("share of each phase: " + ", ".join(f"{name} {share:.0%}" for name, share in shares.items()))
    for folder in folders.values():
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(*(int(given) for given in (*sys.argv[1:], *("5", "20")[len(sys.argv) - 1 :])))
