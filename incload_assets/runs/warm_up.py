"""Warm-up of a Spark server: the load of a small throw-away table.

Most of the first load after a server's start is spent in Java, which reads and compiles some thirty thousand classes,
whatever is loaded. So a server that was started ahead of its first load runs one complete load. It runs only one,
because a second would compete with waiting loads.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T

from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.declare import declare
from incload_assets.declaration.table import Declaration, Quarantine
from incload_assets.declaration.window import window_of
from incload_assets.load.load import load_window
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.sources.files.files import Files
from incload_assets.writes.merge import Merge

_WINDOW = "2026-01-01"
_DAYS = dg.DailyPartitionsDefinition(_WINDOW)
_ROWS: list[dict[str, object]] = [
    {"id": 1, "at": "2026-01-01T10:00:00Z", "what": "new"},
    {"id": 2, "at": None, "what": "rejected"},
]


class _Thing(pa.DataFrameModel):  # type: ignore[type-arg]  # as pandera is used
    """The contract of the throw-away table."""

    id: T.LongType = pa.Field(nullable=False, gt=0)
    at: T.TimestampType = pa.Field(nullable=False)
    what: T.StringType = pa.Field(nullable=True)


def warm_up(settings: Settings) -> None:
    """Loads a small throw-away table, and removes it.

    Args:
        settings: Settings with the Spark server, which must be able to read this machine's files.

    Raises:
        SparkUnavailable: Spark cannot be reached, or is lost during the load.
    """
    settings.home_root.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="warm-up-", dir=settings.home_root) as folder, open_session(settings) as spark:
        table = declare(
            Declaration(
                key=dg.AssetKey(["warm_up"]),
                partitions_def=_DAYS,
                source=Files(f"{folder}/landing/{{window:%Y-%m-%d}}.json"),
                contract=_Thing,
                changes=Changes(keys=["id"], sequence_by=["at"], delete_when="what = 'gone'"),
                write=Merge(),
                quarantine=Quarantine(max_share=1),
                function=lambda changes: changes,
                code_version="1",
            )
        )
        file = Path(folder, "landing", f"{_WINDOW}.json")
        file.parent.mkdir()
        file.write_text("".join(json.dumps(row) + "\n" for row in _ROWS))
        load_window(LoadContext(spark, table, Lake(f"{folder}/lake")), window_of(_DAYS, _WINDOW))
