"""From extracted records to typed rows, each with the reasons why it cannot be accepted."""

from collections.abc import Iterable

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from incload_assets.loading.columns import DELETE, REJECTED, UPSERT, col, content_hash_sql
from incload_assets.loading.declaration import Table
from incload_assets.loading.errors import DeclarationError
from incload_assets.loading.window import Window as LoadWindow

RECORD = "_record"
"""The column that carries the raw record through the author's function."""


def judge(extracted: DataFrame, table: Table, windows: Iterable[LoadWindow]) -> DataFrame:
    """Type the records, apply the table's function, and judge the outcome by the contract.

    Args:
        extracted: What a source's ``extract`` returns, and ``_window``, the partition key of each row.
        table: The declaration.
        windows: The windows that are in it.

    Returns:
        One row per record: the table's columns, ``_kind`` (upsert, delete or rejected), ``_hash`` of the content,
        ``_window``, ``_source``, ``_reasons`` (empty unless rejected), ``_payload`` (of rejected rows only),
        ``_rescued``.

    Raises:
        DeclarationError: The function dropped or added columns.
    """
    out = table.function(_typed(extracted, table))
    _check_output(out, table)
    return _unique(_judged(out, table, windows), table)


def _typed(extracted: DataFrame, table: Table) -> DataFrame:
    raw_type = extracted.schema["_raw"].dataType
    assert isinstance(raw_type, T.StructType)
    raw_types = {field.name: field.dataType for field in raw_type.fields}

    def raw(name: str) -> Column:
        return F.col("_raw").getField(name)

    record = F.struct(
        "_window",
        "_source",
        "_payload",
        "_rescued",
        "_malformed",
        table.contract.type_reasons(raw, raw_types).alias("_type_reasons"),
    )
    control = [raw(name).cast("string").alias(name) for name in table.control_fields]
    typed = extracted.select(*table.contract.typed(raw, raw_types), *control, record.alias(RECORD))
    is_delete = (
        F.coalesce(F.expr(table.changes.delete_when), F.lit(False)) if table.changes.delete_when else F.lit(False)
    )
    return typed.withColumn(RECORD, F.col(RECORD).withField("_is_delete", is_delete))


def _check_output(out: DataFrame, table: Table) -> None:
    if RECORD not in out.columns:
        raise DeclarationError(
            f"{table.name}: its function returns no column {RECORD!r}",
            rule="the raw record is carried through the function, so that a rejected row can show where it came from",
            remedy="use withColumn, withColumns, withColumnRenamed or drop in the function; with select, add '*'",
        )
    returned = set(out.columns) - {RECORD, *table.control_fields}
    if missing := [name for name in table.columns if name not in returned]:
        raise DeclarationError(
            f"{table.name}: its function returns no column {', '.join(map(repr, missing))}",
            rule=f"the function returns the columns of {table.contract.model_name}",
            remedy="keep the column, or take it out of the contract",
        )
    if extra := sorted(returned - set(table.columns)):
        raise DeclarationError(
            f"{table.name}: its function returns {', '.join(map(repr, extra))}, unknown to {table.contract.model_name}",
            rule="the contract names every column of the table",
            remedy="add the column to the contract, or drop it in the function",
        )
    types = {field.name: field.dataType for field in out.schema.fields}
    for field in table.contract.fields:
        if types[field.name] != field.data_type and not _same_type(types[field.name], field.data_type):
            raise DeclarationError(
                f"{table.name}: its function returns {field.name!r} as {types[field.name].simpleString()}",
                rule=f"{table.contract.model_name} declares {field.data_type.simpleString()}",
                remedy=f"cast it in the function: F.col({field.name!r}).cast({field.data_type.simpleString()!r})",
            )


def _same_type(left: T.DataType, right: T.DataType) -> bool:
    """Equal but for the nullability of nested members, which expressions change freely."""
    return left.simpleString() == right.simpleString()


def _judged(out: DataFrame, table: Table, windows: Iterable[LoadWindow]) -> DataFrame:
    record = F.col(RECORD)
    is_delete = record.getField("_is_delete")
    malformed = record.getField("_malformed")
    needed = {*table.identity, *table.changes.sequence_by}
    delete_reasons = table.contract.reasons(only=needed)
    own = F.when(is_delete, delete_reasons).otherwise(table.contract.reasons())
    absent = F.array_compact(
        F.array(
            *(F.when(col(name).isNull(), F.lit(f"{name}: NULL, but it identifies the row")) for name in table.identity)
        )
    )
    partition = table.write.partition_by
    if partition is not None and isinstance(out.schema[partition].dataType, T.StringType):
        # Delta keeps both as NULL
        text = F.concat(F.lit(f"{partition}: '"), col(partition), F.lit("' cannot be the value of a partition"))
        unusable = F.when(col(partition).isin("", "__HIVE_DEFAULT_PARTITION__"), text)
        absent = F.concat(absent, F.array_compact(F.array(unusable)))
    for window in windows:
        if broken := table.write.reasons(table, window):
            here = record.getField("_window") == window.key
            absent = F.concat(absent, F.when(here, F.array_compact(F.array(*broken))).otherwise(F.array()))
    reasons = F.when(malformed.isNotNull(), F.array(malformed)).otherwise(
        F.array_distinct(F.concat(record.getField("_type_reasons"), own, absent))
    )
    row = out.select(
        *(col(name) for name in table.columns),
        is_delete.alias("_is_delete"),
        reasons.alias("_reasons"),
        *(record.getField(name).alias(name) for name in ("_window", "_source", "_payload", "_rescued")),
    )
    return row.withColumn("_hash", F.expr(content_hash_sql(table.columns)))


def _unique(judged: DataFrame, table: Table) -> DataFrame:
    """Reject rows that share a unique value, or whose key sits in two partitions, within the batch; then name the kind.

    All of the colliding rows are rejected: which of them is right is not for the loader to guess.
    """
    accepted = F.size("_reasons") == 0
    collisions = []
    unique = table.contract.unique
    if unique and table.changes.keys and not set(table.changes.keys) <= set(unique):
        owner = F.when(accepted & ~F.col("_is_delete"), F.xxhash64(F.to_json(F.struct(*map(col, table.changes.keys)))))
        same_value = Over.partitionBy("_window", *map(col, unique))
        collisions.append(
            F.when(
                accepted & (F.min(owner).over(same_value) != F.max(owner).over(same_value)),
                F.lit(f"{', '.join(unique)}: the same value under two keys, but it is unique"),
            )
        )
    partition = table.write.partition_by
    if partition is not None and table.changes.keys and partition not in table.changes.keys:
        place = F.when(accepted, col(partition))
        same_key = Over.partitionBy("_window", *map(col, table.changes.keys))
        collisions.append(
            F.when(
                accepted & (F.min(place).over(same_key) != F.max(place).over(same_key)),
                F.lit(f"{partition}: two values for one key, but a row never changes its partition"),
            )
        )
    if collisions:
        judged = judged.withColumn("_reasons", F.concat("_reasons", F.array_compact(F.array(*collisions))))
    rejected = F.size("_reasons") > 0
    kind = F.when(rejected, REJECTED).when(F.col("_is_delete"), DELETE).otherwise(UPSERT)
    return judged.select(
        *(col(name) for name in table.columns),
        kind.alias("_kind"),
        "_window",
        "_hash",
        "_source",
        "_reasons",
        F.when(rejected, F.col("_payload")).alias("_payload"),
        "_rescued",
    )
