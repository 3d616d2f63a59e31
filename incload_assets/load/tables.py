"""A table and its log as they are declared, created or adapted before a load.

Where a contract has a new column, earlier changes in the log are marked as leaving it unset.
"""

from collections.abc import Callable, Mapping, Sequence

from pyspark.errors import PySparkException

from incload_assets.change_log.change import UPSERTS
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.log import ChangeLog
from incload_assets.declaration.contract_of import WINDOWS, adaptation_of, stored_as
from incload_assets.delta.differences import Stored
from incload_assets.delta.sql import literal
from incload_assets.delta.tables import ensure_table, lost_the_race, schema_of
from incload_assets.load.closing import refuse_unfinished
from incload_assets.load.placement import refuse_foreign
from incload_assets.progress.audit import AuditEntry, record
from resources.errors import ConcurrentLoad, IncrementalLoadError

UNSET = "_unset"
"""The log's column with the names of the columns that a change leaves as they are."""
Ensure = Callable[..., Sequence[str]]
"""Makes a table be as declared, as :func:`incload_assets.delta.tables.ensure_table` does."""


def ensure_tables(load: LoadContext, ensure: Ensure | None = None) -> None:
    """Creates table and log, or adapts them to the declaration; ``ensure``, if given, is called in place of that.

    Raises:
        SchemaMismatch: They do not fit the declaration and cannot be adapted, the table is somebody else's, or former
            partitions cannot be closed yet.
    """
    refuse_foreign(load)
    added = adapt_tables(load, ensure)
    if any(added) and ensure is None:
        _audit(load, *added)


def adapt_tables(load: LoadContext, ensure: Ensure | None = None) -> tuple[Sequence[str], Sequence[str]]:
    """Creates table and log, or adapts them to the declaration, whoever has made the table.

    Args:
        load: The load's context.
        ensure: As for :func:`ensure_tables`.

    Returns:
        The columns that were added to an existing table, and those added to an existing log.

    Raises:
        SchemaMismatch: They do not fit the declaration and cannot be adapted.
    """
    refuse_unfinished(load)
    table, stored, make = load.table, stored_as(load.table), ensure or ensure_table
    whole, by = table.write.is_content(table.changes), stored.partitioned_by
    added = make(
        load.spark,
        load.lake,
        load.uri,
        stored.columns,
        by,
        table.name,
        stored.properties,
        whole=whole,
        beside=load.log.uri,
        adaptation=adaptation_of(table),
    )
    return added, ensure_log(load, ensure)


def ensure_log(load: LoadContext, ensure: Ensure | None = None, more: Mapping[str, str] | None = None) -> Sequence[str]:
    """Creates the log, or adapts it to the declaration.

    Args:
        load: The load's context.
        ensure: As for :func:`ensure_tables`.
        more: Further table properties that a new log begins with.

    Returns:
        The columns that were added to an existing log.

    Raises:
        SchemaMismatch: It does not fit the declaration and cannot be adapted.
    """
    refuse_unfinished(load)
    log = load.log
    stored = log_stored_as(log)
    properties = {**stored.properties, **(more or {})}
    if ensure is None:
        leave_unset(load)
    by, make = stored.partitioned_by, ensure or ensure_table
    return make(
        load.spark,
        load.lake,
        log.uri,
        stored.columns,
        by,
        load.table.name,
        properties,
        beside=load.uri,
        adaptation=adaptation_of(load.table),
    )


def log_stored_as(log: ChangeLog) -> Stored:
    """What Delta stores of a log; it depends on the windows, and its window records on the buckets."""
    properties = stored_as(log.table).properties
    kept = {name: value for name, value in properties.items() if name.startswith(("incload.bucket", WINDOWS))}
    return Stored(log.schema, ("_window", "_kind"), kept | log.properties)


def _audit(load: LoadContext, of_table: Sequence[str], of_log: Sequence[str]) -> None:
    """Records the columns that were added, as Delta forgets who added them; an audit that fails stops no load."""
    details = {"code_version": load.table.code_version, "table": ", ".join(of_table), "log": ", ".join(of_log)}
    try:
        record(load.lake, AuditEntry(action="contract", table=load.table.name, run_id=load.run_id, details=details))
    except IncrementalLoadError as error:
        load.info(f"{load.table.name}: {', '.join(of_table or of_log)} added, which the audit does not record: {error}")


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
    if not added or UNSET not in known:  # a log without this column has only changes that set all columns
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
