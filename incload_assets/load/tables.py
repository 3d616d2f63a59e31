"""A table and its log as they are declared, created or adapted before a load.

Where a contract has a new column, earlier changes in the log are marked as leaving it unset.
"""

from collections.abc import Callable, Mapping

import pyspark.sql.types as T
from pyspark.errors import PySparkException

from incload_assets.change_log.change import UPSERTS
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.table import Table
from incload_assets.declaration.write import BUCKET
from incload_assets.delta.sql import literal
from incload_assets.delta.tables import ensure_table, lost_the_race, schema_of
from incload_assets.load.placement import refuse_foreign
from resources.errors import ConcurrentLoad

WINDOWS = "incload.windows"
Ensure = Callable[..., None]
"""Makes a table be as declared, as :func:`incload_assets.delta.tables.ensure_table` does."""


def ensure_tables(load: LoadContext, ensure: Ensure | None = None) -> None:
    """Creates table and log, or adapts them to the declaration; ``ensure``, if given, is called in place of that.

    Raises:
        SchemaMismatch: They do not fit the declaration and cannot be adapted, or the table is somebody else's.
    """
    refuse_foreign(load)
    adapt_tables(load, ensure)


def adapt_tables(load: LoadContext, ensure: Ensure | None = None) -> None:
    """Creates table and log, or adapts them to the declaration, whoever has made the table.

    Args:
        load: The load's context.
        ensure: As for :func:`ensure_tables`.

    Raises:
        SchemaMismatch: They do not fit the declaration and cannot be adapted.
    """
    spark, table, lake = load.spark, load.table, load.lake
    schema = table.schema
    if table.write.buckets is not None:
        comment = {"comment": "Hash of the key, modulo the number of buckets; for pruning files only"}
        schema = T.StructType([*schema.fields, T.StructField(BUCKET, T.IntegerType(), True, comment)])
    whole, by, kept = table.write.is_content(table.changes), table.write.stored_by, _kept_properties(table)
    make = ensure or ensure_table
    make(spark, lake, load.uri, schema, by, table.name, kept, whole=whole, beside=load.log.uri)
    ensure_log(load, ensure)


def ensure_log(load: LoadContext, ensure: Ensure | None = None, more: Mapping[str, str] | None = None) -> None:
    """Creates the log, or adapts it to the declaration.

    Args:
        load: The load's context.
        ensure: As for :func:`ensure_tables`.
        more: Further table properties that a new log begins with.

    Raises:
        SchemaMismatch: It does not fit the declaration and cannot be adapted.
    """
    log, table = load.log, load.table
    # the log depends on the windows, and its window records on the buckets
    kept = {n: value for n, value in _kept_properties(table).items() if n.startswith(("incload.bucket", WINDOWS))}
    properties = kept | log.properties | dict(more or {})
    if ensure is None:
        leave_unset(load)
    by, make = ("_window", "_kind"), ensure or ensure_table
    make(load.spark, load.lake, log.uri, log.schema, by, table.name, properties, beside=load.uri)


def _kept_properties(table: Table) -> dict[str, str]:
    """Table properties that existing rows depend on.

    They include the definition of the windows, because rows of a window of another definition could not be replaced.
    """
    kept = {f"incload.{name}": value for name, value in table.write.kept_as(table.changes).items()}
    windows = table.partitions_def
    definition = {WINDOWS: f"{windows.cron_schedule} {windows.timezone or 'UTC'} {windows.fmt}"}
    return kept if table.write.supersedes else kept | definition


def leave_unset(load: LoadContext) -> None:
    """Marks new columns as unset in all changes of the log, if the table's changes may leave columns unset.

    This happens before the log gets the column: afterwards its NULL would look like a change to NULL. It rewrites the
    changes in the log, once per column.

    Raises:
        ConcurrentLoad: Another load committed to the log meanwhile.
    """
    log, table = load.log, load.table
    if not table.by_column or (delta := load.lake.delta(log.uri)) is None:
        return
    known = schema_of(delta).names
    added = [name for name in table.columns if name not in known]
    if not added or "_unset" not in known:  # a log without this column has only changes that set all columns
        return
    names, kinds = (", ".join(map(literal, texts)) for texts in (added, UPSERTS))
    unset = f"array_union(coalesce(_unset, array()), array({names}))"
    try:
        load.spark.sql(f"UPDATE {load.lake.sql_name(log.uri)} SET _unset = {unset} WHERE _kind IN ({kinds})").first()
    except PySparkException as error:
        if not lost_the_race(error):
            raise
        raise ConcurrentLoad(
            f"{table.name}: another load committed to the log while {', '.join(added)} was marked as a new column",
            rule="changes from before the declaration of a column leave it unset",
            remedy="the load is tried again",
        ) from error
