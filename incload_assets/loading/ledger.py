"""The ledger of a plan: rows that are summed per window, and tell how its changes count."""

from pyspark.sql import Column
from pyspark.sql import functions as F

NUMBERS = ("keys", "pending", "applied", "stale", "duplicate", "waiting", "present")
HASHES = ("log_hash", "table_hash")


def entry(window: Column | None = None, **values: Column) -> list[Column]:
    """The columns of the ledger, as :class:`~incload_assets.loading.plan.Plan` describes them.

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
