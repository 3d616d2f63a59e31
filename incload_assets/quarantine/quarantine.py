"""The quarantine of a table: rejected rows by reason and column, since when, how many per window, and masked samples.

Spark counts; only the counts and a few samples are fetched. A row with two reasons is counted under both. The newest
rejected rows are read without Spark.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from incload_assets.change_log.change import DELETE, REJECTED, UPSERTS
from incload_assets.change_log.decisions import discarded_rows, rejected_row_id
from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.payloads import EXPIRED
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.contract.contract import MASK
from incload_assets.declaration.table import Table
from incload_assets.platform.lake import Lake, data_files
from incload_assets.platform.lake_rows import rows_where
from incload_assets.platform.sql import all_of, col
from incload_assets.platform.wording import place_of
from incload_assets.protection.protect import MARK

SAMPLES = 3
"""Samples per reason."""
NEWEST = 10
"""Most of the newest rejected rows that are shown."""
REASONS = 50
"""Most reasons that are shown."""
_MOST_COUNTS = 100_000
"""Most counts that are fetched, one per reason and window."""
REMOVED = "its record was removed"
"""What is shown in place of a payload whose lifetime is over."""
OPEN, SUPERSEDED, DISCARDED = "open", "superseded", "discarded"
_VALUE = r"(?s)^([^:]+: )(?:'.*?'|\*\*\*) (?=\S)"
"""The value in a reason, after the column."""
_COLUMN = r"(?s)^([^:]+): "


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One rejected row: its place is a file and a row, or what the source has instead; its state as in ``Rejections``.

    In its payload personal values are masked, and values of fields outside the contract.
    """

    window: str
    place: str
    state: str
    payload: str


@dataclass(frozen=True, kw_only=True)
class RejectedRow:
    """One of the newest rejected rows; place and payload are as in a :class:`Sample`, reasons are without values."""

    window: str
    place: str
    reasons: Sequence[str]
    payload: str


@dataclass(kw_only=True)
class Rejections:
    """The rejected rows with one reason, which has no values; the column is empty if it is about the record.

    Args:
        open: Number of rows that are neither superseded nor discarded.
        superseded: Number of rows whose key has a newer good change.
        first_seen, last_seen: When the first and the last window with such a row was landed, aware.
    """

    column: str
    reason: str
    rows: int = 0
    open: int = 0
    superseded: int = 0
    discarded: int = 0
    first_seen: datetime
    last_seen: datetime
    per_window: dict[str, int] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)


def quarantine_of(
    spark: SparkSession, table: Table, lake: Lake, *, only: Collection[str] | None = None, text: str = ""
) -> list[Rejections]:
    """The rejected rows of a table or of some windows, by reason, the most frequent first; ``text`` selects reasons."""
    records = dirty_windows(table, lake, only)
    if not records:
        return []
    rows = _with_reason(rejected_rows(spark, table, lake, list(records)), text)
    states = {state: F.count(F.when(F.col("_state") == state, 1)).alias(state) for state in _STATES}
    counts = rows.groupBy("_column", "_reason", "_window").agg(F.count(F.lit(1)).alias("rows"), *states.values())
    found: dict[tuple[str, str], Rejections] = {}
    for row in counts.head(_MOST_COUNTS):
        at = records[row["_window"]].landed_at
        one = found.setdefault(
            (row["_column"], row["_reason"]),
            Rejections(column=row["_column"], reason=row["_reason"], first_seen=at, last_seen=at),
        )
        one.first_seen, one.last_seen = min(one.first_seen, at), max(one.last_seen, at)
        one.per_window[row["_window"]] = row["rows"]
        one.rows += row["rows"]
        for state in _STATES:
            setattr(one, state, getattr(one, state) + row[state])
    shown = sorted(found.values(), key=lambda one: (-one.rows, one.reason))[:REASONS]
    for row in _sampled(rows, [one.reason for one in shown]):
        sample = Sample(
            window=row["_window"],
            place=_place(row["_source"]),
            state=row["_state"],
            payload=masked_payload(table, row["_payload"]),
        )
        found[row["_column"], row["_reason"]].samples.append(sample)
    return shown


def newest_rejected(table: Table, lake: Lake, windows: Collection[str]) -> list[RejectedRow]:
    """A few rejected rows of the windows that were landed last, read without Spark."""
    dirty = dirty_windows(table, lake, windows)
    log = lake.delta(ChangeLog(table, lake).uri) if dirty else None
    if log is None:
        return []
    files, columns = data_files(log), ["_window", "_source", "_reasons", "_payload"]
    found: list[RejectedRow] = []
    for key in sorted(dirty, key=lambda key: dirty[key].landed_at, reverse=True):
        wanted, left = {"_window": [key], "_kind": [REJECTED]}, NEWEST - len(found)
        if not left:
            break
        rows = rows_where(log, wanted, columns=columns, files=files, most=left)
        found += [
            RejectedRow(
                window=key,
                place=_place(row["_source"]),
                reasons=[re.sub(_VALUE, r"\1", reason) for reason in row["_reasons"] or ()],
                payload=masked_payload(table, row["_payload"]),
            )
            for row in rows.to_pylist()
        ]
    return found


def rejected_rows(spark: SparkSession, table: Table, lake: Lake, keys: Sequence[str]) -> DataFrame:
    """The rejected rows of some windows as the log has them, with ``_id`` and ``_state``."""
    log = ChangeLog(table, lake)
    version = log.version()
    assert version is not None
    rows = log.read(spark, version, keys).filter(F.col("_kind") == REJECTED).withColumn("_id", rejected_row_id())
    gone = [(row,) for row in discarded_rows(lake, table)]
    discarded = F.lit(False)
    if gone:
        decided = F.broadcast(spark.createDataFrame(gone, "_id string").withColumn("_decided", F.lit(True)))
        rows, discarded = rows.join(decided, "_id", "left"), F.col("_decided").isNotNull()
    rows, superseded = _with_newest(table, rows, log.read(spark, version))
    state = F.when(discarded, DISCARDED).when(superseded, SUPERSEDED).otherwise(OPEN)
    return rows.withColumn("_state", state).drop("_decided", "_newest")


def masked_payload(table: Table, payload: str | None) -> str:
    """A payload with all values masked except the values of columns of the contract that are not personal."""
    if payload == EXPIRED or (payload or "").startswith(f"{EXPIRED} "):
        return REMOVED
    shown = set(table.columns) - table.contract.personal
    try:
        values = json.loads(payload or "")
    except ValueError:
        values = None
    if not isinstance(values, Mapping):
        return MASK if payload else ""
    masked = {n: value if n in shown or value is None else MASK for n, value in values.items() if n != MARK}
    return json.dumps(masked, ensure_ascii=False)


def _place(source: Any) -> str:
    return place_of(source["file"], source["block"], source["row"]) if source else ""


_STATES = (OPEN, SUPERSEDED, DISCARDED)


def dirty_windows(table: Table, lake: Lake, only: Collection[str] | None) -> dict[str, WindowRecord]:
    """The records of windows with rejected rows, by partition key; of some windows only, unless that is None."""
    records = ChangeLog(table, lake).records()
    return {key: r for key, r in records.items() if r.rejected and (only is None or key in only)}


def _with_reason(rows: DataFrame, text: str) -> DataFrame:
    """The rows once for each reason, with ``_reason`` and ``_column``."""
    kind = F.regexp_replace("_said", _VALUE, "$1")
    column = F.regexp_extract("_said", _COLUMN, 1)
    each = rows.withColumn("_said", F.explode("_reasons")).withColumns({"_reason": kind, "_column": column})
    return each.filter(F.col("_reason").contains(text)) if text else each


def _with_newest(table: Table, rows: DataFrame, log: DataFrame) -> tuple[DataFrame, Column]:
    """The rows, and whether their key has a newer good change; not if key or sequence could not be read."""
    keys, sequence = table.changes.keys, table.changes.sequence_by
    if not keys or not sequence or not table.write.ordered:
        return rows, F.lit(False)
    by = [col(name).alias(f"_key{number}") for number, name in enumerate(keys)]
    names = [f"_key{number}" for number in range(len(keys))]
    order = F.struct(*(col(name).alias(f"s{number}") for number, name in enumerate(sequence)))
    wanted = rows.select(*by).dropna().distinct()
    good = log.filter(F.col("_kind").isin(*UPSERTS, DELETE)).select(*by, order.alias("_order"))
    newest = good.join(wanted, names, "left_semi").groupBy(*names).agg(F.max("_order").alias("_newest"))
    known = rows.select("*", *by).join(newest, names, "left").drop(*names)
    return known, all_of(
        [*(col(name).isNotNull() for name in sequence), F.coalesce(F.col("_newest") > order, F.lit(False))]
    )


def _sampled(rows: DataFrame, reasons: Sequence[str]) -> Iterator[Any]:
    newest = Over.partitionBy("_column", "_reason").orderBy(
        F.desc("_state"), F.desc("_window"), "_source.file", "_source.row"
    )
    first = rows.filter(F.col("_reason").isin(*reasons)).withColumn("_number", F.row_number().over(newest))
    columns = ("_column", "_reason", "_window", "_source", "_payload", "_state", "_number")
    chosen = first.filter(F.col("_number") <= SAMPLES).select(*columns)
    yield from chosen.orderBy("_number").head(SAMPLES * REASONS)
