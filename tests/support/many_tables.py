"""A project of many tables with many loaded partitions each, made without a load: one table is made, others are copies.

All tables read the same files and have the same rows: their folders in the lake have Delta logs of their own, and links
to the data files of the first. Dagster's history is copied within its SQLite files. Checks, sensors and ``_loads`` have
results, too. A thousand tables with a year of days take about a minute.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyspark.sql.types as T
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyspark.sql.pandas.types import to_arrow_schema

from incload_assets.assets.incremental import table_of
from incload_assets.change_log.commit import commit
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.staged import FOLDER, Staged, StagedFile
from incload_assets.change_log.window_records import MANY
from incload_assets.checks.registry import check_names
from incload_assets.cli.support.scaffold import make_project
from incload_assets.contract.adaptation import Stored
from incload_assets.declaration.contract_of import stored_as
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.history.collect import identity_of
from incload_assets.ingest.facts import Facts
from incload_assets.ingest.ingest import window_record_of
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.load.tables import log_stored_as
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import current_settings
from incload_assets.progress.checkpoint import DATA_VERSION_TAG
from incload_assets.progress.lake_identity import adopt_lake
from incload_assets.progress.progress import source_state, windows_to_look_at
from incload_assets.writes.merge_into import INGESTION_SHIFT, app_id
from tests.support.load_history import evaluated, give, load, seen, tick

FIRST = "t0000"
"""The table that is made; names of all tables are equally long."""
LATER_COMMITS = 5
"""The commits of each table since its last checkpoint."""

_MODULE = '''"""Rows of {name}."""

from datetime import timedelta

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.assets import Changes, Files, Freshness, Merge, incremental_asset


class Row(pa.DataFrameModel):
    """A row of {name}."""

    id: T.LongType = pa.Field(nullable=False)
    name: T.StringType = pa.Field(nullable=True, metadata={{"personal": True}})
    state: T.StringType = pa.Field(nullable=True, isin=["new", "paid", "sent"])
    amount: T.DecimalType = pa.Field(nullable=False, gt=0, dtype_kwargs={{"precision": 12, "scale": 2}})
    place: T.StringType = pa.Field(nullable=True)
    at: T.TimestampType = pa.Field(nullable=False)
    seq: T.LongType = pa.Field(nullable=False)
    day: T.DateType = pa.Field(nullable=False)


@incremental_asset(
    partitions_def=dg.{definition},
    source=Files("{{landing}}/rows/{{window:{folder}}}.json"),
    contract=Row,
    changes=Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'"),
    write=Merge(partition_by="day"),
    freshness=Freshness(within=timedelta(hours=6)),
    group_name="group_{group}",
    code_version="1",
)
def {name}(changes: DataFrame) -> DataFrame:
    """One row per key, as last changed."""
    return changes
'''


@dataclass(frozen=True)
class ManyTables:
    """A project of many tables.

    Args:
        root: The project's folder; its name is that of its package.
        names: Of the tables.
        at: When it was made; all windows until then are loaded.
        hourly: Whether the partitions are hours, not days.
    """

    root: Path
    names: Sequence[str]
    partitions: int
    at: datetime
    hourly: bool = False

    @property
    def lake(self) -> Lake:
        """The lake of the project."""
        return Lake(str(self.root / ".incload" / "lake"), "")

    @property
    def home(self) -> Path:
        """The folder of Dagster's instance."""
        return self.root / ".dagster_home"

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which processes find the project."""
        landing = str(self.root / ".incload" / "landing")
        return {
            "DAGSTER_HOME": str(self.home),
            "INCLOAD_HOME": str(self.root / ".incload"),
            "INCLOAD_LAKE": self.lake.root,
            "INCLOAD_LANDING": landing,
        }

    @contextmanager
    def entered(self) -> Iterator[dg.DagsterInstance]:
        """The environment of the project in this process, and its Dagster instance."""
        environment = mock.patch.dict(os.environ, self.environment)
        with environment, dg.DagsterInstance.from_config(str(self.home)) as instance:
            yield instance

    def tables(self) -> dict[str, Table]:
        """The tables by name, as the project declares them."""
        return {name: self._declared(name) for name in self.names}

    def module(self, name: str) -> str:
        """The text of the module that declares a table."""
        length = timedelta(hours=1) if self.hourly else timedelta(days=1)
        start = self.at.replace(minute=0, second=0, microsecond=0, hour=self.at.hour if self.hourly else 0)
        first = start - self.partitions * length
        kind, fmt = ("Hourly", "%Y-%m-%d-%H:%M") if self.hourly else ("Daily", "%Y-%m-%d")
        definition = f'{kind}PartitionsDefinition("{first:{fmt}}")'
        folder = "%Y-%m-%d/%H" if self.hourly else "%Y-%m-%d"
        return _MODULE.format(name=name, definition=definition, folder=folder, group=int(name[1:]) % 20)

    def _declared(self, name: str) -> Table:
        found: dict[str, Any] = {"__name__": f"made.{name}"}
        exec(self.module(name), found)
        table = table_of(found[name])
        assert table is not None
        return table


def many_tables(root: Path, count: int, partitions: int, *, hourly: bool = False) -> ManyTables:
    """A project whose tables have loaded all windows that are over.

    Args:
        root: The project's folder, new; its name is that of a package.
        count: The number of tables.
        partitions: Of each.
        hourly: Whether the partitions are hours, not days.
    """
    names = [f"t{number:04d}" for number in range(count)]
    made = ManyTables(root, names, partitions, datetime.now(UTC), hourly)
    make_project(root, sample=False)
    for name in names:
        (root / root.name / "tables" / f"{name}.py").write_text(made.module(name))
    with made.entered() as instance:
        _made_first(made, instance)
    _copy_delta(made)
    with made.entered() as instance:
        _recall_records(made)
        tables = made.tables()
        adopt_lake(instance, tables.values(), made.lake)
        for table in tables.values():
            windows = {"loaded": partitions, "missing": 0, "failed": 0, "drifted": 0, "in_progress": 0, "waiting": 0}
            tick(instance, table, seen(made.at, windows=windows, rows=partitions, last_load=made.at.isoformat()))
        event, first = latest_event(instance), tables[FIRST]
        rows = [
            load(
                first, window.start, identity_of(instance), event=event, window=window.key, window_end=window.end,
                due_at=window.end + first.due_after, ended_at=window.end + timedelta(minutes=1),
            )
            for window in windows_to_look_at(first, made.at)
        ]  # fmt: skip
        give(made.lake, rows, names)
    return made


def _made_first(made: ManyTables, instance: dg.DagsterInstance) -> None:
    """The first table: its source, Delta tables and Dagster's events."""
    table, lake = made._declared(FIRST), made.lake
    lake.identity(create=True)
    landing = made.root / ".incload" / "landing"
    keys = table.partitions_def.get_partition_keys(current_time=made.at)
    windows = table.known_windows(keys)
    assert len(windows) == made.partitions
    for window in windows:
        write_row(landing, window, hourly=made.hourly)
    context, log = LoadContext(None, table, lake), ChangeLog(table, lake)  # type: ignore[arg-type]  # no Spark is needed
    began = windows[0].start
    _create(log.uri, log_stored_as(log), began)
    positions = source_state(table, lake, made.at).positions
    staged = Staged(log, None, [w.key for w in windows])  # type: ignore[arg-type]
    folder = f"{FOLDER}/{uuid4().hex}"
    Path(log.uri, folder).mkdir(parents=True)
    columns = [column for column in log.validated if column not in ("_window", "_kind")]
    one = pa.Table.from_pylist([{"id": 1, "seq": 1}], pa.schema([("id", pa.int64()), ("seq", pa.int64())]))
    assert {"id", "seq"} < {*columns}
    for number, window in enumerate(windows):
        path = f"{folder}/{number}.parquet"
        pq.write_table(one, Path(log.uri, path))
        size = Path(log.uri, path).stat().st_size
        staged.files.append(StagedFile(path, size, window.key, "upsert", 1, '{"numRecords":1}'))
    records = {
        w.key: window_record_of(
            context,
            Ingestion(w, positions[w.key], None, 0, False),
            Facts(rows=1, partitions=[f"{w.start:%Y-%m-%d}"], first_sequence="1"),
            1,
        )
        for w in windows
    }
    assert commit(context, staged, records, "made up", 1, note="made up", keep=False)
    _create(context.uri, stored_as(table), began)
    _add_rows(table, lake, context.uri)
    for uri, fence, number in (
        (log.uri, lambda window: f"{app_id(table, window)}/landing", 1),
        (context.uri, lambda window: app_id(table, window), (1 << INGESTION_SHIFT) + 1),
    ):
        txns = [{"txn": {"appId": fence(w), "version": number}} for w in windows]
        _write_commit(uri, txns[:-LATER_COMMITS], made.at)
        DeltaTable(uri).create_checkpoint()
        for txn in txns[-LATER_COMMITS:]:
            _write_commit(uri, [txn], made.at)
    fingerprints = {key: position.fingerprint for key, position in positions.items()}
    _materialize(instance, table, keys[0], fingerprints[keys[0]], DeltaTable(context.uri).version())
    _give_windows(made.home, made.names, fingerprints)
    instance.get_status_by_partition(table.key, keys, table.partitions_def)  # which Dagster remembers
    for _ in range(3):
        for check in check_names(table):
            evaluated(instance, table, check)
    _give_results(made.home, made.names)


def write_row(landing: Path, window: Window, *, hourly: bool, number: int = 1) -> None:
    """Writes the file of a window, with one row whose key is a number."""
    file = landing / "rows" / (f"{window.start:%Y-%m-%d/%H}.json" if hourly else f"{window.key}.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    at, day = window.start.isoformat(), f"{window.start:%Y-%m-%d}"
    file.write_text(json.dumps({"id": number, "amount": "1.00", "at": at, "seq": 1, "day": day}) + "\n")


def _materialize(instance: dg.DagsterInstance, table: Table, key: str, fingerprint: str, version: int) -> None:
    """A checkpoint with some of the numbers that a load leaves."""
    numbers = {"rows_read": 1, "bytes": 1000, "delta_version": version, "log_version": version}
    told = dg.AssetMaterialization(table.key, partition=key, tags={DATA_VERSION_TAG: fingerprint}, metadata=numbers)
    instance.report_runless_asset_event(told)


def latest_event(instance: dg.DagsterInstance) -> int:
    """The number of the newest event that Dagster has of any asset."""
    return instance.event_log_storage.get_maximum_record_id() or 0


def _create(uri: str, stored: Stored, at: datetime) -> None:
    """An empty Delta table, as Spark creates it."""
    metadata = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": stored.columns.json(),
        "partitionColumns": list(stored.partitioned_by),
        "configuration": dict(stored.properties),
        "createdTime": round(at.timestamp() * 1000),
    }
    Path(uri, "_delta_log").mkdir(parents=True)
    _write_commit(uri, [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}], at)


def _write_commit(uri: str, actions: Sequence[Mapping[str, Any]], at: datetime) -> None:
    """The next commit of a local Delta table."""
    folder = Path(uri, "_delta_log")
    version = sum(file.suffix == ".json" for file in folder.iterdir())
    info = {"commitInfo": {"timestamp": round(at.timestamp() * 1000), "operation": "MERGE", "operationParameters": {}}}
    lines = "".join(json.dumps(action) + "\n" for action in (info, *actions))
    (folder / f"{version:020d}.json").write_text(lines)


def _add_rows(table: Table, lake: Lake, uri: str) -> None:
    """A file with a row in each day of a table."""
    names = [
        field for field in to_arrow_schema(T.StructType(table.schema.fields), timezone="UTC") if field.name != "day"
    ]
    one = pa.schema(names).empty_table()
    Path(uri, "rows").mkdir()
    days = sorted({f"{w.start:%Y-%m-%d}" for w in table.known_windows(table.partitions_def.get_partition_keys())})
    added = []
    for number, day in enumerate(days):
        file = Path(uri, "rows", f"{number}.parquet")
        pq.write_table(one, file)
        stats = '{"numRecords":1}'
        added.append(AddAction(f"rows/{number}.parquet", file.stat().st_size, {"day": day}, 0, True, stats))
    lake.commit(DeltaTable(uri), added, "made up", 1)


def _copy_delta(made: ManyTables) -> None:
    """The other tables: Delta logs with their names in the fences, and links to the files of the first table."""
    lake = made.lake
    for uri_of, folder in ((lake.table_uri, "rows"), (lake.log_uri, FOLDER)):
        first = Path(uri_of([FIRST]))
        files = {file.name: file.read_bytes() for file in (first / "_delta_log").iterdir()}
        checkpoints = {name: pq.read_table(first / "_delta_log" / name) for name in files if name.endswith(".parquet")}
        for name in made.names[1:]:
            place = Path(uri_of([name]))
            (place / "_delta_log").mkdir(parents=True)
            (place / folder).symlink_to(first / folder)
            for file, content in files.items():
                if file in checkpoints:
                    pq.write_table(_renamed(checkpoints[file], name), place / "_delta_log" / file)
                else:
                    (place / "_delta_log" / file).write_bytes(content.replace(FIRST.encode(), name.encode()))


def _recall_records(made: ManyTables) -> None:
    """The window records as processes on this machine remember them once a sensor has looked at all tables."""
    if len(ChangeLog(made._declared(FIRST), made.lake).records()) < MANY:
        return
    with closing(sqlite3.connect(current_settings().home_root / "window_records.sqlite")) as db, db:
        db.execute("CREATE TEMP TABLE copies (name TEXT)")
        db.executemany("INSERT INTO copies VALUES (?)", [(name,) for name in made.names[1:]])
        db.execute(
            f"INSERT INTO remembered SELECT replace(r.name, '/{FIRST}/', '/' || c.name || '/'), r.state, r.value "
            "FROM remembered AS r, copies AS c"
        )


def _renamed(checkpoint: pa.Table, name: str) -> pa.Table:
    """A checkpoint with another table's name in its fences."""
    column = checkpoint["txn"].combine_chunks()
    parts = [column.field(n) for n in range(column.type.num_fields)]
    place = column.type.get_field_index("appId")
    parts[place] = pc.replace_substring(parts[place], FIRST, name)
    renamed = pa.StructArray.from_arrays(parts, fields=list(column.type), mask=column.is_null())
    return checkpoint.set_column(checkpoint.schema.get_field_index("txn"), "txn", renamed)


def _give_windows(home: Path, names: Sequence[str], fingerprints: Mapping[str, str]) -> None:
    """Makes the only materialization that an instance on SQLite has one of many: of each window, of each table.

    They are in the order of time, so that those of a table are far apart, as they are where all tables load each day.
    """
    first, count = next(iter(fingerprints.items())), len(names)
    newest = 1 + (len(fingerprints) - 1) * count
    with _history(home, names) as db:
        db.execute("CREATE TEMP TABLE windows (w INTEGER PRIMARY KEY, window TEXT, position TEXT)")
        db.executemany(
            "INSERT INTO windows VALUES (?, ?, ?)", [(w, *each) for w, each in enumerate(fingerprints.items())]
        )

        def of_window(text: str) -> str:
            return f"replace(replace({text}, '{first[0]}', window), '{first[1]}', position)"

        def of_both(text: str) -> str:
            return of_window(f"replace({text}, '{FIRST}', name)")

        nth, others = f"1 + w * {count} + n", "copies CROSS JOIN windows WHERE w + n > 0 ORDER BY w, n"
        changed = {column: of_both(column) for column in ("event", "asset_key")}
        _insert(db, "event_logs", {**changed, "id": nth, "partition": "window"}, others)
        changed = {column: of_both(column) for column in ("asset_key", "value")}
        _insert(db, "asset_event_tags", {**changed, "id": "NULL", "event_id": nth}, others)
        told = f"replace({of_window('last_materialization')}, '\"storage_id\": 1', '\"storage_id\": {newest}')"
        db.execute(
            f"UPDATE asset_keys SET last_materialization = {told} FROM windows WHERE w = ?", [len(fingerprints) - 1]
        )


def _give_results(home: Path, names: Sequence[str]) -> None:
    """Gives tables the check results and the status of the partitions that their first table has on SQLite."""
    count = len(names)
    with _history(home, names) as db:
        [newest] = db.execute(
            "SELECT max(event_id) FROM asset_event_tags WHERE asset_key = ?", [f'["{FIRST}"]']
        ).fetchone()
        [last] = db.execute("SELECT max(id) FROM event_logs").fetchone()

        def renamed(column: str) -> str:
            return f"replace({column}, '{FIRST}', name)"

        def moved(column: str) -> str:
            return f"{last} + {column} * {count} + n"

        def numbered(column: str) -> str:
            return f"replace({renamed(column)}, 'storage_id\": {newest}', 'storage_id\": ' || ({newest} + n))"

        of_checks, others = "AND dagster_event_type = 'ASSET_CHECK_EVALUATION'", "copies WHERE n > 0"
        events = {"id": moved("id"), "event": renamed("event"), "asset_key": renamed("asset_key")}
        _insert(db, "event_logs", events, f"{others} {of_checks} ORDER BY id, n")
        names_of = {"id": "NULL", "asset_key": renamed("asset_key")}
        result = {
            "evaluation_event": renamed("evaluation_event"),
            "evaluation_event_storage_id": moved("evaluation_event_storage_id"),
        }
        _insert(db, "asset_check_executions", names_of | result, f"{others} ORDER BY asset_check_executions.id, n")
        status = {column: numbered(column) for column in ("last_materialization", "cached_status_data")}
        _insert(db, "asset_keys", names_of | status, others)


@contextmanager
def _history(home: Path, names: Sequence[str]) -> Iterator[sqlite3.Connection]:
    """A connection to the events of an instance, with the tables' names and numbers in ``copies``."""
    with closing(sqlite3.connect(home / "history" / "runs" / "index.db")) as db, db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("CREATE TEMP TABLE copies (n INTEGER PRIMARY KEY, name TEXT)")
        db.executemany("INSERT INTO copies VALUES (?, ?)", list(enumerate(names)))
        yield db


def _insert(db: sqlite3.Connection, table: str, changed: Mapping[str, str], others: str) -> None:
    """Inserts copies of rows with changed columns."""
    columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    values = ", ".join(changed.get(column, f"{table}.{column}") for column in columns)
    db.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} CROSS JOIN {others}")
