"""Discards of rejected rows: they stay in the log, and are no longer open."""

from collections.abc import Collection

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.log import ChangeLog
from incload_assets.declaration.table import Table
from incload_assets.monitoring.rows.quarantine import DISCARDED, rejected_rows
from incload_assets.progress.audit import AuditEntry, record
from incload_assets.progress.decisions import discard_rows, discarded_rows, undo_discard
from resources.errors import IncrementalLoadError
from resources.lake import Lake

MOST = 100_000
"""Most rows that are discarded at once."""


def discard_where(
    spark: SparkSession,
    table: Table,
    lake: Lake,
    because: str,
    *,
    only: Collection[str] | None = None,
    text: str = "",
) -> tuple[AuditEntry | None, int]:
    """Discards rejected rows that are not discarded yet.

    Args:
        spark: The session.
        table: The declaration.
        lake: The lake.
        because: Why.
        only: Partition keys; None: all windows.
        text: Only rows with a reason that contains this.

    Returns:
        The audit's entry, None if no row matches, and the number of rows.

    Raises:
        IncrementalLoadError: There are too many rows.
    """
    records = {k: r for k, r in ChangeLog(table, lake).controls().items() if r.rejected and (only is None or k in only)}
    if not records:
        return None, 0
    rows = rejected_rows(spark, table, lake, list(records)).filter(F.col("_state") != DISCARDED)
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
    partitions = sorted({window for window, _ in found})
    details = {"rows": str(len(found)), **({"reason": text} if text else {})}
    entry = record(
        lake, AuditEntry(action="discard", table=table.name, partitions=partitions, because=because, details=details)
    )
    discard_rows(lake, table, found, {key: r.fingerprint for key, r in records.items()}, entry.number)
    return entry, len(found)


def take_back(table: Table, lake: Lake, number: int, because: str) -> int:
    """Undoes a discard; returns the number of rows that are open again.

    Args:
        table: The declaration.
        lake: The lake.
        number: The number of the discard in the audit.
        because: Why.

    Raises:
        IncrementalLoadError: No discard of the table has this number, or it was undone before.
    """
    rows = [row for row in discarded_rows(lake, table).values() if row.audit == number]
    if not rows:
        raise IncrementalLoadError(
            f"{table.name}: no discard in force has the number {number}",
            rule="a discard is undone once, by its number in the audit",
            remedy=f"see the numbers: incload audit {table.name}",
        )
    partitions = sorted({row.window for row in rows})
    details = {"rows": str(len(rows)), "undoes": str(number)}
    entry = record(
        lake, AuditEntry(action="undo", table=table.name, partitions=partitions, because=because, details=details)
    )
    undo_discard(lake, table, number, entry.number)
    return len(rows)
