"""Creates Delta tables and adapts existing ones to their declaration."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyspark.sql.types as T
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from incload_assets.contract.adaptation import (
    ADDED_NOT,
    BUCKETS,
    CHANGE_FEED,
    DROPPED_CONTENT,
    IDENTITY_KINDS,
    MEMBER_DROPPED,
    PARTITIONING,
    SPELLING,
    Adaptation,
    Difference,
    Stored,
    agrees,
    stored_differences,
    widened_columns,
)
from incload_assets.delta.refusals import refused_widening
from incload_assets.platform.errors import ConcurrentLoad, SchemaMismatch
from incload_assets.platform.lake import Lake
from incload_assets.platform.sql import col, literal, quoted

Rewrite = Callable[[DeltaTable, T.StructType], None]
"""Rewrites a table with wider types, unless another writer commits first: the table, and its columns from then on."""


@dataclass(frozen=True)
class Adapted:
    """The columns and members that an existing table got, and the columns whose types were widened."""

    added: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """All columns and members that have changed."""
        return self.added + self.widened


def has_change_feed(delta: DeltaTable) -> bool:
    """True if the commits of a table tell which rows they change."""
    return delta.metadata().configuration.get(CHANGE_FEED, "").lower() == "true"


def lost_the_race(error: PySparkException) -> bool:
    """True if a statement failed only because another writer committed first."""
    text = str(error)
    return "DELTA_CONCURRENT" in text or "DELTA_METADATA_CHANGED" in text or "DELTA_PROTOCOL_CHANGED" in text


def ensure_table(
    spark: SparkSession,
    lake: Lake,
    uri: str,
    declared: Stored,
    table_name: str,
    *,
    whole: bool = False,
    beside: str | None = None,
    adaptation: Adaptation = Adaptation(),  # noqa: B008 - immutable
    rewrite: Rewrite | None = None,
) -> Adapted:
    """Creates the table, or adds the columns it lacks and widens its types; returns the changes to an existing table.

    A change of schema or properties aborts every concurrent writer, so it is a commit of its own before any load.

    Args:
        spark: The session.
        lake: The lake with the table.
        uri: URI of the table.
        declared: The declared columns, partition columns and properties. Columns that only the table has stay as they
            are. Properties named ``incload.…`` describe the table's rows: a table with other values is refused, a table
            without them gets them. Delta's own properties are set.
        table_name: The table's name for messages.
        whole: Whether rows are identified by their whole content, so that a column that only the table has is refused.
        beside: URI of another table, whose order of struct members a new table gets: hashes of content depend on it.
        rewrite: Rewrites the table where types are widened; None: its rows are overwritten by Delta.

    Raises:
        SchemaMismatch: As :func:`check_table`; the table's folder holds something else; or Delta refuses the rewrite.
    """
    schema, properties = declared.columns, declared.properties
    lake.forget_checksum(uri)
    delta = lake.delta(uri)
    if delta is None:
        twin = lake.delta(beside) if beside else None
        new = replace(declared, columns=_ordered_as(schema_of(twin), schema)) if twin else declared
        _create(spark, lake, uri, new)
        if (delta := lake.delta(uri)) is None:
            _create_in_folder(spark, lake, uri, new, table_name)
            delta = lake.delta(uri)
        assert delta is not None
    check_table(delta, declared, table_name, uri=uri, whole=whole, adaptation=adaptation)
    overwrite = partial(_overwrite, spark, lake, uri, table_name)
    widened = _widen(uri, delta, schema, adaptation, rewrite or overwrite)
    added = _add_columns(spark, lake, uri, delta, schema)
    known = delta.metadata().configuration
    if changed := {name: value for name, value in properties.items() if not agrees(name, known.get(name), value)}:
        try:
            set_properties(spark, lake, uri, changed)
        except PySparkException as error:
            if not lost_the_race(error):  # otherwise the next load sets them
                raise
    return Adapted(tuple(added), tuple(widened))


def check_table(
    delta: DeltaTable,
    declared: Stored,
    table_name: str,
    *,
    uri: str,
    whole: bool = False,
    adaptation: Adaptation = Adaptation(),  # noqa: B008 - immutable
) -> None:
    """Raises SchemaMismatch if an existing table cannot be adapted, with arguments as in :func:`ensure_table`."""
    found = stored_differences(stored_of(delta), declared, whole=whole, adaptation=adaptation)
    stopping = [one for one in found if one.stops]
    if stopping:
        first = stopping[0]
        raise SchemaMismatch(
            f"{table_name}: {_told(first, stopping, uri)}", rule=first.kind.rule, remedy=first.remedy(table_name)
        )


def stored_of(delta: DeltaTable) -> Stored:
    """The stored part of an existing table, read without Spark."""
    metadata = delta.metadata()
    return Stored(schema_of(delta), tuple(metadata.partition_columns), dict(metadata.configuration))


def _told(first: Difference, stopping: Sequence[Difference], uri: str) -> str:
    """The first difference as a sentence; properties, and columns that rows without a key lack, are in one sentence."""
    if first.kind == PARTITIONING or (first.kind == BUCKETS and not first.column):
        return f"{uri} is partitioned by {first.was}, declared is {first.now}"
    if first.kind in IDENTITY_KINDS:
        own = [one for one in stopping if one.kind in IDENTITY_KINDS]
        was = ", ".join(f"{one.column} {one.was}" for one in own)
        return f"{uri} has {was}, declared is {', '.join(f'{one.column} {one.now}' for one in own)}"
    if first.kind == DROPPED_CONTENT:
        dropped = [repr(one.column) for one in stopping if one.kind == DROPPED_CONTENT]
        return f"{uri} has {', '.join(dropped)}, which the declaration lacks"
    column = f"column {first.column!r} of {uri}"
    if first.kind == ADDED_NOT:
        return f"{uri} lacks {first.column!r}, declared is {first.now}"
    if first.kind == SPELLING:
        return f"{column} is declared as {first.now!r}"
    if first.kind == MEMBER_DROPPED:
        return f"{column} is {first.was}, and the declaration lacks it"
    return f"{column} is {first.was}, declared is {first.now}"


def _ordered_as(present: T.StructType, declared: T.StructType) -> T.StructType:
    """The declared columns, with struct members that are present first and in their present order."""
    fields = []
    for field in declared.fields:
        kind, was = field.dataType, present[field.name].dataType if field.name in present.names else None
        if isinstance(kind, T.StructType) and isinstance(was, T.StructType):
            members = [name for name in was.names if name in kind.names]
            members += [name for name in kind.names if name not in was.names]
            kind = _ordered_as(was, T.StructType([kind[name] for name in members]))
        fields.append(T.StructField(field.name, kind, field.nullable, field.metadata))
    return T.StructType(fields)


def _create(spark: SparkSession, lake: Lake, uri: str, declared: Stored) -> None:
    columns = ", ".join(map(_column, declared.columns.fields))
    statement = f"CREATE TABLE IF NOT EXISTS {lake.sql_name(uri)} ({columns}) USING delta"
    if declared.partitioned_by:
        statement += f" PARTITIONED BY ({', '.join(map(quoted, declared.partitioned_by))})"
    if declared.properties:
        statement += f" TBLPROPERTIES ({_listed(declared.properties)})"
    try:
        spark.sql(statement)
    except PySparkException as error:
        if not lost_the_race(error) and "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION" not in str(error):
            raise


def _create_in_folder(spark: SparkSession, lake: Lake, uri: str, declared: Stored, table_name: str) -> None:
    """Creates a table whose folder is there already: another writer is creating it, or was killed while it did.

    ``CREATE TABLE IF NOT EXISTS`` takes any folder with content for a table, or refuses it; an append does not. Delta
    takes only its own properties from an append.
    """
    others = lake.strangers(uri)
    if lake.delta(uri) is not None:  # it has files by now
        return
    if others:
        raise SchemaMismatch(
            f"{table_name}: {uri} is no Delta table, but holds {', '.join(map(repr, others[:3]))}",
            rule="a table has its folder for itself: a vacuum deletes all files that do not belong to the table",
            remedy="move them away, or give the table another name",
        )
    own = {name: value for name, value in declared.properties.items() if name.startswith("delta.")}
    try:
        spark.createDataFrame([], declared.columns).write.save(
            lake.spark_uri(uri), format="delta", mode="append", partitionBy=list(declared.partitioned_by), **own
        )
    except PySparkException as error:
        if not lost_the_race(error):
            raise


def _widen(uri: str, delta: DeltaTable, schema: T.StructType, adaptation: Adaptation, rewrite: Rewrite) -> list[str]:
    """Rewrites a table with wider types, in one commit that keeps identifiers of transactions; returns the columns.

    Delta's own type widening would avoid that, but adds a reader feature that deltalake does not have.
    """
    here = schema_of(delta)
    if not (widened := widened_columns(here, schema, adaptation)):
        return []
    fields = [
        T.StructField(one.name, widened.get(one.name, one.dataType), one.nullable, one.metadata) for one in here.fields
    ]
    rewrite(delta, T.StructType(fields))
    delta.update_incremental()
    if left := widened_columns(schema_of(delta), schema, adaptation):
        raise ConcurrentLoad(
            f"{uri}: another writer committed while the type of {', '.join(left)} was widened",
            rule="table and log are rewritten as they are at one version",
            remedy="the load is tried again",
        )
    return [*widened]


def _overwrite(
    spark: SparkSession, lake: Lake, uri: str, table_name: str, delta: DeltaTable, columns: T.StructType
) -> None:
    """Rewrites a table with wider types, in the transaction that reads it, unless another writer commits first.

    A commit that replaces or merges rows meanwhile makes it fail; rows that others append meanwhile stay.
    """
    here = schema_of(delta)
    rows = spark.read.format("delta").load(lake.spark_uri(uri))  # of a fixed version the transaction would not know
    by = delta.metadata().partition_columns
    try:
        as_wider(rows, here, columns).write.save(
            lake.spark_uri(uri), format="delta", mode="overwrite", partitionBy=by, overwriteSchema="true"
        )
    except PySparkException as error:
        if not lost_the_race(error):
            kinds = {one.name: (here[one.name].dataType, one.dataType) for one in columns.fields}
            widened = {
                name: f"{was.simpleString()} to {now.simpleString()}"
                for name, (was, now) in kinds.items()
                if was != now
            }
            raise refused_widening(table_name, uri, widened, error) from None


def as_wider(rows: DataFrame, here: T.StructType, columns: T.StructType) -> DataFrame:
    """Rows, of the columns ``here``, with the wider types of ``columns``."""
    # types as SQL: Spark Connect would give strings within a type an explicit collation, which deltalake cannot read
    return rows.select(
        *(
            (col(one.name) if old == one.dataType else col(one.name).cast(_sql_type(one.dataType))).alias(
                one.name, metadata=one.metadata or {}
            )
            for one, old in ((one, here[one.name].dataType) for one in columns.fields)
        )
    )


def _add_columns(spark: SparkSession, lake: Lake, uri: str, delta: DeltaTable, schema: T.StructType) -> list[str]:
    """Adds what a table lacks; returns the columns and members that this call has added."""
    if not (missing := _missing(delta, schema)):
        return []
    try:
        spark.sql(f"ALTER TABLE {lake.sql_name(uri)} ADD COLUMNS ({', '.join(missing.values())})")
    except PySparkException as error:
        # If another load of the same code added the columns at the same moment, they are present now.
        delta.update_incremental()
        if not lost_the_race(error) or _missing(delta, schema):
            raise
        return []
    return list(missing)


def _missing(delta: DeltaTable, schema: T.StructType) -> dict[str, str]:
    """The declared columns and struct members that a table lacks, with their definitions as SQL."""
    found = stored_differences(Stored(schema_of(delta)), Stored(schema))
    return {
        one.column: "".join(f"{quoted(name)}." for name in one.within) + _column(one.added)
        for one in found
        if one.added is not None
    }


def _column(field: T.StructField) -> str:
    comment = f" COMMENT {literal(field.metadata['comment'])}" if "comment" in (field.metadata or {}) else ""
    return f"{quoted(field.name)} {_sql_type(field.dataType)}{comment}"


def _sql_type(kind: T.DataType) -> str:
    """A type as SQL; ``simpleString`` would not quote the names of struct members."""
    if isinstance(kind, T.StructType):
        return f"struct<{', '.join(f'{quoted(f.name)}: {_sql_type(f.dataType)}' for f in kind.fields)}>"
    if isinstance(kind, T.ArrayType):
        return f"array<{_sql_type(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"map<{_sql_type(kind.keyType)}, {_sql_type(kind.valueType)}>"
    return kind.simpleString()


def set_properties(spark: SparkSession, lake: Lake, uri: str, properties: Mapping[str, str]) -> None:
    """Sets properties of a table, in a commit of its own."""
    spark.sql(f"ALTER TABLE {lake.sql_name(uri)} SET TBLPROPERTIES ({_listed(properties)})")


def _listed(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())


def schema_of(delta: DeltaTable) -> T.StructType:
    """The columns of a table as Spark types, read without Spark: Delta stores schemas in Spark's own JSON format."""
    return T.StructType.fromJson(json.loads(delta.schema().to_json()))
