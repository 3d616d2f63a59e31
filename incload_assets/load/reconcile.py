"""Reconciliation: after a merge, the latest versions of table and log are read and compared key by key."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.platform.errors import ReconciliationFailed
from incload_assets.platform.sql import col
from incload_assets.writes.plan import HASHES, NUMBERS, MergePlan

BINS = ("applied", "stale", "duplicate", "waiting", "removed", "quarantined", "skipped", "erased")
RARE = ("waiting", "removed", "skipped", "erased")


@dataclass(frozen=True)
class Evidence:
    """The result of a reconciliation. Each row read falls in exactly one bin, see ``BINS``.

    Args:
        applied: Changes in effect: upserts present in the table, and deletes whose row is absent.
        stale: Changes superseded by a newer one.
        duplicate: Repetitions of a change within the window.
        pending: Keys that differ between table and log; 0 means reconciled.
        present: Keys whose newest change in the window is the table's row; the content hashes are of these rows.
        waiting: Changes of single columns whose row is not in the table yet, because required columns are missing.
        removed: Superseded changes that a compaction of the log has removed.
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
    erased: int = 0

    @property
    def bins(self) -> dict[str, int]:
        """The number of rows read per bin."""
        return {name: getattr(self, name) for name in BINS}


def examine(plan: MergePlan, at: ReadView) -> dict[str, Evidence]:
    """The evidence of every window of a plan's read view, by partition key, in one aggregate."""
    rows = (
        plan.ledger.groupBy("_window")
        .agg(
            *(F.sum(f"_{name}").alias(name) for name in NUMBERS),
            *(F.coalesce(F.bit_xor(f"_{name}"), F.lit(0)).alias(name) for name in HASHES),
        )
        .head(len(at.records))
    )
    seen = {row["_window"]: {name: row[name] for name in (*NUMBERS, *HASHES)} for row in rows}
    nothing = dict.fromkeys((*NUMBERS, *HASHES), 0)
    return {
        window: Evidence(
            rows_read=record.rows_read,
            quarantined=record.rejected,
            removed=record.removed,
            skipped=record.skipped,
            erased=record.erased,
            **seen.get(window, nothing),
        )
        for window, record in at.records.items()
    }


def carried_on(proven: Evidence, before: Evidence, now: Evidence) -> Evidence:
    """The evidence of a window whose proof holds but for some keys, from what they were in it and what they are now."""
    numbers = {n: getattr(proven, n) - getattr(before, n) + getattr(now, n) for n in NUMBERS}
    hashes = {n: getattr(proven, n) ^ getattr(before, n) ^ getattr(now, n) for n in HASHES}
    return replace(now, **numbers, **hashes)


def adds_up(evidence: Evidence) -> bool:
    """True if each row read is in exactly one bin, and log and table have the same content hash."""
    return sum(evidence.bins.values()) == evidence.rows_read and evidence.log_hash == evidence.table_hash


def unsigned(content_hash: int) -> str:
    """A 64-bit hash as text for messages."""
    return f"{content_hash % 2**64:#018x}"


def signed(text: str) -> int:
    """The 64-bit hash that a text of :func:`unsigned` stands for."""
    number = int(text, 16)
    return number - 2**64 if number >= 2**63 else number


def sum_of(bins: Mapping[str, int]) -> str:
    """Bins as text for messages; rare bins are omitted if they are empty."""
    return " + ".join(f"{n} {name}" for name, n in bins.items() if n or name not in RARE)


def check_bins(evidence: Evidence, where: str) -> None:
    """Checks that each row read is in exactly one bin, and that log and table have the same content hash."""
    bins = evidence.bins
    if not adds_up(evidence):
        raise ReconciliationFailed(
            f"{where}: {evidence.rows_read} rows were read, but {sum_of(bins)} make {sum(bins.values())}; content hash "
            f"{evidence.log_hash} in the log, {evidence.table_hash} in the table",
            rule="each row read falls in exactly one bin",
            remedy="materialize the partition again; if this repeats, something other than a load has changed the log",
        )


_AMBIGUOUS = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"


@contextmanager
def duplicate_keys_named(load: LoadContext, where: str) -> Iterator[None]:
    """Turns errors of the block into one that names the duplicate keys of the table, if there are any.

    No load makes a duplicate key, so another writer must have written to the table. A load does not search for them in
    advance, which would cost a scan of the whole table. It searches only after sums that do not add up, or a MERGE that
    Delta rejects as ambiguous.
    """
    try:
        yield
    except (ReconciliationFailed, PySparkException) as error:
        if isinstance(error, ReconciliationFailed) or _AMBIGUOUS in str(error):
            _check_copies(load, where, error)
        raise


def _check_copies(load: LoadContext, where: str, cause: Exception) -> None:
    keys, condition = load.table.write.unique_rows(load.table.changes)
    if not keys:
        return
    rows = load.spark.read.format("delta").load(load.lake.spark_uri(load.uri))
    groups = (rows.filter(condition) if condition else rows).groupBy(*map(col, keys)).count().filter("count > 1")
    shown = [F.lit("***") if name in load.table.contract.personal else col(name).cast("string") for name in keys]
    found = groups.agg(F.count(F.lit(1)).alias("keys"), F.min(F.concat_ws(", ", *shown)).alias("example")).first()
    if found is None or not found["keys"]:
        return
    raise ReconciliationFailed(
        f"{where}: the table has several rows of a key, for example of {', '.join(keys)} {found['example']!r}; "
        f"such keys: {found['keys']:,}",
        rule="a key has one row; loads never insert a second one, so another writer has written to the table",
        remedy="delete all rows of these keys, then materialize again every partition that has changes of them",
    ) from cause
