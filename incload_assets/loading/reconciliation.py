"""Reconciliation by state: after a merge, table and log are read again as they are now, and compared key by key."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import functions as F

from incload_assets.change_log.read_view import Snapshot
from incload_assets.loading.errors import ReconciliationFailed
from incload_assets.loading.ledger import HASHES, NUMBERS
from incload_assets.loading.plan import Plan

BINS = ("applied", "stale", "duplicate", "waiting", "removed", "quarantined", "skipped")
RARE = ("waiting", "removed", "skipped")


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
        waiting: Changes of single columns whose row the table cannot have yet, because required columns are unknown.
        removed: Changes that were overtaken, and that a compaction of the log has removed.
        skipped: Records that are no changes of this table.
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
    waiting: int = 0
    removed: int = 0
    skipped: int = 0

    @property
    def bins(self) -> dict[str, int]:
        """How many of the rows read are in which bin."""
        return {name: getattr(self, name) for name in BINS}


def examine(plan: Plan, at: Snapshot) -> dict[str, Evidence]:
    """Summarise a plan per window, in one aggregate.

    Args:
        plan: Of the table's way of writing.
        at: What it was made from.

    Returns:
        The evidence of every window of the snapshot, by partition key.
    """
    rows = (
        plan.ledger.groupBy("_window")
        .agg(
            *(F.sum(f"_{name}").alias(name) for name in NUMBERS),
            *(F.coalesce(F.bit_xor(f"_{name}"), F.lit(0)).alias(name) for name in HASHES),
        )
        .head(len(at.controls))
    )
    seen = {row["_window"]: {name: row[name] for name in (*NUMBERS, *HASHES)} for row in rows}
    nothing = dict.fromkeys((*NUMBERS, *HASHES), 0)
    return {
        window: Evidence(
            rows_read=control.rows_read,
            quarantined=control.rejected,
            removed=control.removed,
            skipped=control.skipped,
            **seen.get(window, nothing),
        )
        for window, control in at.controls.items()
    }


def unsigned(content_hash: int) -> str:
    """A 64-bit hash for people."""
    return f"{content_hash % 2**64:#018x}"


def sum_of(bins: Mapping[str, int]) -> str:
    """Bins for people; those that are rare are told of where they hold something.

    Example:
        >>> sum_of({"applied": 2, "stale": 0, "waiting": 0})
        '2 applied + 0 stale'
    """
    return " + ".join(f"{n} {name}" for name, n in bins.items() if n or name not in RARE)


def check_bins(evidence: Evidence, where: str) -> None:
    """Each row read is in exactly one bin, and both sides hash alike.

    Raises:
        ReconciliationFailed: A row was lost or counted twice.
    """
    bins = evidence.bins
    if sum(bins.values()) != evidence.rows_read or evidence.log_hash != evidence.table_hash:
        raise ReconciliationFailed(
            f"{where}: {evidence.rows_read} rows were read, but {sum_of(bins)} make {sum(bins.values())}; content hash "
            f"{evidence.log_hash} in the log, {evidence.table_hash} in the table",
            rule="each row read falls in exactly one bin",
            remedy="materialize the partition again; if it repeats, the log was changed by something else than a load",
        )
