"""Validation: turns extracted records into typed rows, each with the reasons why it is not accepted."""

from collections.abc import Collection, Iterable, Mapping
from functools import partial

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import (
    DELETE,
    MOVED,
    SKIPPED,
    TRUNCATE,
    UPSERT,
    UPSERTS,
    sets,
)
from incload_assets.contract.contract import MASK, Contract, not_null, quoted, unless_said
from incload_assets.contract.conversion import as_text
from incload_assets.contract.protection import UNENCRYPTED, Encrypted
from incload_assets.declaration import source as base
from incload_assets.declaration.layout import misplaced
from incload_assets.declaration.operations import KINDS, Operations
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window as LoadWindow
from incload_assets.ingest.accepted import ACCEPTED, marked_accepted
from incload_assets.ingest.compared import compared
from incload_assets.ingest.erased import KNOWN_ERASED, binned
from incload_assets.ingest.function_output import RECORD, check_output
from incload_assets.ingest.set_columns import Raw, known, set_by_record, unset
from incload_assets.platform.sql import all_of, col, content_hash_sql
from incload_assets.protection.erasures import NOBODY, DenyList
from incload_assets.protection.person import OF_PERSON, of_nobody
from incload_assets.protection.protect import VALIDATED, names_alone, protected


def validate(
    extracted: DataFrame,
    table: Table,
    windows: Iterable[LoadWindow],
    *,
    places: bool = True,
    beside: DataFrame | None = None,
    accepted: Collection[str] = (),
    deny: DenyList = NOBODY,
) -> DataFrame:
    """Types the records, applies the table's function, and validates the rows by the contract.

    Args:
        extracted: Records as a source's ``extract`` returns them, and ``_window``, the partition key of each row.
        places: Whether to search for keys in two partitions; not needed if the caller has excluded them.
        beside: Accepted rows of the log that are in the windows, too, and may collide with the records.
        accepted: The identifiers of rows of the windows that people accepted.

    Returns:
        One row per record, and per row of ``beside``: the table's columns, ``_kind`` (upsert, moved, delete, truncate,
        rejected, skipped or erased), ``_hash`` of the content, ``_window``, ``_source``, ``_reasons`` (empty unless
        rejected, skipped or erased), ``_payload`` (of rejected and of accepted rows only), ``_rescued``; ``_unset``, if
        the table's changes may leave columns unset; ``_is_snapshot``, whether the row is part of a full extract, if the
        table has them.

    Raises:
        DeclarationError: The function dropped or added columns.
    """
    extracted = marked_accepted(protected(extracted, table), accepted)
    # most payloads are not kept, and making one takes as long as the validation
    needs_text = accepted or deny or beside is not None or table.contract.protections
    in_fields = base.WHOLE in extracted.columns and not needs_text
    out = table.function(_typed(extracted, table, base.WHOLE if in_fields else "_payload"))
    check_output(out, table)
    rows = _with_reasons(out, table, windows, deny, may_be_accepted=bool(accepted))
    if beside is not None:
        good = beside.withColumn("_reasons", F.coalesce("_reasons", F.array().cast("array<string>")))
        if accepted:
            good = good.withColumn(ACCEPTED, F.lit(False))
        rows = rows.unionByName(good.select(*map(col, rows.columns)))
    return compared(rows, table, places=places, may_be_accepted=bool(accepted), in_fields=in_fields)


def with_reasons(typed: DataFrame, table: Table, windows: Iterable[LoadWindow]) -> DataFrame:
    """Typed rows with the reasons that each has by itself, as ``beside`` of :func:`validate` takes them."""
    return _with_reasons(typed, table, windows, NOBODY, may_be_accepted=False)


def fields_of(extracted: DataFrame, table: Table) -> DataFrame:
    """The columns that conditions are evaluated on."""
    raw_types = _raw_types(extracted)
    raw = known(_given, raw_types, table)
    return extracted.select(*table.contract.typed(raw, raw_types), *_control(raw, table))


def _raw_types(extracted: DataFrame) -> dict[str, T.DataType]:
    raw_type = extracted.schema["_raw"].dataType
    assert isinstance(raw_type, T.StructType)
    return {field.name: field.dataType for field in raw_type.fields}


def _given(name: str) -> Column:
    return F.col("_raw").getField(name)


def _control(raw: Raw, table: Table) -> list[Column]:
    """The fields that only conditions use."""
    return [raw(name).cast("string").alias(name) for name in table.control_fields]


def _typed(extracted: DataFrame, table: Table, payload: str) -> DataFrame:
    raw_types = _raw_types(extracted)
    fields_set = set_by_record(extracted, _given, raw_types, table) if table.by_column else []
    raw = known(_given, raw_types, table)
    skipped = F.col(base.SKIPPED) if base.SKIPPED in extracted.columns else F.lit(None).cast("string")
    operations, skip_when = table.changes.operations, table.changes.skip_when
    # typed first, because reasons use the typed values, and Spark plans an expression once for each use of it
    own = [name for name in extracted.columns if name.startswith("_")]
    rescued = rescued_with(table.contract.undeclared(raw, raw_types))
    if table.contract.protections:
        rescued = names_alone(rescued)
    record = F.struct(
        "_window",
        "_source",
        F.col(payload).alias("_payload"),
        rescued.alias("_rescued"),
        "_malformed",
        F.when(F.col("_malformed").isNull(), skipped).alias("_skipped"),
        table.contract.type_reasons(raw, raw_types, col).alias("_type_reasons"),
        *fields_set,
        *([_unread(raw_types).alias("_unread")] if skip_when else []),
        *([raw(operations.column).isNotNull().alias("_has_code")] if operations else []),
        *(name for name in (ACCEPTED, VALIDATED) if name in extracted.columns),
        F.col(OF_PERSON) if OF_PERSON in extracted.columns else of_nobody(),
    )
    typed = extracted.select(*own, *table.contract.typed(raw, raw_types)).select(
        *map(col, table.columns), *_control(raw, table), record.alias(RECORD)
    )
    record = F.col(RECORD)
    skipped = record.getField("_skipped").isNotNull()
    if operations is not None:
        unknown = F.when(~skipped, _unknown_code(operations, table.contract))
        record = record.withField("_malformed", F.coalesce(record.getField("_malformed"), unknown))
        skipped |= unknown.isNull() & _skips(skip_when)
    else:
        skipped |= _skips(skip_when)
    kind = (
        F.when(skipped, SKIPPED)
        .when(_condition(table.changes.truncate_when), TRUNCATE)
        .when(_condition(table.changes.delete_when), DELETE)
        .when(_condition(table.changes.moved_when), MOVED)
        .otherwise(UPSERT)
    )
    record = record.withField("_kind", kind)
    if table.changes.snapshot_when:
        record = record.withField("_is_snapshot", F.expr(table.changes.snapshot_when))
    return typed.withColumn(RECORD, record)


def rescued_with(nested: Column | None) -> Column:
    """Fields rescued by the source, and nested values declared partly (None: no row has any), as one JSON object."""
    flat = F.col("_rescued")
    if nested is None:
        return flat
    both = F.concat(F.regexp_replace(flat, r"\}\s*$", ","), F.substring(nested, F.lit(2), F.length(nested)))
    return F.coalesce(both, flat, nested)


def _unread(raw_types: Mapping[str, T.DataType]) -> Column:
    """True if a record could not be read: nothing is known of it, although all its fields are NULL."""
    return F.col("_malformed").isNotNull() & all_of(_given(name).isNull() for name in raw_types)


def _skips(skip_when: str | None) -> Column:
    """True if a condition says of a record that was read that it is no change."""
    return _condition(skip_when) & ~F.col(RECORD).getField("_unread") if skip_when else F.lit(False)


def _unknown_code(operations: Operations, contract: Contract) -> Column:
    """The reason of a record whose operation code is not declared, or is no value of its column."""
    name, code = operations.column, col(operations.column).cast("string")
    told = F.when(code.isNull(), "NULL").otherwise(quoted(code, personal=name in contract.personal))
    text = F.concat(F.lit(f"{name}: "), told, F.lit(f" is no operation code ({operations.known})"))
    known = F.coalesce(F.expr(operations.condition(*KINDS) or "false"), F.lit(False))
    return F.when(~known | (code.isNull() & F.col(RECORD).getField("_has_code")), text)


def _condition(sql: str | None) -> Column:
    return F.expr(sql) if sql else F.lit(False)  # NULL selects no kind


def _with_reasons(
    out: DataFrame, table: Table, windows: Iterable[LoadWindow], deny: DenyList, *, may_be_accepted: bool
) -> DataFrame:
    record = F.col(RECORD)
    kind = record.getField("_kind")
    malformed = record.getField("_malformed")
    if table.by_column:
        out = out.withColumn("_unset", unset(record, table))
        if table.changes.moved_when:
            kind = F.when((kind == MOVED) & (F.size("_unset") == 0), UPSERT).otherwise(kind)
    absent = _identity_reasons(table)
    if table.changes.truncate_when:
        unordered = all_of(col(name).isNull() for name in table.changes.sequence_by)
        text = f"{', '.join(table.changes.sequence_by)}: NULL, but a truncate deletes older rows"
        absent = F.when(kind == TRUNCATE, not_null(F.when(unordered, text))).otherwise(absent)
    if table.changes.snapshot_when:
        first = table.changes.sequence_by[0]
        undated = kind.isin(*UPSERTS, DELETE) & record.getField("_is_snapshot") & col(first).isNull()
        text = f"{first}: NULL, but it is the position of the full extract"
        absent = F.concat(absent, not_null(F.when(undated, text)))
    elsewhere = []
    for window in windows:
        if broken := table.write.reasons(table.contract, table.partitions_def, window):
            here = record.getField("_window") == window.key
            elsewhere.append(F.when(here, not_null(*broken)).otherwise(F.array()))
    of_types = record.getField("_type_reasons")
    of_contract = _contract_reasons(kind, table)
    if may_be_accepted:
        borne = _contract_reasons(kind, table, checks=False)
        of_contract = F.when(record.getField(ACCEPTED), borne).otherwise(of_contract)
    of_rules = F.concat(of_contract, absent, *elsewhere)
    of_values = F.array_distinct(F.concat(of_types, unless_said(of_types, of_rules)))
    of_record = F.array(F.coalesce(malformed, record.getField("_skipped"), F.lit("skip_when")))
    reasons = F.when(malformed.isNotNull() | (kind == SKIPPED), of_record).otherwise(of_values)
    row = out.select(
        *(col(name) for name in table.columns),
        kind.alias("_kind"),
        reasons.alias("_reasons"),
        *(record.getField(name).alias(name) for name in ("_window", "_source", "_payload", "_rescued")),
        *(["_unset"] if table.by_column else []),
        *([record.getField("_is_snapshot").alias("_is_snapshot")] if table.changes.snapshot_when else []),
        *([record.getField(ACCEPTED).alias(ACCEPTED)] if may_be_accepted else []),
        *([record.getField(OF_PERSON).getField("is_erased").alias(KNOWN_ERASED)] if deny else []),
    )
    if table.changes.truncate_when:  # a truncate is identified by its missing key, so a key of its record is dropped
        keyless = {name: F.when(F.col("_kind") != TRUNCATE, col(name)) for name in table.identity}
        row = row.withColumns(keyless)
    return binned(row, table, deny).withColumn("_hash", F.expr(content_hash_sql(table.columns)))


def _contract_reasons(kind: Column, table: Table, *, checks: bool = True) -> Column:
    """The contract's reasons for a row; deletes need only key and sequence, truncates only the sequence."""
    contract, sequence = table.contract, table.changes.sequence_by
    needed = {*table.identity, *sequence}
    of = partial(contract.reasons, checks=checks, validated=partial(_validated, table=table))
    reasons = of(given=lambda name: F.lit(True) if name in needed else sets(name)) if table.by_column else of()
    if table.changes.truncate_when:
        reasons = F.when(kind == TRUNCATE, of(only=sequence)).otherwise(reasons)
    return F.when(kind == DELETE, of(only=needed)).otherwise(reasons)


def _validated(name: str, table: Table) -> Column:
    """The reason of the checks of a protected column."""
    told = F.col(RECORD).getField(VALIDATED).getField(name)
    if table.subject is None or not isinstance(table.contract.protections[name], Encrypted):
        return told
    by = table.subject.by  # the key that encrypted is that of the person whom the source named
    kept = F.col(RECORD).getField(OF_PERSON).getField("kept")
    is_other = col(name).isNotNull() & (kept != as_text(col(by), table.type_of(by)))
    text = f"{name}: {MASK} {UNENCRYPTED}, as the table's function changes {by}"
    return F.coalesce(F.when(is_other, text), told)


def _identity_reasons(table: Table) -> Column:
    """Reasons why a row cannot be identified, or cannot be stored in its partition."""
    # for columns that are not nullable the contract itself has a reason
    nullable = {field.name for field in table.contract.fields if field.nullable}
    absent = not_null(
        *(
            F.when(col(name).isNull(), F.lit(f"{name}: NULL, but it identifies the row"))
            for name in table.identity
            if name in nullable
        )
    )
    place = [misplaced(field) for field in table.contract.fields if field.name == table.write.partition_by]
    return F.concat(absent, *(not_null(*reasons) for reasons in place if reasons))
