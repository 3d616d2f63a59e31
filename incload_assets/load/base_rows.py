"""Base rows: the rows that a table had before it was adopted, landed in its log in chunks.

Each chunk is one fenced commit with a window record of its own, under a key outside the calendar (``base 00001``). A
base row is an upsert with the row's own values, so its age is the row's own sequence, and a fold does not distinguish
it from any other change. All chunks are of one version of the table, which the property ``incload.adopted`` of the log
names together with their number.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import DELETE, UPSERT
from incload_assets.change_log.commit import commit
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.staged import Staged
from incload_assets.change_log.window_records import BASE, WindowRecord
from incload_assets.declaration import window as windows
from incload_assets.declaration.layout import laid_out_by
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.delta.data_files import MAX_FILES, parquet_files
from incload_assets.ingest.facts import facts_of
from incload_assets.platform.errors import ConcurrentLoad
from incload_assets.platform.lake import bytes_of, data_files, rows_of
from incload_assets.platform.sql import col, content_hash_sql, union_of
from incload_assets.writes.merge import Merge

ROWS_AT_ONCE = 2_000_000
"""Most rows of a chunk, unless a single file has more."""
BYTES_AT_ONCE = 256 * 2**20
"""Most bytes of a chunk, unless a single file has more."""
BRANCHES = 16
"""Most groups of files of a chunk that are read directly: each is a branch of the query."""
_PLAIN_NAME = re.compile(r"[\w.=-]+")


@dataclass(frozen=True)
class Base:
    """The version of a table that is adopted, and the number of chunks that its rows are landed in."""

    table_id: str
    version: int
    chunks: int

    def __str__(self) -> str:
        return f"version {self.version} of {self.table_id} in {self.chunks} parts"

    @classmethod
    def parse(cls, text: str) -> "Base":
        """The base that a property names."""
        found = re.fullmatch(r"version (\d+) of (\S+) in (\d+) parts", text)
        assert found is not None, text
        return cls(found[2], int(found[1]), int(found[3]))

    @property
    def keys(self) -> list[str]:
        """The keys of all chunks."""
        return [f"{BASE}{number:05d}" for number in range(1, self.chunks + 1)]


def adoption_app_id(table: Table) -> str:
    """The identifier of the fence for the adoption of a table."""
    return f"{table.name}/adoption"


def base_window(key: str) -> Window:
    """A stand-in for the window of a chunk, which is before all windows of the calendar."""
    first = datetime.min.replace(tzinfo=UTC)
    return Window(first, first, key)


def chunks_of(table: Table, delta: DeltaTable) -> list[pa.Table]:
    """The data files of a version of a table in chunks, always the same ones; rows of one set are never divided."""
    files = data_files(delta)
    if not table.write.reads_base or not files.num_rows:
        return []
    by = [f"partition.{name}" for name in delta.metadata().partition_columns]
    sets = bool(table.write.together())
    if not _can_choose(files) or (sets and not by):
        return [files]
    text = pa.table({name: files[name].cast(pa.string()) for name in by} | {"path": files["path"]})
    numbered = text.append_column("at", pa.array(range(len(text))))
    order = numbered.sort_by([(name, "ascending") for name in [*by, "path"]])
    found: list[list[int]] = []
    rows = size = 0
    place = None
    for at, *here in zip(order["at"].to_pylist(), *(order[name].to_pylist() for name in by), strict=True):
        file = files.slice(at, 1)
        rows, size = rows + rows_of(file), size + bytes_of(file)
        # a set has the columns of the partition, so that no set is in two partitions
        if not found or ((rows > ROWS_AT_ONCE or size > BYTES_AT_ONCE) and not (sets and here == place)):
            found.append([])
            rows, size = rows_of(file), bytes_of(file)
        found[-1].append(at)
        place = here
    return [files.take(chunk) for chunk in found]


def _can_choose(files: pa.Table) -> bool:
    """True if Spark can choose files by their names."""
    names = _names(files)
    return len(set(names)) == len(names) and all(map(_PLAIN_NAME.fullmatch, names))


def _names(files: pa.Table) -> list[str]:
    return [path.rpartition("/")[2] for path in files["path"].to_pylist()]


def land(load: LoadContext, base: Base, key: str, files: pa.Table, number: int) -> WindowRecord:
    """Lands a chunk in one commit, under a number of the adoption's fence, unless another adoption is running."""
    table = load.table
    with Staged(load.log, load.spark, [key]) as staged:
        changes = _changes(load, base, _rows(load, base, files)).withColumn("_window", F.lit(key))
        staged.write(changes)
        facts = facts_of(staged.read(), table, [base_window(key)])[key]
        part = base.keys.index(key) + 1
        record = WindowRecord(
            landing=1,
            fingerprint=f"{base.table_id}@{base.version}#{part}",
            position=json.dumps({"table": load.uri, "version": base.version, "part": part, "parts": base.chunks}),
            summary=f"part {part} of {base.chunks} of version {base.version} of the table",
            code_version=table.code_version,
            run_id=load.run_id,
            landed_at=windows.now(),
            rows_read=facts.rows,
            rejected=0,
            replaced=0,
            partitions=facts.partitions,
            buckets=facts.buckets,
            first_sequence=facts.first_sequence,
        )
        note = f"adopted {key}, run {load.run_id}"
        if not commit(load, staged, {key: record}, adoption_app_id(table), number, note=note):
            raise ConcurrentLoad(
                f"{table.name}: another adoption landed rows before part {part} of {base.chunks}",
                rule="one adoption of a table runs at a time",
                remedy=f"incload adopt {table.name} when the other has ended; it goes on where that stopped",
            )
        return record


def _rows(load: LoadContext, base: Base, files: pa.Table) -> DataFrame:
    """The rows of a chunk: its files are read directly where they are plain Parquet, and else chosen by Delta."""
    table, folder = load.table, load.lake.spark_uri(load.uri)
    delta = load.lake.delta(load.uri, base.version)
    assert delta is not None
    parts = [files.slice(start, MAX_FILES) for start in range(0, files.num_rows, MAX_FILES)][: BRANCHES + 1]
    plain = [parquet_files(delta, folder, part) for part in parts]
    if len(parts) <= BRANCHES and None not in plain:
        return union_of(part.read(load.spark) for part in plain if part is not None)
    rows = load.spark.read.format("delta").option("versionAsOf", base.version).load(folder)
    if files.num_rows == data_files(delta).num_rows:
        return rows
    chosen = F.col("_metadata.file_name").isin(_names(files))
    if (place := laid_out_by(table)) is not None:  # by this predicate Delta leaves out other partitions
        values = set(files[f"partition.{place}"].cast(pa.string()).to_pylist())
        chosen &= col(place).cast("string").isin(sorted(value for value in values if value is not None))
    return rows.filter(chosen)


def _changes(load: LoadContext, base: Base, rows: DataFrame) -> DataFrame:
    """The rows as changes; a row that is marked as deleted is an upsert and a delete of the same sequence."""
    table, known = load.table, rows.columns
    none = F.lit(None)
    typed = [
        (col(field.name) if field.name in known else none).cast(field.data_type).alias(field.name)
        for field in table.contract.fields
    ]
    file, nothing = F.lit(f"{load.uri}@{base.version}").alias("file"), none.cast("long")
    source = F.struct(file, nothing.alias("block"), nothing.alias("row")).alias("_source")
    kinds = [F.lit(UPSERT)]
    if isinstance(table.write, Merge) and table.write.soft_delete is not None:
        kinds.append(F.when(col(table.write.soft_delete), F.lit(DELETE)))
    kind = F.explode(F.array_compact(F.array(*kinds))).alias("_kind")
    reasons = F.array().cast("array<string>").alias("_reasons")
    changes = rows.select(*typed, source, reasons, kind)
    return changes.withColumn("_hash", F.expr(content_hash_sql(table.columns)))


def fenced_numbers(load: LoadContext) -> Iterator[int]:
    """The next numbers of the adoption's fence."""
    number = load.lake.transaction_version(load.log.uri, adoption_app_id(load.table)) or 0
    while True:
        number += 1
        yield number
