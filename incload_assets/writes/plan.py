"""The merge plan: the actions that correct a table, and the ledger that proves it correct."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.delta.counts import Counts


def nothing_held() -> None:
    """The release of a plan that caches nothing."""


@dataclass(frozen=True)
class MergePlan:
    """The actions that correct a table, and the ledger that proves it correct, both from the same query.

    Args:
        actions: One row for each affected row of the table: the columns of ``identity``; ``_row``, a struct of the
            table's columns with their correct values; ``_action``: insert, update or delete (pending), or any other
            word if there is nothing to do; and whatever ``valid`` refers to.
        valid: SQL over ``t`` (the table's row) and ``s`` (the action): whether the row is still the one planned for.
        ledger: Rows to be summed per window, made by :func:`incload_assets.writes.plan.entry`: ``_window`` string; the
            ``NUMBERS``; and the ``HASHES``, of the content of the changes in effect (bigint, NULL for none).
        match: SQL over ``t`` and ``s`` in addition to equality of ``identity``: whether the action is for the row.
        release: Releases what is cached for the plan, which must not be used afterwards.
    """

    actions: DataFrame
    identity: tuple[str, ...]
    valid: str
    ledger: DataFrame
    match: str = "true"
    release: Callable[[], None] = nothing_held


PENDING = ("insert", "update", "delete")
"""The actions that change the table."""
UNKNOWN = "unknown"
"""The action of an incremental fold for a key that needs a full fold."""


@dataclass(frozen=True)
class Merged(Counts):
    """Row counts of commits, by Delta's metrics; ``rewrites`` counts commits that replaced a part as a whole."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    rewrites: int = 0


NUMBERS = ("keys", "pending", "applied", "stale", "duplicate", "waiting", "present")
HASHES = ("log_hash", "table_hash")


def entry(window: Column | None = None, **values: Column) -> list[Column]:
    """The columns of the ledger, see :class:`~incload_assets.writes.plan.MergePlan`, from names without underscore.

    ``NUMBERS`` are numbers, or conditions that count one; NULL or missing, they count zero. A missing hash is NULL.
    """
    assert values.keys() <= {*NUMBERS, *HASHES}, values.keys()
    zero, nothing = F.lit(0).cast("long"), F.lit(None).cast("long")
    return [
        (F.col("_window") if window is None else window).alias("_window"),
        *(F.coalesce(values.get(name, zero).cast("long"), zero).alias(f"_{name}") for name in NUMBERS),
        *(values.get(name, nothing).alias(f"_{name}") for name in HASHES),
    ]
