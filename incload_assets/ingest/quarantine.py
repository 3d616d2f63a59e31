"""The quarantine threshold: the number of rejected rows from which a load fails."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import REJECTED
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from resources.errors import ContractViolation

SHOWN_REASONS = 5


def is_tolerated(table: Table, rows: int, rejected: int) -> bool:
    """Whether the number of rejected rows is within the table's threshold."""
    limit = table.quarantine
    too_many = limit.max_rows is not None and rejected > limit.max_rows
    return not rejected or not (too_many or rejected > limit.max_share * rows)


def check_threshold(validated: DataFrame, table: Table, window: Window, rows: int, rejected: int) -> None:
    """Stops a load whose rejected rows exceed the table's threshold.

    Raises:
        ContractViolation: With the most frequent reasons, and one place for each.
    """
    if is_tolerated(table, rows, rejected):
        return
    limit = table.quarantine
    reasons = (
        validated.filter(F.col("_kind") == REJECTED)
        .select(F.element_at("_reasons", 1).alias("reason"), "_source")
        .groupBy("reason")
        .agg(F.count(F.lit(1)).alias("rows"), F.min("_source").alias("place"))
        .orderBy(F.desc("rows"), "reason")
        .head(SHOWN_REASONS)
    )
    shown = "; ".join(f"{r.rows} x {r.reason} (first in {r.place.file} row {r.place.row})" for r in reasons)
    tolerated = f"{limit.max_share:.1%}" + (f" or {limit.max_rows} rows" if limit.max_rows is not None else "")
    raise ContractViolation(
        f"{table.name} {window.key}: {rejected} of {rows} rows ({rejected / rows:.1%}) break "
        f"{table.contract.model_name}: {shown}",
        rule=f"at most {tolerated} may be rejected; nothing was applied, and the partition keeps its rows",
        remedy="correct the file, the contract or Quarantine(max_share=...), and materialize the partition again",
    )
