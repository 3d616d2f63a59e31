"""Small tables for tests of the load: what to declare, load and compare."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession

from incload_assets.assets.incremental import incremental_asset
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.declare import declare
from incload_assets.declaration.eras import Era
from incload_assets.declaration.evolution import Evolution
from incload_assets.declaration.source import Source
from incload_assets.declaration.subject import Subject
from incload_assets.declaration.table import Declaration, Quarantine, Table
from incload_assets.declaration.window import window_of
from incload_assets.declaration.write import Write
from incload_assets.load.load import LoadReport, load_window
from incload_assets.load.proven import shown_proof
from incload_assets.load.tables import ensure_tables
from incload_assets.platform.lake import Lake
from incload_assets.progress.checkpoint import Checkpoint
from incload_assets.sources.files.files import Files
from incload_assets.trial.literal_source import LiteralSource, Record
from incload_assets.writes.merge import Merge

DAYS = dg.DailyPartitionsDefinition("2026-01-01")


class Item(pa.DataFrameModel):
    """A key, a value, a sequence."""

    id: T.StringType = pa.Field(nullable=False)
    value: T.StringType = pa.Field(nullable=True)
    seq: T.LongType = pa.Field(nullable=True)


class DatedItem(Item):
    """The same with the day it belongs to."""

    day: T.DateType = pa.Field(nullable=False)


class StampedItem(Item):
    """The same with an instant."""

    at: T.TimestampType = pa.Field(nullable=False)


class GoodItem(Item):
    """An item whose value is not bad."""

    value: T.StringType = pa.Field(nullable=True, ne="bad")


def day(number: int) -> str:
    """The partition key of a day of January 2026."""
    return f"2026-01-{number:02d}"


def item(id: str | None, value: str | None, seq: int | None, op: str = "u", **more: str | None) -> Record:
    """A change as the source gives it."""
    return {"id": id, "value": value, "seq": None if seq is None else str(seq), "op": op, **more}


Info = Callable[[str], None]


def _no_info(_: str) -> None:
    pass


def checkpoint_of(report: LoadReport) -> Checkpoint:
    """The clean checkpoint of a load, with the proof in its metadata."""
    metadata = report.evidence.bins | {"rows_read": report.evidence.rows_read}
    proof = json.loads(json.dumps(shown_proof(report.evidence, report.proof)))
    return Checkpoint(report.record.fingerprint, clean=True, metadata={**metadata, "proof": proof})


@dataclass
class Loaded:
    """A table under test."""

    spark: SparkSession
    table: Table
    lake: Lake
    content: dict[str, list[Record]]

    def context(self, **of_run: Any) -> LoadContext:
        """The load context of a run."""
        return LoadContext(self.spark, self.table, self.lake, **of_run)

    def load(self, window: int | str, *, run_id: str = "", info: Info = _no_info, **options: Any) -> LoadReport:
        """Load the window of a day, or of a partition key."""
        key = window if isinstance(window, str) else day(window)
        return load_window(self.context(run_id=run_id, info=info), window_of(self.table.partitions_def, key), **options)

    def replay(self, report: LoadReport) -> LoadReport:
        """Load a window again that was checkpointed cleanly."""
        return load_window(self.context(), report.window, checkpoint=checkpoint_of(report))

    @property
    def uri(self) -> str:
        """Where the table is."""
        return self.lake.table_uri(self.table.key.path)

    def rows(self, *columns: str) -> set[tuple[Any, ...]]:
        """The whole table."""
        delta = self.lake.delta(self.uri)
        assert delta is not None
        names = list(columns or self.table.columns)
        rows = [tuple(row[n] for n in names) for row in delta.to_pyarrow_table(columns=names).to_pylist()]
        assert len(rows) == len(set(rows)), f"rows stand twice in the table: {rows}"
        return set(rows)

    def log(self, kind: str, *columns: str) -> list[tuple[Any, ...]]:
        """Rows of one kind in the log."""
        delta = self.lake.delta(self.lake.log_uri(self.table.key.path))
        assert delta is not None
        rows = delta.to_pyarrow_table(filters=[("_kind", "=", kind)], columns=list(columns)).to_pylist()
        return sorted((tuple(row[n] for n in columns) for row in rows), key=repr)

    def written_by_another(self, rows: list[tuple[Any, ...]]) -> None:
        """Append rows that are in no change log, to the table that a load would make."""
        ensure_tables(self.context())
        frame = self.spark.createDataFrame(rows, self.table.schema)
        frame.write.format("delta").mode("append").save(self.uri)

    def versions(self) -> dict[str, int]:
        """The present versions of table and log."""
        return {uri: self.lake.version(uri) or 0 for uri in (self.uri, self.lake.log_uri(self.table.key.path))}

    def restore(self, versions: dict[str, int]) -> None:
        """Restore versions that :meth:`versions` told."""
        for uri, version in versions.items():
            self.spark.sql(f"RESTORE TABLE {self.lake.sql_name(uri)} TO VERSION AS OF {version}")

    def files(self) -> set[str]:
        """The table's present data files."""
        delta = self.lake.delta(self.uri)
        assert delta is not None
        return set(delta.file_uris())


def make(
    spark: SparkSession,
    folder: Path,
    content: dict[str, list[Record]] | None = None,
    *,
    source: Source | None = None,
    contract: type = Item,
    write: Write = Merge(),  # noqa: B008 - immutable
    keys: Iterable[str] = ("id",),
    changes: Changes | None = None,
    quarantine: Quarantine = Quarantine(),  # noqa: B008 - immutable
    function: Callable[[DataFrame], DataFrame] = lambda changes: changes,
    code_version: str | None = "1",
    name: str = "items",
    partitions_def: dg.TimeWindowPartitionsDefinition = DAYS,
    log_retention: timedelta | None = None,
    evolution: Evolution = Evolution(),  # noqa: B008 - immutable
    former_partitions: Iterable[Era] = (),
    subject: Subject | None = None,
) -> Loaded:
    """Declare a table over literal content."""
    content = {} if content is None else content
    table = declare(
        Declaration(
            key=dg.AssetKey([name]),
            partitions_def=partitions_def,
            source=source or LiteralSource(content),
            contract=contract,
            changes=changes or Changes(keys=list(keys), sequence_by=["seq"], delete_when="op = 'd'"),
            write=write,
            quarantine=quarantine,
            function=function,
            code_version=code_version,
            log_retention=log_retention,
            evolution=evolution,
            former_partitions=tuple(former_partitions),
            subject=subject,
        )
    )
    return Loaded(spark, table, Lake(root=str(folder)), content)


def declared(**options: Any) -> dg.AssetsDefinition:
    """The asset of a table of items, declared as most are but for the options."""
    usual: dict[str, Any] = {
        "partitions_def": DAYS,
        "source": Files("{landing}/items/*.json"),
        "contract": DatedItem,
        "changes": Changes(keys=["id"], sequence_by=["seq"]),
    }

    def items(changes: DataFrame) -> DataFrame:
        return changes

    return incremental_asset(**usual | options)(items)


def by_hand(statement: str, *, of_log: bool = False) -> Callable[[Loaded], None]:
    """An edit of a table, or of its log, by somebody who is no load; ``{}`` stands for its name."""

    def edit(table: Loaded) -> None:
        uri = table.lake.log_uri(table.table.key.path) if of_log else table.uri
        table.spark.sql(statement.format(table.lake.sql_name(uri)))

    return edit
