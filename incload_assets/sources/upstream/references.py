"""Finds the windows that a change of a referenced table (customers, articles) does not concern.

This requires Spark, because it compares keys: the keys whose rows differ between two versions of the table, and the
keys that the rows of each window refer to. So the first load that meets such a change finds out for all windows at
once, and stores a note for each window that the change does not concern. Sensors and later loads only read the notes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyspark.sql.types as T
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window
from incload_assets.declaration.window_rules import inside_sql
from incload_assets.declaration.write import BUCKET
from incload_assets.platform.lake import Lake
from incload_assets.platform.lake_rows import rows_where
from incload_assets.platform.sql import col, row_id_sql
from incload_assets.sources.upstream.delta_files import digest
from incload_assets.sources.upstream.state import UpstreamState, UpstreamTable

_SCHEMA = pa.schema([pa.field("number", pa.int64(), nullable=False), pa.field("notes", pa.string(), nullable=False)])


@dataclass(frozen=True)
class Settled:
    """Note that a window refers to no row of a table that has changed since the window was ingested.

    ``own`` is a digest of the window's own rows, ``rows`` the table's state in the ingested position, ``files`` a
    digest of its later files that give the window the same rows, ``version`` the table's version with these files.
    """

    own: str
    rows: str
    files: str
    version: int


Notes = Mapping[tuple[str, str], Settled]
"""Notes by partition key and name of the upstream table."""


def read_notes(lake: Lake, table_name: str) -> dict[tuple[str, str], Settled]:
    """The notes that were stored last for a derived table."""
    delta = lake.delta(lake.references_uri(table_name.split("/")))
    if delta is None:
        return {}
    newest = {"number": [delta.transaction_version(_app_id(table_name)) or 0]}
    [notes] = rows_where(delta, newest)["notes"].to_pylist() or ["{}"]
    found = json.loads(notes)
    return {(key, name): Settled(*values) for key, of_window in found.items() for name, values in of_window.items()}


def write_notes(lake: Lake, table_name: str, notes: Notes) -> None:
    """Replaces the stored notes, unless another load does so at the same moment."""
    uri = lake.references_uri(table_name.split("/"))
    found: dict[str, dict[str, list[str | int]]] = {}
    for (key, name), note in notes.items():
        found.setdefault(key, {})[name] = [note.own, note.rows, note.files, note.version]
    number = (lake.transaction_version(uri, _app_id(table_name)) or 0) + 1
    row = {"number": number, "notes": json.dumps(found, sort_keys=True)}
    lake.append(uri, pa.Table.from_pylist([row], _SCHEMA), _app_id(table_name), number)


def _app_id(table_name: str) -> str:
    return f"{table_name}/references"


VERSIONS = 4
"""Largest number of versions compared with the present one; windows derived from other versions are loaded again."""

_DAY_ZERO, _ZERO = date(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Question:
    """A window that was derived from another state (``rows``) of a table; ``own`` is a digest of the window's own rows.

    ``version`` is a version of the table that gives the window the same rows as that state.
    """

    window: Window
    own: str
    rows: str
    version: int


def states_of(
    window: Window, looks: Sequence[UpstreamState], before: Position | None, notes: Notes
) -> dict[str, dict[str, Any]]:
    """The entries of all upstream tables in a window's position, by name; see :meth:`UpstreamState.state`."""
    states = {look.upstream.name: look.state(window, before) for look in looks}
    was = before.detail.get("tables", {}) if before else {}
    own = _own(looks, states)
    for name in [look.upstream.name for look in looks if look.upstream.on is not None and look.upstream.name in was]:
        state, note = states[name], notes.get((window.key, name))
        if own != _own(looks, was):  # the window is loaded again in any case, from the present table
            state["rows"] = state["files"]
        elif note and note == Settled(own, was[name]["rows"], state["files"], note.version):
            state["rows"] = note.rows
    return states


def open_questions(
    windows: Sequence[Window], looks: Sequence[UpstreamState], ingested: Mapping[str, Position], notes: Notes
) -> dict[UpstreamState, list[Question]]:
    """The windows for which only a referenced table has changed, without a note of it; by the table's state."""
    questions: dict[UpstreamState, list[Question]] = {}
    for window in windows:
        before = ingested.get(window.key)
        if before is None or not looks or not before.detail.get("rows"):
            continue
        was = before.detail["tables"]
        states = states_of(window, looks, before, notes)
        own = _own(looks, states)
        for look in looks:
            name = look.upstream.name
            if look.upstream.on is None or name not in was or own != _own(looks, was):
                continue
            then, note = was[name], notes.get((window.key, name))
            if then["id"] == look.delta.table_id and then["rows"] != states[name]["rows"]:
                known = note is not None and (note.own, note.rows) == (own, then["rows"])
                version = note.version if note is not None and known else then["version"]
                questions.setdefault(look, []).append(Question(window, own, then["rows"], version))
    return questions


def _own(looks: Sequence[UpstreamState], states: Mapping[str, Mapping[str, Any]]) -> str:
    """Digest of a window's own rows, which are the rows of the partitioned tables."""
    names = [look.upstream.name for look in looks if look.upstream.partition is not None]
    return digest(f"{name}:{states[name]['id']}:{states[name]['rows']}" for name in names if name in states)


def unconcerned(
    spark: SparkSession, lake: Lake, look: UpstreamState, looks: Sequence[UpstreamState], questions: Sequence[Question]
) -> dict[tuple[str, str], Settled]:
    """Notes for windows (oldest first) that the changes of a table do not concern; one query per version of the table.

    ``look`` is the state of the changed table, to which the rows of the partitioned tables in ``looks`` refer.
    """
    found = {}
    for version in sorted({question.version for question in questions}, reverse=True)[:VERSIONS]:
        asked = [question for question in questions if question.version == version]
        try:
            changed = changed_keys(spark, lake, look.upstream, version, look.delta.version)
            concerned = {
                key
                for other in looks
                if other.upstream.partition is not None
                for key in _concerned(spark, lake, look, other, changed, asked)
            }
        except PySparkException:  # the version is gone, so all its windows are loaded again
            continue
        for question in asked:
            if question.window.key not in concerned:
                files = look.digest(question.window)
                settled = Settled(question.own, question.rows, files, look.delta.version)
                found[question.window.key, look.upstream.name] = settled
    return found


def changed_keys(spark: SparkSession, lake: Lake, upstream: UpstreamTable, since: int, until: int) -> DataFrame:
    """The keys, as ``_key``, whose rows in a table with ``on`` differ between two versions."""
    assert upstream.on is not None
    then, now = (rows_at(spark, lake, upstream, version) for version in (since, until))
    return differing(then, now, [col(upstream.on).alias("_key")])


def differing(then: DataFrame, now: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The distinct values of some columns in rows that only one of two frames has, or has more often than the other.

    A column that only one of the frames has is NULL in the other.
    """
    # the comparison ignores NULLs, so that a new column without values changes no row
    names = sorted({*then.columns, *now.columns})
    whole = [
        rows.select(*(col(name) if name in rows.columns else F.lit(None).alias(name) for name in names))
        for rows in (then, now)
    ]
    both = [rows.select(*columns, F.expr(row_id_sql(names)).alias("_id")) for rows in whole]
    return both[0].exceptAll(both[1]).unionByName(both[1].exceptAll(both[0])).drop("_id").distinct()


def _concerned(
    spark: SparkSession,
    lake: Lake,
    look: UpstreamState,
    referring: UpstreamState,
    changed: DataFrame,
    asked: Sequence[Question],
) -> set[str]:
    """Keys of the windows whose rows in a partitioned table refer to a changed key."""
    upstream, windows = referring.upstream, [question.window for question in asked]
    assert upstream.partition is not None and upstream.kind is not None and look.upstream.on is not None
    stretch = replace(windows[0], end=windows[-1].end)
    rows = rows_in(spark, lake, upstream, stretch, referring.timezone, referring.delta.version)
    by_date = isinstance(upstream.kind, T.DateType)
    value = col(upstream.partition)
    refers = rows.select(
        (F.unix_date(value) if by_date else F.unix_micros(value)).alias("_value"),
        col(look.upstream.on).alias("_key"),
    )
    # one row per partition value; the upstream log lists at least as many values
    values = refers.join(changed, "_key", "left_semi").groupBy("_value").count().head(len(referring.values()))
    unit = timedelta(days=1) if by_date else timedelta(microseconds=1)
    found = {referring.window_of((_DAY_ZERO if by_date else _ZERO) + row["_value"] * unit) for row in values}
    return {window.key for window in found if window is not None}


def rows_at(spark: SparkSession, lake: Lake, upstream: UpstreamTable, version: int) -> DataFrame:
    """The rows of a table at a version, without the bucket column, which is not part of a row's content."""
    path = lake.spark_uri(lake.table_uri(upstream.path))
    return spark.read.format("delta").option("versionAsOf", version).load(path).drop(BUCKET)


def rows_in(
    spark: SparkSession, lake: Lake, upstream: UpstreamTable, window: Window, timezone: str, version: int
) -> DataFrame:
    """The rows of a table at a version that a window gets: the rows in it, or all if it has no partition."""
    rows = rows_at(spark, lake, upstream, version)
    if upstream.partition is None:
        return rows
    assert upstream.kind is not None
    return rows.filter(inside_sql(upstream.partition, upstream.kind, window.start, window.end, timezone))
