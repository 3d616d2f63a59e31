"""What makes a table right, and what proves that it is."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def nothing_held() -> None:
    """Release nothing."""


@dataclass(frozen=True)
class MergePlan:
    """What makes the table right, and what proves that it is: both from the same query.

    Args:
        actions: One row per row of the table concerned: the columns of ``identity``; ``_row``, a struct of the table's
            columns as they should be; ``_action``: insert, update or delete (pending), or anything else for nothing to
            do; and whatever ``valid`` refers to.
        identity: Columns that tell the table's rows apart.
        valid: SQL over ``t`` (the table's row) and ``s`` (the action): whether the row is still the one planned for.
        ledger: Rows to be summed per window, made by :func:`incload_assets.writes.plan.entry`: ``_window`` string;
            numbers ``_keys``, ``_pending``, ``_applied``, ``_stale``, ``_duplicate``, ``_waiting``, ``_present``;
            ``_log_hash`` and ``_table_hash``, content hashes (bigint, NULL for none) of the changes in effect, from
            either side.
        match: SQL over ``t`` and ``s``, beside equality of ``identity``: whether the action is for the row.
        release: Lets go of what is held for the plan, which is not to be used any more then.
    """

    actions: DataFrame
    identity: tuple[str, ...]
    valid: str
    ledger: DataFrame
    match: str = "true"
    release: Callable[[], None] = nothing_held


PENDING = ("insert", "update", "delete")
"""The actions that change something."""
UNKNOWN = "unknown"
"""The action of a fast fold that cannot tell; the key is left to a full one."""


@dataclass(frozen=True)
class Merged:
    """What commits changed, in rows, as they count them.

    Args:
        inserted: Rows that came.
        updated: Rows that became other ones.
        deleted: Rows that went.
        rewrites: How many of the commits replaced a part of the table as a whole.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    rewrites: int = 0

    def __add__(self, other: "Merged") -> "Merged":
        return Merged(
            self.inserted + other.inserted,
            self.updated + other.updated,
            self.deleted + other.deleted,
            self.rewrites + other.rewrites,
        )


NUMBERS = ("keys", "pending", "applied", "stale", "duplicate", "waiting", "present")


HASHES = ("log_hash", "table_hash")


def entry(window: Column | None = None, **values: Column) -> list[Column]:
    """The columns of the ledger, as :class:`~incload_assets.writes.plan.MergePlan` describes them.

    Args:
        window: The window's key; default the column ``_window``.
        values: By name without the underscore: ``NUMBERS``, as numbers or as conditions that count one, and ``HASHES``.
            What is NULL or not given is nothing.

    Example:
        >>> len(entry(F.lit("2026-01-01"), keys=F.lit(1)))  # doctest: +SKIP
        10
    """
    assert values.keys() <= {*NUMBERS, *HASHES}, values.keys()
    zero, nothing = F.lit(0).cast("long"), F.lit(None).cast("long")
    return [
        (F.col("_window") if window is None else window).alias("_window"),
        *(F.coalesce(values.get(name, zero).cast("long"), zero).alias(f"_{name}") for name in NUMBERS),
        *(values.get(name, nothing).alias(f"_{name}") for name in HASHES),
    ]
