"""Tables of a lake that an earlier version of this package wrote; ``former_lake.zip`` holds the lake and its files.

The lake was written by commit 85027f0 with these declarations (and the imports of that commit), window after window.
"""

from collections.abc import Callable
from datetime import datetime

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.assets import Changes, Files, History, Merge, Quarantine, Snapshot, incremental_asset
from incload_assets.assets.incremental import table_of
from incload_assets.declaration.table import Table
from incload_assets.declaration.write import Write

DAYS = dg.DailyPartitionsDefinition("2026-01-01")
FORMER_DAYS = ("2026-01-01", "2026-01-02")
"""The windows that the lake holds."""
STRATEGIES: dict[str, Callable[[], Write]] = {
    "partitioned": lambda: Merge(partition_by="day"),
    "bucketed": lambda: Merge(buckets=4),
    "history": lambda: History(track=["value"]),
    "snapshot": lambda: Snapshot(),
}


class Item(pa.DataFrameModel):
    """An item as last changed."""

    id: T.StringType = pa.Field(nullable=False)
    value: T.StringType = pa.Field(nullable=True)
    seq: T.LongType = pa.Field(nullable=False)
    at: T.TimestampType = pa.Field(nullable=True)
    day: T.DateType = pa.Field(nullable=False)


def former_table(name: str) -> Table:
    """The declaration of one of the tables."""
    write = STRATEGIES[name]()

    @incremental_asset(
        name=name,
        partitions_def=DAYS,
        source=Files("{landing}/" + name + "/{window:%Y-%m-%d}/*.json"),
        contract=Item,
        changes=Changes(
            keys=["id"], sequence_by=["seq"], delete_when="op = 'd'" if not isinstance(write, Snapshot) else None
        ),
        write=write,
        quarantine=Quarantine(max_share=0.5),
    )
    def items(changes: DataFrame) -> DataFrame:
        return changes

    table = table_of(items)
    assert table is not None
    return table


def row(id: str, value: str | None, seq: int, op: str = "u") -> dict[str, object]:
    """A record of a file."""
    at = datetime(2026, 1, 1, 12, 0, 0, 123456).isoformat() + "Z"
    return {"id": id, "value": value, "seq": seq, "at": at, "day": "2026-01-01", "op": op}


FILES = {
    "2026-01-01": [row("a", "first", 1), row("b", "first", 1), row("c", None, 1), row("", "", 2) | {"seq": "bad"}],
    "2026-01-02": [row("a", "second", 2), row("b", None, 3, "d"), row("d", "new", 2)],
}
"""The records of each window's file."""
