"""Columns filled from rescued fields, which the log keeps beside a row as a JSON object (``_rescued``).

Once the contract declares a column with the name of such a field, its values are converted, checked and counted as a
landing would do it. Of accepted rows the log has what the table's function returned, and not the record. So rows are
filled only if the function returns them as they are, with the new values, too, see :func:`changed_by_function`.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import DELETE, REJECTED, TRUNCATE, UPSERT, UPSERTS, sets
from incload_assets.contract.contract import MASK, Contract, not_null, unless_said
from incload_assets.contract.conversion import NESTED, as_text
from incload_assets.declaration.source import PRESENT
from incload_assets.declaration.table import Table
from incload_assets.ingest.function_output import RECORD, check_output, returns_its_rows
from incload_assets.ingest.set_columns import known
from incload_assets.ingest.validate import rescued_with
from incload_assets.platform.sql import col, content_hash_sql
from incload_assets.sources.files.json import json_records

_ROW, _NEW, _TYPES, _VALIDATING = "_row", "_new", "_type_reasons", "_validating"


@dataclass(frozen=True)
class Rescued:
    """Declared columns (in order) with rescued values in a window's rows, and whether a fill would change a row."""

    columns: tuple[str, ...]
    due: bool


def rescued_in(former: DataFrame, table: Table, *, validated: bool) -> Rescued:
    """The rescued values of declared columns in the log's rows of a window, found in one query.

    ``validated``: the present code has validated the rejected rows among them already.
    """
    names = [name for name in table.columns if name not in table.identity]
    rows = _taken(former.filter(is_fillable(table) & F.col("_rescued").isNotNull()), table, names)
    made, kind = F.col(_NEW), F.col(_ROW).getField("_kind")
    is_due = F.lit(not validated) | (kind != REJECTED)
    flags = []
    for name in names:
        of_delete = kind.isin(DELETE, TRUNCATE) & made.getField(name).isNull()  # keeps its value, see filled()
        flags += [F.max(_takes(name)), F.max(_takes(name) & is_due & ~of_delete)]
    found = rows.agg(*(flag.alias(f"_{number}") for number, flag in enumerate(flags))).head()
    values = [bool(value) for value in found] if found is not None else [False] * len(flags)
    columns = tuple(name for name, is_taken in zip(names, values[::2], strict=True) if is_taken)
    return Rescued(columns, any(values[1::2]))


def is_fillable(table: Table) -> Column:
    """True if a row has no record that could be validated again: it is accepted, or a fill has rejected it."""
    good = F.col("_kind").isin(*UPSERTS, DELETE, TRUNCATE)
    return F.col("_payload").isNull() & (good | _was_accepted(table))


def _was_accepted(table: Table) -> Column:
    """True if a rejected row without a record was accepted once: then each of its reasons is that of a column."""
    groups = [[name] for name in table.columns] + [list(table.contract.unique), list(table.write.together())]
    beginnings = [f"{', '.join(names)}: " for names in groups if names]

    def names_a_column(reason: Column) -> Column:
        found: Column = F.array_contains(F.array(*(reason.startswith(text) for text in beginnings)), True)
        return found

    of_columns = (F.size("_reasons") > 0) & F.forall("_reasons", names_a_column)
    return F.coalesce((F.col("_kind") == REJECTED) & of_columns, F.lit(False))


def filled(rows: DataFrame, table: Table, names: Sequence[str]) -> DataFrame:
    """Rows of the log (if :func:`is_fillable`) with columns filled from rescued fields, validated by the contract.

    A row whose value cannot become the declared type, or breaks a check, is rejected, with ``_reasons``; it keeps its
    rescued fields, and can be filled again when the contract fits. A delete keeps a value that does not fit among its
    rescued fields. Window records are left out.
    """
    part, types = _part_of(table.contract, names), _texts(names)
    row, kind = F.col(_ROW), F.col(_ROW).getField("_kind")
    fits = F.size(_TYPES) == 0
    values = {
        name: F.when(_takes(name), F.col(_NEW).getField(name)).otherwise(row.getField(name)).alias(name)
        for name in names
    }
    left = rescued_with(part.undeclared(known(_given, types, table), types))
    validating = F.struct(
        F.col(_TYPES).alias("of_types"),
        (kind == REJECTED).alias("was_rejected"),
        kind.isin(*UPSERTS, REJECTED).alias("is_upsert"),
        row.getField("_rescued").alias("rescued"),
    )
    out = _taken(rows, table, names).select(
        *(values.get(name, row.getField(name).alias(name)) for name in table.columns),
        F.when(kind == REJECTED, UPSERT).otherwise(kind).alias("_kind"),
        *(row.getField(name).alias(name) for name in ("_window", "_source", "_payload")),
        F.when(fits & ~_keeps(names), left).otherwise(row.getField("_rescued")).alias("_rescued"),
        *([_still_unset(row.getField("_unset"), table, names).alias("_unset")] if table.by_column else []),
        *([row.getField("_is_snapshot").alias("_is_snapshot")] if table.changes.snapshot_when else []),
        validating.alias(_VALIDATING),
    )
    validating, given = F.col(_VALIDATING), sets if table.by_column else None
    of_rules = F.when(validating.getField("was_rejected"), table.contract.reasons(given=given)).otherwise(
        part.reasons(given=given)
    )
    of_types = validating.getField("of_types")
    reasons = F.array_distinct(F.concat(of_types, unless_said(of_types, of_rules)))
    none = F.array().cast("array<string>")
    out = out.withColumn("_reasons", F.when(validating.getField("is_upsert"), reasons).otherwise(none))
    rescued = F.when(F.size("_reasons") > 0, validating.getField("rescued")).otherwise(F.col("_rescued"))
    return out.withColumns({"_rescued": rescued, "_hash": F.expr(content_hash_sql(table.columns))}).drop(_VALIDATING)


def changed_by_function(rows: DataFrame, table: Table, names: Sequence[str]) -> list[str]:
    """The columns to which the table's function gives other values than rows have once ``names`` are filled.

    If there are none, the function passes the new columns on, and makes nothing else of them or of what it made before.
    """
    if returns_its_rows(table.function):
        return []
    typed = filled(rows.filter(F.col("_rescued").isNotNull()), table, names)
    nothing = [F.lit(None).cast("string").alias(name) for name in table.control_fields]
    given = F.struct(*map(col, table.columns)).alias(RECORD)
    out = table.function(typed.select(*map(col, table.columns), *nothing, given))
    check_output(out, table)
    differs = []
    for number, name in enumerate(table.columns):
        made, given = _plain(col(name), table, name), _plain(F.col(RECORD).getField(name), table, name)
        differs.append(F.max(~made.eqNullSafe(given)).alias(f"_{number}"))
    found = out.agg(*differs).head()
    return [] if found is None else [name for name, flag in zip(table.columns, found, strict=True) if flag]


def _plain(value: Column, table: Table, name: str) -> Column:
    return as_text(value, kind) if isinstance(kind := table.type_of(name), NESTED) else value


def _part_of(contract: Contract, names: Collection[str]) -> Contract:
    return replace(contract, fields=tuple(field for field in contract.fields if field.name in names))


def _taken(rows: DataFrame, table: Table, names: Sequence[str]) -> DataFrame:
    """Rows as ``_row``; rescued fields of some names as ``_raw``, their values as ``_new``, others as ``_rescued``."""
    part, types = _part_of(table.contract, names), _texts(names)
    row = F.struct(*map(col, rows.columns)).alias(_ROW)
    records = json_records(rows.select(F.col("_rescued").alias("value"), "_source", row), list(names), _ROW)
    raw = known(_given, types, table)

    def taken(name: str) -> Column:
        return F.when(_takes(name), raw(name))

    made = [value.alias(name) for value, name in zip(part.typed(raw, types), part.names, strict=True)]
    records = records.withColumn(_NEW, F.struct(*made))
    return records.withColumn(_TYPES, part.type_reasons(taken, types, lambda name: F.col(_NEW).getField(name)))


def _texts(names: Iterable[str]) -> dict[str, T.DataType]:
    return {name: T.StringType() for name in names}


def _given(name: str) -> Column:
    return F.col("_raw").getField(name)


def _is_there(name: str) -> Column:
    return F.coalesce(F.array_contains(F.col(PRESENT), name), F.lit(False))


def _takes(name: str) -> Column:
    """True if a rescued field gives the row's column a value, or sets it to NULL; a masked value is none."""
    return _is_there(name) & F.col(_ROW).getField(name).isNull() & ~_given(name).eqNullSafe(F.lit(MASK))


def _keeps(names: Sequence[str]) -> Column:
    """True if a row has a rescued field of these names that it does not take."""
    return F.array_contains(F.array(*(_is_there(name) & ~_takes(name) for name in names)), True)


def _still_unset(unset: Column, table: Table, names: Sequence[str]) -> Column:
    """The columns that a change leaves unset, without those that its rescued fields set."""
    marker = table.changes.unavailable

    def is_set(name: str) -> Column:
        return _takes(name) if marker is None else _takes(name) & ~_given(name).eqNullSafe(F.lit(marker))

    were = F.coalesce(unset, F.array().cast("array<string>"))
    left = F.array_except(were, not_null(*(F.when(is_set(name), F.lit(name)) for name in names)))
    if table.write.sets_named_columns:
        return left
    # a whole row sets every column, unless some value in it was unavailable
    others = F.array_except(left, F.array(*map(F.lit, names)))
    return F.when(F.size(others) > 0, left).otherwise(others)
