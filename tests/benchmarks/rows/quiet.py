"""What nothing new costs: a load that is done again, and a look at a source that has no news."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.automation.source_sensor import look
from incload_assets.loading import Files, Merge
from incload_assets.loading.checkpoint import DATA_VERSION_TAG
from incload_assets.loading.columns import CONTROL
from incload_assets.loading.context import Context
from incload_assets.loading.control_rows import Control
from incload_assets.loading.load import ensure_tables
from incload_assets.operations.progress import source_state
from tests.benchmarks.bench import Bench
from tests.benchmarks.contest import Contest
from tests.benchmarks.pairs import Comparison
from tests.benchmarks.rows.small import small_items
from tests.loading.tables import DatedItem, Loaded, make

FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def replay(bench: Bench) -> Iterator[Comparison]:
    """The load of a window that is loaded and checkpointed already."""
    loads, versions = Contest.of(bench, small_items(bench, bench.sizes.partitions)).loads(), []
    loads.write(0)
    loads.load(0)

    def again(number: int) -> None:
        before, report = loads.reports[number], loads.table.replay(loads.reports[number])
        versions.append((before.table_version, before.log_version) == (report.table_version, report.log_version))

    yield bench.compare(
        "replay of a load / small load",
        again,
        lambda n: loads.load(n + 1),
        prepare=lambda n: loads.write(n + 1),
        bound=0.3,
        sizes=loads.items.sizes,
    )
    assert all(versions), "a replay has committed something"


def sensor(bench: Bench) -> Iterator[Comparison]:
    """A tick of a table's sensor over many files, all of them loaded."""
    loads = Contest.of(bench, small_items(bench, bench.sizes.partitions)).loads()
    until = FIRST + timedelta(days=bench.sizes.windows)
    folder = bench.new("many")
    with dg.DagsterInstance.local_temp() as instance:
        quiet = _loaded(bench, loads.table.spark, instance, folder, until)
        before = _data_files(folder)

        def tick(_: int) -> None:
            progress, planned = look(instance, quiet.table, quiet.lake, until)
            assert not planned.asks and len(progress) == bench.sizes.windows

        yield bench.compare(
            "tick of a sensor without news / small load",
            tick,
            loads.load,
            prepare=loads.write,
            bound=0.3,
            sizes={"files": bench.sizes.files, "partitions": bench.sizes.windows},
        )
    assert _data_files(folder) == before, "a tick has written data"


def _loaded(bench: Bench, spark: SparkSession, instance: dg.DagsterInstance, folder: Path, until: datetime) -> Loaded:
    """A table of many files that log and checkpoints say are loaded, without a load."""
    for number in range(bench.sizes.files):
        day = FIRST + timedelta(days=number % bench.sizes.windows)
        file = folder / "landing" / f"{day:%Y-%m-%d}" / f"{number}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"id": f"{number}", "value": "", "seq": 1, "day": f"{day:%Y-%m-%d}"}) + "\n")
    source = Files(f"{folder}/landing/{{window:%Y-%m-%d}}/*.json")
    loaded = make(spark, folder / "lake", source=source, contract=DatedItem, write=Merge(partition_by="day"))
    table, context = loaded.table, Context(spark, loaded.table, loaded.lake)
    ensure_tables(context)
    positions = source_state(table, loaded.lake, until).positions
    controls = {
        key: Control(
            landing=1, fingerprint=position.fingerprint, position=json.dumps(position.detail), summary="", run_id="",
            code_version=table.code_version, landed_at=until, rows_read=1, rejected=0, replaced=0,
        )
        for key, position in positions.items()
    }  # fmt: skip
    rows = context.log.control_frame(spark, controls).withColumn("_kind", F.lit(CONTROL))
    rows.write.format("delta").mode("append").save(context.log.uri)
    for key, position in positions.items():
        tags = {DATA_VERSION_TAG: position.fingerprint}
        instance.report_runless_asset_event(dg.AssetMaterialization(table.key, partition=key, tags=tags))
    return loaded


def _data_files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.parquet"))
