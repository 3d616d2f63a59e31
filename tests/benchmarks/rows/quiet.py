"""What nothing new costs: a load that is done again, and a look at a source that has no news."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import dagster as dg
from pyspark.sql import SparkSession

from incload_assets.assets import Files, Merge
from incload_assets.automation.window_requests import look
from incload_assets.change_log.context import LoadContext
from incload_assets.load.tables import ensure_tables
from incload_assets.progress.checkpoint import DATA_VERSION_TAG
from incload_assets.progress.progress import source_state
from incload_assets.progress.status import table_status
from tests.benchmarks.bench import Bench
from tests.benchmarks.contest import Contest
from tests.benchmarks.neighbours import multiply
from tests.benchmarks.pairs import Comparison
from tests.benchmarks.rows.small import small_items
from tests.support.tables import DatedItem, Loaded, make
from tests.support.window_records import land

FIRST = datetime(1990, 1, 1, tzinfo=UTC)
"""So long ago that many days after it are over, too: Dagster tells of no others."""


def replay(bench: Bench) -> Iterator[Comparison]:
    """The load of a window that is loaded and checkpointed already, and so that of a micro-batch with nothing new."""
    loads, versions = Contest.of(bench, small_items(bench, bench.sizes.partitions)).loads(), []
    loads.write(0)
    loads.load(0)

    def again(number: int) -> None:
        before, report = loads.reports[number], loads.table.replay(loads.reports[number])
        versions.append((before.table_version, before.log_version) == (report.table_version, report.log_version))

    yield bench.compare(
        "replay of a load, or a micro-batch with nothing new / small load",
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
        yield bench.compare(
            "tick of a sensor without news / small load",
            partial(_tick, instance, quiet, until),
            loads.load,
            prepare=loads.write,
            bound=0.3,
            sizes={"files": bench.sizes.files, "partitions": bench.sizes.windows},
        )
    assert _data_files(folder) == before, "a tick has written data"


def tables(bench: Bench) -> Iterator[Comparison]:
    """Tick and status of a table where Dagster knows of many more, and a tick where the table has many partitions."""
    sizes, spark = bench.sizes, bench.session()
    days = {"few": min(365, sizes.files), "many": sizes.files}
    others = {f"{FIRST + timedelta(days=number):%Y-%m-%d}": "1" for number in range(days["few"])}
    with ExitStack() as opened:
        ticks: dict[str, Callable[[int], object]] = {}
        states: dict[str, Callable[[int], object]] = {}
        for name, windows in (("alone", days["few"]), ("among", days["few"]), ("long", days["many"])):
            instance = opened.enter_context(dg.DagsterInstance.local_temp())
            of_one = replace(bench, sizes=replace(sizes, files=windows, windows=windows))
            until = FIRST + timedelta(days=windows)
            quiet = _loaded(of_one, spark, instance, bench.new(name), until)
            ticks[name] = partial(_tick, instance, quiet, until)
            states[name] = partial(_status, instance, quiet, until)
            if name == "among":
                _materialize(instance, dg.AssetKey("other_0"), others)
                multiply(instance, "other_0", (f"other_{other}" for other in range(1, sizes.tables)))
                known = instance.get_materialized_partitions(dg.AssetKey(f"other_{sizes.tables - 1}"))
                assert known == others.keys()
        told = {"tables": sizes.tables, "partitions of each": days["few"]}
        a, b = ticks["among"], ticks["alone"]
        yield bench.compare("tick of a sensor among many tables / of the only table", a, b, bound=1.2, sizes=told)
        a, b = states["among"], states["alone"]
        yield bench.compare("status of a table among many tables / of the only table", a, b, bound=1.2, sizes=told)
        told = {"partitions of one": days["many"], "of the other": days["few"]}
        times = days["many"] / days["few"]
        a = ticks["long"]
        yield bench.compare("tick of a table with many partitions / with few", a, b, bound=times, sizes=told)


def _tick(instance: dg.DagsterInstance, quiet: Loaded, until: datetime, _: int) -> None:
    progress, planned = look(instance, quiet.table, quiet.lake, until)
    assert not planned.asks and len(progress) == (until - FIRST).days


def _status(instance: dg.DagsterInstance, quiet: Loaded, until: datetime, _: int) -> None:
    assert len(table_status(instance, quiet.table, quiet.lake, until).loaded) == (until - FIRST).days


def _materialize(instance: dg.DagsterInstance, key: dg.AssetKey, versions: Mapping[str, str]) -> None:
    """Checkpoint partitions, without loads, at data versions."""
    for partition, version in versions.items():
        tags = {DATA_VERSION_TAG: version}
        instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=partition, tags=tags))


def _loaded(bench: Bench, spark: SparkSession, instance: dg.DagsterInstance, folder: Path, until: datetime) -> Loaded:
    """A table of many files that log and checkpoints say are loaded, without a load."""
    for number in range(bench.sizes.files):
        day = FIRST + timedelta(days=number % bench.sizes.windows)
        file = folder / "landing" / f"{day:%Y-%m-%d}" / f"{number}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"id": f"{number}", "value": "", "seq": 1, "day": f"{day:%Y-%m-%d}"}) + "\n")
    source = Files(f"{folder}/landing/{{window:%Y-%m-%d}}/*.json")
    days, write = dg.DailyPartitionsDefinition(f"{FIRST:%Y-%m-%d}"), Merge(partition_by="day")
    loaded = make(spark, folder / "lake", source=source, contract=DatedItem, write=write, partitions_def=days)
    table, context = loaded.table, LoadContext(spark, loaded.table, loaded.lake)
    ensure_tables(context)
    positions = source_state(table, loaded.lake, until).positions
    details = {key: json.dumps(position.detail) for key, position in positions.items()}
    land(context.log, {key: position.fingerprint for key, position in positions.items()}, details)
    _materialize(instance, table.key, {key: position.fingerprint for key, position in positions.items()})
    return loaded


def _data_files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.parquet"))
