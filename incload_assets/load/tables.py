"""A table and its log as they are declared, created or adapted before a load."""

from collections.abc import Mapping
from dataclasses import replace

import pyspark.sql.types as T
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.log import ChangeLog, as_decided
from incload_assets.change_log.rewrite import rewrite_log
from incload_assets.change_log.staged import UNSET, leaving_unset
from incload_assets.contract.adaptation import Stored
from incload_assets.declaration.contract_of import WINDOWS, adaptation_of, stored_as
from incload_assets.declaration.layout import buckets_for
from incload_assets.declaration.write import AUTO
from incload_assets.delta.tables import Adapted, Rewrite, as_wider, ensure_table, schema_of
from incload_assets.load.closing import refuse_unfinished
from incload_assets.load.placement import refuse_foreign, refuse_lost_beliefs
from incload_assets.platform.errors import ConcurrentLoad, IncrementalLoadError, SchemaMismatch
from incload_assets.platform.lake import bytes_of, data_files
from incload_assets.platform.wording import several
from incload_assets.progress.audit import AuditEntry, record


def ensure_tables(load: LoadContext) -> None:
    """Creates table and log, or adapts them to the declaration.

    Raises:
        SchemaMismatch: They cannot be adapted, another writer made the table, or former partitions cannot be closed.
        StoredFileLost: The table is gone, and the log cannot make all of it again.
    """
    refuse_foreign(load)
    refuse_lost_beliefs(load)
    of_table, of_log = adapt_tables(load)
    if of_table.all or of_log.all:
        _audit(load, of_table, of_log)


def adapt_tables(load: LoadContext) -> tuple[Adapted, Adapted]:
    """Creates table and log, or adapts them, whoever has made the table; what existing ones got."""
    refuse_unfinished(load)
    if load.table.write.buckets == AUTO and not _choose_buckets(load):
        return Adapted(), ensure_log(load)
    table = load.table
    whole = table.write.is_content(table.changes)
    added = _ensure(load, load.uri, stored_as(table), whole=whole, beside=load.log.uri)
    return added, ensure_log(load)


def _choose_buckets(load: LoadContext) -> bool:
    """Creates a new table with as many buckets as fit what has been landed; False if nothing has been yet.

    Of two loads that choose at once, the first one to create the table has chosen for both.
    """
    log, declared = load.lake.delta(load.log.uri), load.table
    if load.scratch is not None:
        load.decide(new=True)
        return True
    if log is None or not (size := bytes_of(data_files(log))):
        return False
    load.decide(buckets_for(size), new=True)
    try:
        _ensure(load, load.uri, stored_as(load.table), beside=load.log.uri)
    except SchemaMismatch:
        number = as_decided(declared, load.lake).write.divided_into
        if number == load.table.write.divided_into:
            raise
        load.decide(number, new=True)
    load.info(f"{declared.name}: {several(load.table.write.divided_into or 0, 'bucket')} for {size:,} bytes of changes")
    return True


def ensure_log(load: LoadContext, more: Mapping[str, str] | None = None) -> Adapted:
    """Creates the log, with ``more`` properties, or adapts it to the declaration; what an existing log got.

    Raises:
        SchemaMismatch: It does not fit the declaration and cannot be adapted.
    """
    refuse_unfinished(load)
    log = load.log
    stored = log_stored_as(log)
    unset = leave_unset(load)

    def widen(at: DeltaTable, columns: T.StructType) -> None:
        here = schema_of(at)
        rewrite_log(load, at, lambda rows: as_wider(rows, here, columns), columns=columns, note="wider types")

    stored = replace(stored, properties={**stored.properties, **(more or {})})
    added = _ensure(load, log.uri, stored, beside=load.uri, rewrite=widen)
    return Adapted((*unset, *added.added), added.widened)


def _ensure(
    load: LoadContext, uri: str, stored: Stored, *, whole: bool = False, beside: str, rewrite: Rewrite | None = None
) -> Adapted:
    """Makes a table be as declared, see :func:`incload_assets.delta.tables.ensure_table`; in a scratch, checks it."""
    name, adaptation = load.table.name, adaptation_of(load.table)
    if load.scratch is not None:
        return load.scratch.ensure(uri, stored, name, whole=whole, adaptation=adaptation)
    return ensure_table(
        load.spark, load.lake, uri, stored, name, whole=whole, beside=beside, adaptation=adaptation, rewrite=rewrite
    )


def log_stored_as(log: ChangeLog) -> Stored:
    """The part of a log that Delta stores; it depends on the windows, and its window records on the buckets."""
    properties = stored_as(log.table).properties
    kept = {name: value for name, value in properties.items() if name.startswith(("incload.bucket", WINDOWS))}
    return Stored(log.schema, ("_window", "_kind"), kept | log.properties)


def _audit(load: LoadContext, of_table: Adapted, of_log: Adapted) -> None:
    """Records what was added and widened, as Delta forgets who did it; an audit that fails stops no load."""
    details = {"code_version": load.table.code_version, "table": ", ".join(of_table.added)}
    details["log"] = ", ".join(of_log.added)
    widened = {"table_widened": ", ".join(of_table.widened), "log_widened": ", ".join(of_log.widened)}
    details |= {name: columns for name, columns in widened.items() if columns}
    try:
        record(load.lake, AuditEntry(action="contract", table=load.table.name, run_id=load.run_id, details=details))
    except IncrementalLoadError as error:
        added, wider = of_table.added or of_log.added, of_table.widened or of_log.widened
        done = [f"{', '.join(added)} added"] * bool(added) + [f"{', '.join(wider)} widened"] * bool(wider)
        load.info(f"{load.table.name}: {' and '.join(done)}, which the audit does not record: {error}")


def leave_unset(load: LoadContext) -> list[str]:
    """Adds new columns to the log, and marks them as unset in all changes, if these may leave columns unset.

    Both in one commit: in a change that is not marked, NULL in the column would look like a change to NULL. It rewrites
    the log, once per column.
    """
    log, table = load.log, load.table
    if load.scratch is not None or not table.by_column or (delta := load.lake.delta(log.uri)) is None:
        return []
    here = schema_of(delta)
    added = [name for name in table.columns if name not in here.names]
    if not added or UNSET not in here.names:  # a log without this column has only changes that set all columns
        return []
    columns = T.StructType([*here.fields, *(log.schema[name] for name in added)])

    def marked(rows: DataFrame) -> DataFrame:
        return rows.withColumn(UNSET, leaving_unset(added))

    # alone, as a change that is added meanwhile would not be marked
    if not rewrite_log(load, delta, marked, columns=columns, alone=True, note=f"unset: {', '.join(added)}"):
        raise ConcurrentLoad(
            f"{table.name}: another load committed to the log while {', '.join(added)} was marked as a new column",
            rule="changes from before the declaration of a column leave it unset",
            remedy="the load is tried again",
        )
    return added
