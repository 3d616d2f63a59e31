"""The limits that stop a load although its source can be read: too many rejected rows, undeclared fields."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import REJECTED
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.platform.errors import ContractViolation
from incload_assets.platform.wording import place_of, several

SHOWN_REASONS = 5
SHOWN_FIELDS = 10


def is_tolerated(table: Table, rows: int, rejected: int) -> bool:
    """True if the number of rejected rows is within the table's threshold."""
    limit = table.quarantine
    too_many = limit.max_rows is not None and rejected > limit.max_rows
    return not rejected or not (too_many or rejected > limit.max_share * rows)


def is_nothing_else(rows: int, rejected: int) -> bool:
    """True if a window has rejected rows only, so that its source may hold other records than the declaration says."""
    return rejected == rows > 0


def check_threshold(validated: DataFrame, table: Table, window: Window, rows: int, rejected: int) -> None:
    """Stops a load whose rejected rows exceed the table's threshold, with the most frequent reasons.

    Raises SourceUnreadable, whatever the threshold, if the source holds other records than declared.
    """
    is_fine = is_tolerated(table, rows, rejected)
    if is_fine and not is_nothing_else(rows, rejected):
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
    most = reasons[0]
    table.source.check_rejected(
        table.name, window, most.reason, most.rows, (most.place.file or "", most.place.row or 0)
    )  # fmt: skip
    if is_fine:
        return
    shown = "; ".join(f"{r.rows} x {r.reason} (first in {place_of(*r.place)})" for r in reasons)
    tolerated = f"{limit.max_share:.1%}" + (
        f" or {several(limit.max_rows, 'row')}" if limit.max_rows is not None else ""
    )
    raise ContractViolation(
        f"{table.name} {window.key}: {rejected} of {several(rows, 'row')} ({rejected / rows:.1%}) break "
        f"{table.contract.model_name}: {shown}",
        rule=f"at most {tolerated} may be rejected; nothing was applied, and the partition keeps its rows",
        remedy="correct the source or the contract, or declare quarantine=Quarantine(max_share=...) of "
        "incload_assets.assets; then load the partition again",
    )


def check_unknown_fields(validated: DataFrame, table: Table) -> None:
    """Stops a load of records with fields outside the contract; for tables with ``Evolution(unknown="stop")``."""
    names = F.explode(F.map_keys(F.from_json("_rescued", "map<string,string>")))
    fields = validated.filter(F.col("_rescued").isNotNull()).select("_window", names.alias("name"))
    if table.evolution.ignore:
        fields = fields.filter(~F.col("name").rlike(table.evolution.ignored))
    found = (
        fields.groupBy("name")
        .agg(F.count(F.lit(1)).alias("rows"), F.min("_window").alias("window"))
        .orderBy(F.desc("rows"), "name")
        .head(SHOWN_FIELDS)
    )
    if not found:
        return
    shown = "; ".join(f"{row['name']!r} in {several(row['rows'], 'row')} (first in {row['window']})" for row in found)
    raise ContractViolation(
        f"{table.name}: the source has fields that {table.contract.model_name} does not declare: {shown}",
        rule='evolution=Evolution(unknown="stop"): no row with an undeclared field is loaded; nothing was applied',
        remedy="add the fields to the contract, have the source leave them out, name them in Evolution(ignore=[...]), "
        'or declare unknown="rescue", which keeps them beside the rows',
    )
