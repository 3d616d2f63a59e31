"""Reconciliation by state: after a merge, table and log are read again as they are now, and compared key by key."""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.loading.change_log import Control
from incload_assets.loading.errors import ReconciliationFailed
from incload_assets.loading.folding import PENDING


@dataclass(frozen=True)
class Evidence:
    """What a reconciliation saw. Each row read falls in exactly one bin.

    Args:
        rows_read: Records the landing read.
        applied: Changes that are in effect in the table (or, for deletes, absent from it).
        stale: Changes that something newer has overtaken.
        duplicate: Repetitions of a change within the window.
        quarantined: Records that broke the contract.
        keys: Keys the window concerns.
        pending: Keys where table and log differ; 0 means reconciled.
        present: Keys whose newest change of the window is the table's row.
        log_hash: Combined content hash of those changes, from the log.
        table_hash: The same from the table.
    """

    rows_read: int
    applied: int
    stale: int
    duplicate: int
    quarantined: int
    keys: int
    pending: int
    present: int
    log_hash: int
    table_hash: int


def examine(plan: DataFrame, control: Control) -> Evidence:
    """Summarise a plan in one aggregate.

    Args:
        plan: From :func:`~incload_assets.loading.folding.fold_plan`.
        control: The window's control row in the same version of the log.
    """
    in_effect = F.col("_action") == "same"
    has_change = F.col("_mine_order").isNotNull()
    is_present = in_effect & F.col("_seen").isNotNull()
    row = plan.agg(
        F.count(F.lit(1)).alias("keys"),
        F.count(F.when(F.col("_action").isin(*PENDING), 1)).alias("pending"),
        F.count(F.when(has_change & in_effect, 1)).alias("applied"),
        F.count(F.when(has_change & ~in_effect, 1)).alias("beaten"),
        F.coalesce(F.sum(F.when(has_change, F.col("_distinct") - 1)), F.lit(0)).alias("superseded"),
        F.coalesce(F.sum(F.when(has_change, F.col("_rows") - F.col("_distinct"))), F.lit(0)).alias("duplicate"),
        F.count(F.when(is_present, 1)).alias("present"),
        F.coalesce(F.bit_xor(F.when(is_present, F.col("_mine_order").getField("hash"))), F.lit(0)).alias("log_hash"),
        F.coalesce(F.bit_xor(F.when(is_present, F.col("_seen").getField("hash"))), F.lit(0)).alias("table_hash"),
    ).first()
    assert row is not None
    return Evidence(
        rows_read=control.rows_read,
        applied=row.applied,
        stale=row.beaten + row.superseded,
        duplicate=row.duplicate,
        quarantined=control.rejected,
        keys=row["keys"],
        pending=row.pending,
        present=row.present,
        log_hash=row.log_hash,
        table_hash=row.table_hash,
    )


def check_bins(evidence: Evidence, where: str) -> None:
    """Each row read is in exactly one bin, and both sides hash alike.

    Raises:
        ReconciliationFailed: A row was lost or counted twice.
    """
    bins = evidence.applied + evidence.stale + evidence.duplicate + evidence.quarantined
    if bins != evidence.rows_read or evidence.log_hash != evidence.table_hash:
        raise ReconciliationFailed(
            f"{where}: {evidence.rows_read} rows were read, but {evidence.applied} applied + {evidence.stale} stale + "
            f"{evidence.duplicate} duplicate + {evidence.quarantined} quarantined make {bins}; content hash "
            f"{evidence.log_hash} in the log, {evidence.table_hash} in the table",
            rule="each row read falls in exactly one bin",
            remedy="materialize the partition again; if it repeats, the log was changed by something else than a load",
        )
