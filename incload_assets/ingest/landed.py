"""Rows of the log validated by the present contract, as far as the log shows what their source delivered.

Of accepted rows the log has what the table's function returned, in the types of the contract of that time, and beside
it the fields that the contract did not declare. So

- a value is validated as it is stored, converted if the contract has another type now;
- a column that the contract has since is taken from the rescued fields, where its source delivers texts;
- the function is not called again, and the kind of a change stays as it is;
- the checks of protected columns were made on values that no longer exist anywhere, and are not made again.
"""

from collections.abc import Iterable

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.declaration.source import PRESENT
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.ingest.function_output import RECORD
from incload_assets.ingest.set_columns import known
from incload_assets.ingest.validate import with_reasons
from incload_assets.platform.sql import col
from incload_assets.protection.person import of_nobody
from incload_assets.protection.protect import VALIDATED
from incload_assets.sources.files.json import json_records

_ROW = "_row"


def validated_from_log(rows: DataFrame, table: Table, windows: Iterable[Window]) -> DataFrame:
    """The changes of a log as ``beside`` of :func:`.validate` takes them: with the present contract's reasons."""
    stored = {field.name: field.dataType for field in rows.schema.fields if field.name in table.columns}
    taken = _with_rescued(rows, table)
    contract, texts = table.contract, _texts(table) if PRESENT in taken.columns else {}
    rescued = known(lambda name: F.col("_raw").getField(name), texts, table)

    def of_log(name: str) -> Column:
        return F.col(_ROW).getField(name)

    def of_rescued(name: str) -> Column:
        return F.when(of_log(name).isNull(), rescued(name)) if name in stored else rescued(name)

    both = zip(contract.typed(of_log, stored), contract.typed(of_rescued, texts), contract.names, strict=True)
    values = [F.coalesce(logged, other).alias(name) for logged, other, name in both]
    other_types = {
        name: kind for name, kind in stored.items() if kind.simpleString() != table.type_of(name).simpleString()
    }
    reasons = F.concat(contract.type_reasons(of_log, other_types), contract.type_reasons(of_rescued, texts))
    nothing = F.lit(None).cast("string")
    record = F.struct(
        *(of_log(name).alias(name) for name in ("_window", "_source", "_payload", "_rescued", "_kind")),
        nothing.alias("_malformed"),
        nothing.alias("_skipped"),
        reasons.alias("_type_reasons"),
        *_set_by(rows, table, stored),
        *([_is_snapshot(rows).alias("_is_snapshot")] if table.changes.snapshot_when else []),
        F.struct(*(nothing.alias(name) for name in (*contract.protections, "_"))).alias(VALIDATED),
        of_nobody(),
    )
    return with_reasons(taken.select(*values, record.alias(RECORD)), table, windows)


def _with_rescued(rows: DataFrame, table: Table) -> DataFrame:
    """Rows as ``_row``, and their rescued fields as a source of JSON reads them, if these are what the source sent."""
    row = F.struct(*map(col, rows.columns)).alias(_ROW)
    if table.contract.protections or not table.source.is_text:
        return rows.select(row)
    return json_records(rows.select(F.col("_rescued").alias("value"), "_source", row), list(table.columns), _ROW)


def _texts(table: Table) -> dict[str, T.DataType]:
    return {name: T.StringType() for name in table.columns}


def _is_snapshot(rows: DataFrame) -> Column:
    return F.col(_ROW).getField("_is_snapshot") if "_is_snapshot" in rows.columns else F.lit(False)


def _set_by(rows: DataFrame, table: Table, stored: Iterable[str]) -> list[Column]:
    if not table.by_column:
        return []
    none = F.array().cast("array<string>")
    unset = F.coalesce(F.col(_ROW).getField("_unset"), none) if "_unset" in rows.columns else none
    if table.write.sets_named_columns:  # a change from before the contract had a column leaves it as it is
        unset = F.concat(unset, F.array(*(F.lit(name) for name in table.columns if name not in stored)).cast(
            "array<string>"
        ))  # fmt: skip
    return [F.lit(None).cast("array<string>").alias("_named"), unset.alias("_unavailable")]
