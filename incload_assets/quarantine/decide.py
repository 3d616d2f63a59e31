"""Decisions about rejected rows: each is validated by its effect first, then written into the audit, then recorded."""

from collections.abc import Callable, Collection, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.change import DELETE, REJECTED, TRUNCATE, UPSERTS
from incload_assets.change_log.decisions import (
    Decision,
    Kind,
    accepted_rows,
    decide,
    decisions_in_force,
    undo_decision,
)
from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.payloads import EXPIRED, is_expired
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.table import Table
from incload_assets.ingest.gains import validates_each_alone
from incload_assets.ingest.validate import validate
from incload_assets.load.replay import refuse_unreplayable
from incload_assets.load.validatable import records_of_payloads
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.platform.lake_rows import rows_where
from incload_assets.progress.audit import AuditEntry, record
from incload_assets.quarantine.quarantine import DISCARDED, dirty_windows, rejected_rows

MOST = 100_000
"""Most rows that are decided about at once."""
SHOWN = 3
"""Rows whose reasons are shown in an error."""


def decide_where(
    spark: SparkSession,
    table: Table,
    lake: Lake,
    kind: Kind,
    because: str,
    *,
    only: Collection[str] | None = None,
    text: str = "",
    actor: str = "",
    confirmed: Callable[[Sequence[Decision]], None] = lambda _: None,
) -> tuple[AuditEntry | None, int]:
    """Discards rejected rows, or accepts them although they break checks; the audit's entry, and their number.

    Types, columns that must have a value, unique values and partitions are not waived: the table could not hold such a
    row. A replay of their windows brings accepted rows into the table.

    Args:
        text: Only rows with a reason that contains this.
        actor: Who does it; by default the user of this process.
        confirmed: Hears the decisions before they are recorded; none is if it raises an error.

    Raises:
        IncrementalLoadError: Too many rows, or rows that cannot be accepted; nothing is recorded then.
    """
    if kind == "accept":
        refuse_unreplayable(table)
    records = dirty_windows(table, lake, only)
    if not records:
        return None, 0
    rows = _open_rows(spark, table, lake, records)
    if text:
        rows = rows.filter(F.array_join("_reasons", "\n").contains(text))
    found = [(row["_window"], row["_id"]) for row in rows.select("_window", "_id").head(MOST + 1)]
    if len(found) > MOST:
        raise IncrementalLoadError(
            f"{table.name}: more than {MOST} rejected rows match",
            rule="a decision is recorded row by row",
            remedy="narrow it with --partitions or --reason; if all of a column's rows are right, change the contract",
        )
    if not found:
        return None, 0
    decisions = [
        Decision(kind=kind, window=window, fingerprint=records[window].fingerprint, row=row) for window, row in found
    ]
    if kind == "accept":
        _expect_good(spark, table, lake, rows, decisions)
    confirmed(decisions)
    details = {"rows": str(len(found)), **({"reason": text} if text else {})}
    return _recorded(table, lake, decisions, because, actor, details), len(found)


def take_back(table: Table, lake: Lake, kind: Kind, number: int, because: str, *, actor: str = "") -> AuditEntry:
    """Undoes the decision with a number in the audit. After an acceptance, a replay validates the rows as they came.

    Raises:
        IncrementalLoadError: No such decision is in force, or the rows no longer keep their records.
    """
    rows = [decision for decision in decisions_in_force(lake, table, [kind]) if decision.audit == number]
    if not rows:
        raise IncrementalLoadError(
            f"{table.name}: no {kind} in force has the number {number}",
            rule=f"a {kind} is undone once, by its number in the audit",
            remedy=f"see the numbers: incload audit {table.name}",
        )
    partitions = sorted({row.window for row in rows})
    if kind != "discard" and (expired := _expired(table, lake, rows)):
        raise IncrementalLoadError(
            f"{table.name}: the records of {expired} of {len(rows)} rows were removed after "
            f"{table.quarantine_retention}",
            rule="an acceptance is undone by validating the rows as they came, and their records are kept for "
            "quarantine_retention",
            remedy="correct the rows at the source, and load their partitions: "
            f"incload load {table.name} --partitions KEYS",
        )
    details = {"rows": str(len(rows)), "undoes": str(number)}
    entry = AuditEntry(
        action="undo", table=table.name, partitions=partitions, actor=actor, because=because, details=details
    )
    entry = record(lake, entry)
    undo_decision(lake, table, number, entry.number)
    return entry


def _recorded(
    table: Table, lake: Lake, decisions: Sequence[Decision], because: str, actor: str, details: Mapping[str, str]
) -> AuditEntry:
    """Records decisions of one kind, in the audit first; returns its entry."""
    entry = AuditEntry(
        action=decisions[0].kind,
        table=table.name,
        partitions=sorted({decision.window for decision in decisions}),
        actor=actor,
        because=because,
        details=details,
    )
    entry = record(lake, entry)
    decide(lake, table, decisions, entry.number)
    return entry


def _open_rows(spark: SparkSession, table: Table, lake: Lake, records: Mapping[str, WindowRecord]) -> DataFrame:
    return rejected_rows(spark, table, lake, list(records)).filter(F.col("_state") != DISCARDED)


def _expect_good(spark: SparkSession, table: Table, lake: Lake, rows: DataFrame, decisions: Sequence[Decision]) -> None:
    """Refuses to accept rows that would still be rejected, or with which others would collide."""
    keys = sorted({decision.window for decision in decisions})
    _refuse_expired(table, rows, decisions)
    records = records_of_payloads(rows, table)
    log, beside = ChangeLog(table, lake), None
    if not validates_each_alone(table) and (version := log.version()) is not None:
        beside = log.read(spark, version, keys).filter(F.col("_kind").isin(*UPSERTS, DELETE, TRUNCATE))
    validated = validate(
        records,
        table,
        [table.window_of(key) for key in keys],
        beside=beside,
        accepted={*accepted_rows(lake, table, keys), *(decision.row for decision in decisions)},
    )
    bad = validated.filter(F.col("_kind") == REJECTED).select("_reasons").head(SHOWN)
    if bad or records.count() != len(decisions):
        reasons = "; ".join(", ".join(row["_reasons"]) for row in bad) or "a record cannot be parsed"
        raise IncrementalLoadError(
            f"{table.name}: of {len(decisions)} rows some would be rejected: {reasons}",
            rule="an accepted row is one that the table can hold; only checks of values can be waived",
            remedy="have the others corrected at the source, or narrow --reason and --partitions; nothing was recorded",
        )


def _expired(table: Table, lake: Lake, decisions: Sequence[Decision]) -> int:
    """How many of the decisions are about rows whose records were removed."""
    delta = lake.delta(ChangeLog(table, lake).uri)
    if delta is None:
        return 0
    keys, texts = [one.window for one in decisions], [f"{EXPIRED} {one.row}" for one in decisions]
    return len(rows_where(delta, {"_window": keys, "_payload": texts}, columns=["_window"]))


def _refuse_expired(table: Table, rows: DataFrame, decisions: Sequence[Decision]) -> None:
    """Refuses to accept rows whose records were removed at the end of their lifetime."""
    if expired := rows.filter(is_expired()).count():
        raise IncrementalLoadError(
            f"{table.name}: the records of {expired} of {len(decisions)} rows were removed after "
            f"{table.quarantine_retention}",
            rule="a row is accepted by its record, and rejected rows keep it for quarantine_retention",
            remedy="load the partition from its source, or narrow --reason and --partitions; nothing was recorded",
        )
