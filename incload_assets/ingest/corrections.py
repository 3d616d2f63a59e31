"""Corrections: people's decisions that rejected rows are right as they are, or have other values.

They are a step between extraction and validation, wherever rows are judged: at a load, a replay, a preview, and a
comparison with the source. So a corrected row stays as decided when its window is loaded again, as long as the source
has the same record.
"""

from collections.abc import Iterable, Sequence

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.decisions import CORRECTIONS, Decision, decisions_in_force, rejected_row_id
from incload_assets.declaration.source import PRESENT
from incload_assets.declaration.table import Table
from incload_assets.platform.lake import Lake

CORRECTED = "_corrected"
"""The column that tells whether a record was fixed or accepted; only where some may be."""
ACCEPTED = "_accepted"
"""The column that tells whether a record may break checks of the contract."""
_VALUES = "_values"
_ROW = "_row_id"
_TYPE = f"{_ROW} string, {_VALUES} map<string,string>, {ACCEPTED} boolean"


def corrections_of(lake: Lake, table: Table, keys: Iterable[str]) -> list[Decision]:
    """The fixes and acceptances in force in some windows, oldest first."""
    return decisions_in_force(lake, table, CORRECTIONS, only=set(keys))


def corrected(extracted: DataFrame, corrections: Sequence[Decision]) -> DataFrame:
    """The records with their corrections.

    Args:
        extracted: Records as a source's ``extract`` returns them, and ``_window``.
        corrections: The corrections of their windows, oldest first; of one field the last one counts.

    Returns:
        The records; with corrections also ``_corrected`` and ``_accepted``.
    """
    if not corrections:
        return extracted
    values: dict[str, dict[str, str | None]] = {}
    accepted = {decision.row for decision in corrections if decision.kind == "accept"}
    for decision in corrections:
        values.setdefault(decision.row, {}).update(decision.values)
    rows = [(row, fixed, row in accepted) for row, fixed in values.items()]
    decided = F.broadcast(extracted.sparkSession.createDataFrame(rows, _TYPE))
    found = extracted.withColumn(_ROW, rejected_row_id()).join(decided, _ROW, "left")
    found = found.withColumns(
        {CORRECTED: F.col(ACCEPTED).isNotNull(), ACCEPTED: F.coalesce(F.col(ACCEPTED), F.lit(False))}
    )
    names = sorted({name for fixed in values.values() for name in fixed})
    raw_type = extracted.schema["_raw"].dataType
    assert isinstance(raw_type, T.StructType)
    raw = F.col("_raw")
    for name in names:
        raw = raw.withField("`" + name.replace("`", "``") + "`", _fixed(name, raw_type))
    found = found.withColumn("_raw", raw)
    if PRESENT in extracted.columns:
        present = F.array_union(F.col(PRESENT), F.coalesce(F.map_keys(_VALUES), F.array().cast("array<string>")))
        found = found.withColumn(PRESENT, present)
    return found.drop(_ROW, _VALUES)


def _fixed(name: str, raw_type: T.StructType) -> Column:
    is_fixed = F.coalesce(F.map_contains_key(_VALUES, name), F.lit(False))
    value = F.col(_VALUES).getItem(name)
    if name not in raw_type.names:
        return F.when(is_fixed, value)
    return F.when(is_fixed, value.cast(raw_type[name].dataType)).otherwise(F.col("_raw").getField(name))
