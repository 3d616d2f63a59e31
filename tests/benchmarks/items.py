"""A large table and small changes to it, made up: what both sides of a comparison start from."""

import json
import random
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from incload_assets.assets import Files, History, Merge
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.layout import bucket_sql
from incload_assets.declaration.table import Table
from incload_assets.declaration.write import BUCKET, Write
from incload_assets.load.tables import ensure_tables
from tests.support.tables import DatedItem, Loaded, make

FIRST_DAY, FIRST_WINDOW = date(2020, 1, 1), date(2023, 1, 1)
WINDOWS = dg.DailyPartitionsDefinition(str(FIRST_WINDOW))
ROWS_PER_TASK = 320_000


@dataclass(frozen=True)
class Batch:
    """The changes of one round.

    Args:
        window: The partition key that they are loaded as.
        day: Of the rows that they concern.
        file: JSON lines, with which the window begins and ends.
        keys: Of the rows that they concern.
    """

    window: str
    day: str
    file: Path
    keys: int


@dataclass(frozen=True, kw_only=True)
class Items:
    """A table as it would be after loads of a day each, log included, and how its changes look.

    Of eight changes six update a row, one updates one of these rows once more, one inserts. A history is given one
    new version of a key at a time, and instead of the second update the first one again: statements that people write
    for histories can take no more. Of a refresh, as TPC-H has it, half of the changes insert a row, half
    delete one.

    Args:
        rows: Of each day.
        days: How many.
        changes: Of a round; all are of one day.
        write: How the table is written.
        refresh: Whether changes insert and delete only.
    """

    rows: int
    changes: int
    days: int = 1
    write: Write = Merge(partition_by="day")  # noqa: RUF009 - immutable
    refresh: bool = False

    @property
    def sizes(self) -> dict[str, int]:
        """For the record of a comparison."""
        return {"rows of the table": self.rows * self.days, "partitions": self.days, "changes": self.changes}

    def table(self, spark: SparkSession, lake: Path, landing: Path) -> Loaded:
        """The table in a lake.

        Args:
            spark: A session for its loads.
            lake: Where it is.
            landing: Where its changes arrive.
        """
        source = Files(f"{landing}/{{window:%Y-%m-%d}}/*.json")
        return make(spark, lake, source=source, contract=DatedItem, write=self.write, partitions_def=WINDOWS)

    def fill(self, spark: SparkSession, lake: Path) -> Path:
        """Write table and log into an empty lake.

        Returns:
            The lake.
        """
        loaded = self.table(spark, lake, lake / "nowhere")
        context = LoadContext(spark, loaded.table, loaded.lake)
        ensure_tables(context)
        held = self._held(spark)
        self._stored(held, loaded.table).write.format("delta").mode("append").save(loaded.uri)
        told = {"_window": "CAST(day AS string)", "_kind": "'upsert'"}
        own = [field for field in context.log.schema if field.name.startswith("_")]
        columns = [f"CAST({told.get(f.name, 'NULL')} AS {f.dataType.simpleString()}) AS {f.name}" for f in own]
        held.selectExpr(*held.columns, *columns).write.format("delta").mode("append").save(context.log.uri)
        return lake

    def batch(self, landing: Path, number: int) -> Batch:
        """Write the changes of a round, newer than all before."""
        window, nth_day = FIRST_WINDOW + timedelta(days=number), number % self.days
        day, seq, eighth = FIRST_DAY + timedelta(days=nth_day), 2 + 2 * number, self.changes // 8
        place = range(nth_day * self.rows, (nth_day + 1) * self.rows)
        keys = [f"k{key:09d}" for key in random.Random(number).sample(place, self.changes - 2 * eighth)]
        again = seq if isinstance(self.write, History) else seq + 1
        new = [f"new{number}-{n}" for n in range(eighth)]
        changes = [*((key, seq, "u") for key in (*keys, *new)), *((key, again, "u") for key in keys[:eighth])]
        if self.refresh:
            keys, new = keys[: self.changes // 2], [f"new{number}-{n}" for n in range(self.changes // 2)]
            changes = [*((key, seq, "d") for key in keys), *((key, seq, "u") for key in new)]
        file = landing / f"{window}" / "changes.json"
        file.parent.mkdir(parents=True)
        with file.open("w") as out:
            for key, at, op in changes:
                row = {"id": key, "value": f"newer {at}", "seq": at, "day": f"{day}", "op": op}
                out.write(json.dumps(row) + "\n")
        return Batch(f"{window}", f"{day}", file, len(keys) + len(new))

    def _held(self, spark: SparkSession) -> DataFrame:
        """What the table holds: keys in order, day by day."""
        total = self.rows * self.days
        return spark.range(0, total, 1, max(2, total // ROWS_PER_TASK)).selectExpr(
            "format_string('k%09d', id) AS id",
            "hex(xxhash64(id)) AS value",
            "CAST(1 AS bigint) AS seq",
            f"date_add(DATE'{FIRST_DAY}', CAST(id DIV {self.rows} AS int)) AS day",
        )

    def _stored(self, held: DataFrame, table: Table) -> DataFrame:
        """The same with the columns that the way of writing adds."""
        if isinstance(self.write, History):
            own = {self.write.valid_from: "seq", self.write.valid_to: "CAST(NULL AS bigint)"}
            held = held.selectExpr("*", *(f"{sql} AS {name}" for name, sql in own.items()))
            held = held.selectExpr("*", f"true AS {self.write.is_current}")
        if bucket := bucket_sql(table):
            return held.selectExpr("*", f"{bucket} AS {BUCKET}").repartition(BUCKET)
        return held
