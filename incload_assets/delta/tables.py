"""Creates Delta tables and adapts existing ones to their declaration."""

import json
from collections.abc import Iterator, Mapping

import pyspark.sql.types as T
from deltalake import DeltaTable
from pyarrow.fs import FileSelector
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incload_assets.delta.sql import literal, quoted
from resources.errors import SchemaMismatch
from resources.lake import Lake


def lost_the_race(error: PySparkException) -> bool:
    """Whether a statement failed only because another writer committed first."""
    text = str(error)
    return "DELTA_CONCURRENT" in text or "DELTA_METADATA_CHANGED" in text or "DELTA_PROTOCOL_CHANGED" in text


def ensure_table(
    spark: SparkSession,
    lake: Lake,
    uri: str,
    schema: T.StructType,
    partition_by: tuple[str, ...],
    table_name: str,
    properties: Mapping[str, str] | None = None,
    *,
    whole: bool = False,
    beside: str | None = None,
) -> None:
    """Creates the table, or adds the columns it lacks.

    A change of schema or properties aborts every concurrent writer, so it is a commit of its own before any load.

    Args:
        spark: The session.
        lake: The lake with the table.
        uri: URI of the table.
        schema: The declared columns; columns that only the table has stay as they are.
        partition_by: The declared partition columns.
        table_name: The table's name for messages.
        properties: Table properties. Those named ``incload.…`` describe the table's rows: a table with other values is
            refused, a table without them gets them. Delta's own properties are set.
        whole: Whether rows are identified by their whole content, so that a column that only the table has is refused.
        beside: URI of another table with the same columns. Content is compared by a hash that depends on the order of
            struct members, so a new table gets the order of this other table, if that exists.

    Raises:
        SchemaMismatch: As :func:`check_table`; or the table's folder holds something else.
    """
    properties = properties or {}
    lake.forget_checksum(uri)
    delta = lake.delta(uri)
    if delta is None:
        twin = lake.delta(beside) if beside else None
        ordered = _ordered_as(schema_of(twin), schema) if twin else schema
        _create(spark, lake, uri, ordered, partition_by, properties)
        if (delta := lake.delta(uri)) is None:
            _create_in_folder(spark, lake, uri, ordered, partition_by, table_name, properties)
            delta = lake.delta(uri)
        assert delta is not None
    check_table(delta, schema, partition_by, table_name, properties, uri=uri, whole=whole)
    _add_columns(spark, lake, uri, delta, schema, table_name)
    known = delta.metadata().configuration
    if any(known.get(name) != value for name, value in properties.items()):
        try:
            spark.sql(f"ALTER TABLE {lake.sql_name(uri)} SET TBLPROPERTIES ({_listed(properties)})")
        except PySparkException as error:
            if not lost_the_race(error):  # otherwise the next load sets them
                raise


def check_table(
    delta: DeltaTable,
    schema: T.StructType,
    partition_by: tuple[str, ...],
    table_name: str,
    properties: Mapping[str, str],
    *,
    uri: str,
    whole: bool = False,
) -> None:
    """Checks that an existing table can be adapted to its declaration; the arguments are those of :func:`ensure_table`.

    Raises:
        SchemaMismatch: The table's rows are described differently, the table is partitioned differently, a column
            exists with another type or spelling, or, if ``whole``, a column exists only in the table.
    """
    metadata = delta.metadata()
    if (actual := tuple(metadata.partition_columns)) != partition_by:
        raise SchemaMismatch(
            f"{table_name}: {uri} is partitioned by {list(actual)}, declared is {list(partition_by)}",
            rule="the partitioning of an existing table cannot be changed in place",
            remedy="restore the declaration, or give the table another name and load it again",
        )
    known = metadata.configuration
    own = [name for name in properties if name.startswith("incload.")]
    if other := [name for name in own if known.get(name, properties[name]) != properties[name]]:
        was, now = (", ".join(f"{name} {of[name]}" for name in other) for of in (known, properties))
        raise SchemaMismatch(
            f"{table_name}: {uri} has {was}, declared is {now}",
            rule="what identifies the rows of an existing table, and how they are written, cannot be changed in place",
            remedy="restore the declaration, or give the table another name and load it again",
        )
    if whole and (dropped := [name for name in schema_of(delta).names if name not in schema.names]):
        raise SchemaMismatch(
            f"{table_name}: {uri} has {', '.join(map(repr, dropped))}, which the declaration lacks",
            rule="an event without a key is identified by its whole content; without the column two could become one",
            remedy="keep the column in the contract, or give the table another name and load it again",
        )
    for _ in _missing(schema_of(delta), schema, _column_of(table_name, uri)):
        pass  # it can be added


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


def _create(
    spark: SparkSession,
    lake: Lake,
    uri: str,
    schema: T.StructType,
    partition_by: tuple[str, ...],
    properties: Mapping[str, str],
) -> None:
    statement = (
        f"CREATE TABLE IF NOT EXISTS {lake.sql_name(uri)} ({', '.join(map(_column, schema.fields))}) USING delta"
    )
    if partition_by:
        statement += f" PARTITIONED BY ({', '.join(map(quoted, partition_by))})"
    if properties:
        statement += f" TBLPROPERTIES ({_listed(properties)})"
    try:
        spark.sql(statement)
    except PySparkException as error:
        if not lost_the_race(error) and "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION" not in str(error):
            raise


def _create_in_folder(
    spark: SparkSession,
    lake: Lake,
    uri: str,
    schema: T.StructType,
    partition_by: tuple[str, ...],
    table_name: str,
    properties: Mapping[str, str],
) -> None:
    """Creates a table whose folder is there already: another writer is creating it, or was killed while it did.

    ``CREATE TABLE IF NOT EXISTS`` takes any folder with something in it for a table, or refuses it. An append does not;
    whichever writer commits first has created the table. Delta takes only its own properties from an append.

    Raises:
        SchemaMismatch: There is something else in the folder.
    """
    with lake.files(uri) as files:
        names = sorted(info.base_name for info in files.get_file_info(FileSelector("")))
    others = [name for name in names if name != "_delta_log"]
    if lake.delta(uri) is not None:  # it has files by now
        return
    if others:
        raise SchemaMismatch(
            f"{table_name}: {uri} is no Delta table, but holds {', '.join(map(repr, others[:3]))}",
            rule="a table has its folder for itself: a vacuum deletes all files that do not belong to the table",
            remedy="move them away, or give the table another name",
        )
    own = {name: value for name, value in properties.items() if name.startswith("delta.")}
    try:
        spark.createDataFrame([], schema).write.save(
            lake.spark_uri(uri), format="delta", mode="append", partitionBy=list(partition_by), **own
        )
    except PySparkException as error:
        if not lost_the_race(error):
            raise


def _add_columns(
    spark: SparkSession, lake: Lake, uri: str, delta: DeltaTable, schema: T.StructType, table_name: str
) -> None:
    where = _column_of(table_name, uri)
    if missing := list(_missing(schema_of(delta), schema, where)):
        try:
            spark.sql(f"ALTER TABLE {lake.sql_name(uri)} ADD COLUMNS ({', '.join(missing)})")
        except PySparkException as error:
            # If another load of the same code added the columns at the same moment, they are present now.
            delta.update_incremental()
            if not lost_the_race(error) or list(_missing(schema_of(delta), schema, where)):
                raise


def _column_of(table_name: str, uri: str) -> str:
    return f"{table_name}: column {{}} of {uri}"


def _missing(present: T.StructType, declared: T.StructType, where: str, path: str = "") -> Iterator[str]:
    """The declared columns and struct members that the table lacks, as SQL."""
    spelled = {name.lower(): name for name in present.names}
    for field in declared.fields:
        found = spelled.get(field.name.lower())
        if found is None:
            yield path + _column(field)
            continue
        if found != field.name:
            raise SchemaMismatch(
                f"{where.format(repr(found))} is declared as {field.name!r}",
                rule="Delta does not distinguish names that differ only by case, so no column can be renamed this way",
                remedy=f"declare it as {found!r}",
            )
        was, now = present[found].dataType, field.dataType
        if isinstance(was, T.StructType) and isinstance(now, T.StructType) and set(was.names) <= set(now.names):
            yield from _missing(was, now, where, f"{path}{quoted(found)}.")
        elif was.simpleString() != now.simpleString():
            raise SchemaMismatch(
                f"{where.format(repr(found))} is {was.simpleString()}, declared is {now.simpleString()}",
                rule="a load does not change the type of an existing column",
                remedy="restore the type in the contract, or add the new type under another column name",
            )


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


def _listed(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())


def schema_of(delta: DeltaTable) -> T.StructType:
    """The columns of a table as Spark types, read without Spark: Delta stores schemas in Spark's own JSON format."""
    return T.StructType.fromJson(json.loads(delta.schema().to_json()))
