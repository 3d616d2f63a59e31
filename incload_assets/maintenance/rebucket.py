"""Divides an existing table into another number of hash buckets: the number that its declaration has now.

Each step can be repeated, and a killed rebucketing goes on when it is started again.

1. Landings that are not merged yet are merged by the former number.
2. The log's property gets the new number. From then on loads of the former declaration stop: those that begin, and
   those that plan a merge. A window that was landed meanwhile takes this step back.
3. The fences of all windows are moved. A merge that was planned before is rejected, however late it is sent.
4. The table is rewritten in one commit. Its readers go on. Rows that another writer adds meanwhile are found by the
   next step.
5. The rows before and after that commit are compared, bucket by bucket: their number, and a hash of their content. If
   they differ, the table is restored.
6. The table's property gets the new number. From then on loads of the present declaration go on.

While log and table have different numbers no load can begin, so that step 4 can be repeated, by another number as well.
The window records of the log stay as they are, with the number of buckets that each is of.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.log import numbers_of_buckets
from incload_assets.change_log.window_records import BASE, WindowRecord
from incload_assets.contract.adaptation import BUCKET, BUCKETS, BUCKETS_PROPERTY, NO_BUCKETS, THEN, stored_differences
from incload_assets.declaration.contract_of import adaptation_of, stored_as
from incload_assets.declaration.layout import bucket_sql
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.declaration.write import AUTO
from incload_assets.delta.tables import lost_the_race, schema_of, set_properties, stored_of
from incload_assets.load.apply import apply_changes
from incload_assets.load.placement import refuse_foreign
from incload_assets.load.range_fences import call_off_all_merges, call_off_merges, not_merged
from incload_assets.platform.attempts import in_attempts
from incload_assets.platform.errors import ConcurrentLoad, IncrementalLoadError, SchemaMismatch
from incload_assets.platform.lake import bytes_of, data_files, rows_of
from incload_assets.platform.sql import col, content_hash_sql
from incload_assets.platform.wording import several
from incload_assets.progress.audit import AuditEntry, record
from incload_assets.progress.claims import claim, claimed_by_others, end_claim
from incload_assets.writes.merge_into import app_id

ATTEMPTS = 5
FILE_BYTES = 128 * 2**20
"""About the size of the files of a table that is no longer divided."""
_HOLDER, _WHILE = "rebucket", timedelta(hours=12)
"""The holder of the claim of a rebucketing, and the longest time that a table is paused for it."""
REWRITTEN = "incload.rebucketed"
"""Property of the log: the number of the table's last rewrite before the one that has begun."""
_LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"


@dataclass(frozen=True)
class Rebucketed:
    """The result of a rebucketing: the numbers of buckets before and after (None: not divided), and what was proven.

    ``rows`` is None if the table had the number already.
    """

    before: int | None
    after: int | None
    rows: int | None = None
    files_before: int = 0
    files_after: int = 0
    size: int = 0

    def summary(self, name: str) -> str:
        """The result in a line."""
        if self.rows is None:
            return f"{name}: is as it is declared, with {_buckets(self.after)}."
        return (
            f"{name}: {_buckets(self.before)} became {_buckets(self.after)}, {several(self.files_before, 'file')} "
            f"{self.files_after}; {several(self.rows, 'row')} proven equal by number and content hash of each bucket"
        )


def rebucket(load: LoadContext, *, because: str = "") -> Rebucketed:
    """Divides the table into the declared number of buckets; repeated it goes on where it was killed.

    No erasure or other rebucketing of the table is running. Loads may be.

    Raises:
        SchemaMismatch: There is no table, another writer made it, it differs from its declaration in more than the
            number of buckets, or Delta refuses the rewrite.
        ConcurrentLoad: Loads committed first in every attempt; the table is as it was, or the next call goes on.
        IncrementalLoadError: Rows before and after differ; the table was restored.
    """
    _refuse(load)
    table, log = _opened(load)
    declared, before = load.table.write.divided_into, _number_in(table)
    if not _is_rewritten(load, table, log):
        if before == declared and _is_divided(table) == (declared is not None):
            if numbers_of_buckets(log)[-1] != declared:  # what has begun for another declaration
                _set_in_log(load, log, declared)
            return Rebucketed(declared, declared)
        _take_over(load, before)
    done = in_attempts(ATTEMPTS, lambda: _rewritten(load), _others_first(load))
    done = replace(done, before=before)
    _set_in_log(load, load.log.open(), declared)
    set_properties(load.spark, load.lake, load.uri, _properties(load))
    details = {"before": _text(before), "after": _text(declared), "rows": str(done.rows)}
    entry = AuditEntry(action="rebucket", table=load.table.name, because=because, run_id=load.run_id, details=details)
    record(load.lake, entry)
    return done


def as_wanted(table: Table, number: int | None) -> Table:
    """The table with the number of buckets that somebody asks for, if its declaration leaves the number open."""
    return table if number is None or table.write.buckets != AUTO else table.divided_into(number)


def rebucket_alone(load: LoadContext, wanted: int | None, *, because: str = "") -> Rebucketed:
    """The rebucketing of a table that is paused meanwhile for everything else, see :func:`rebucket`.

    ``wanted`` is the number that somebody asks for, None: the declared one. One that has died is gone on with.

    Raises:
        SchemaMismatch: As :func:`rebucket`; or another number is asked for than is declared.
        IncrementalLoadError: As :func:`rebucket`; or an erasure has the table.
    """
    table, lake = load.table, load.lake
    if wanted is not None and wanted != table.write.divided_into:
        raise SchemaMismatch(
            f"{table.name}: {_buckets(wanted)} are asked for, declared is buckets={table.write.divided_into}",
            rule="the declaration says how many buckets a table has; loads stop while the table has another number",
            remedy=f"declare buckets={wanted} first, and repeat the command; or leave --buckets out",
        )
    why = f"it is divided into {_buckets(table.write.divided_into)}" + (f": {because}" if because else "")
    made = claim(lake, table.name, now() + _WHILE, why, holder=_HOLDER, run_id=load.run_id)
    if made is None:
        raise IncrementalLoadError(
            f"{table.name}: other work is alone with the table: {claimed_by_others(lake, table.name, _HOLDER)}",
            rule="a table is not rewritten while a person is erased from it",
            remedy="repeat the command when the other work has ended",
        )
    try:
        return rebucket(load, because=because)
    finally:
        end_claim(lake, made, "the table is divided", run_id=load.run_id)


def _refuse(load: LoadContext) -> None:
    """Refuses a table that differs from its declaration in more than the number of buckets, or is none of ours."""
    name = load.table.name
    table, log = load.lake.delta(load.uri), load.lake.delta(load.log.uri)
    if table is None or log is None:
        raise SchemaMismatch(
            f"{name}: there is no table {load.uri} with a log yet",
            rule="an existing table is rewritten; a new one gets its buckets from its first load",
            remedy=f"load it: incload load {name} --all-missing",
        )
    refuse_foreign(load)
    has, adaptation = stored_of(table), adaptation_of(load.table)
    found = stored_differences(has, stored_as(load.table), adaptation=adaptation)
    if others := [one for one in found if one.stops and one.kind != BUCKETS]:
        one = others[0]
        raise SchemaMismatch(
            f"{name}: {one.kind.name}: {one.column or load.uri} was {one.was}, declared is {one.now}",
            rule="a rebucketing changes the number of buckets and nothing else",
            remedy=one.remedy(name),
        )


def _opened(load: LoadContext) -> tuple[DeltaTable, DeltaTable]:
    table = load.lake.delta(load.uri)
    assert table is not None
    return table, load.log.open()


def _is_divided(table: DeltaTable) -> bool:
    return BUCKET in table.metadata().partition_columns


def _number_in(table: DeltaTable) -> int | None:
    """The number of buckets that loads take the table to have."""
    known = table.metadata().configuration.get(BUCKETS_PROPERTY, NO_BUCKETS)
    return None if known == NO_BUCKETS else int(known)


def _is_rewritten(load: LoadContext, table: DeltaTable, log: DeltaTable) -> bool:
    """True if a killed rebucketing may have committed the table, whose number neither log nor table tells."""
    begun = log.metadata().configuration.get(REWRITTEN)
    if begun is None or numbers_of_buckets(log)[-1] == _number_in(table):
        return False
    return (table.transaction_version(_app_id(load)) or 0) > int(begun)


def _take_over(load: LoadContext, before: int | None) -> None:
    """Stops loads of the former number: when it returns, none of them is to be merged, or can be."""
    former = replace(load, table=replace(load.table, write=replace(load.table.write, buckets=before)))

    def taken() -> bool | None:
        table, log = _opened(load)
        if numbers_of_buckets(log)[-1] != before:  # a killed rebucketing; loads of either number stop until now
            _set_in_log(load, log, before)
        _merge_landed(former)
        _set_in_log(load, load.log.open(), load.table.write.divided_into, begins=True)
        records = load.log.records_in(load.log.open())
        if _not_merged(load, records):
            _set_in_log(load, load.log.open(), before)
            return None
        call_off_all_merges(load, records, _others_first(load))
        if BUCKETS_PROPERTY not in table.metadata().configuration:  # no load may take the new number for its own
            set_properties(load.spark, load.lake, load.uri, {BUCKETS_PROPERTY: NO_BUCKETS})
        return True

    try:
        in_attempts(ATTEMPTS, taken, _others_first(load))
    except PySparkException as error:
        if lost_the_race(error):
            raise _others_first(load) from None
        raise


def _set_in_log(load: LoadContext, log: DeltaTable, number: int | None, *, begins: bool = False) -> None:
    """Makes a number the last one in the log's property; ``begins`` says how often the table was rewritten before."""
    known = log.metadata().configuration.get(BUCKETS_PROPERTY, NO_BUCKETS).split(THEN)
    numbers = known if known[-1] == _text(number) else [*known, _text(number)]
    of_keys = {name: value for name, value in _properties(load).items() if name != BUCKETS_PROPERTY}
    begun = {REWRITTEN: str(load.lake.transaction_version(load.uri, _app_id(load)) or 0)} if begins else {}
    set_properties(load.spark, load.lake, load.log.uri, of_keys | begun | {BUCKETS_PROPERTY: THEN.join(numbers)})


def _merge_landed(former: LoadContext) -> None:
    """Merges what loads have landed and not merged: some are under way, or were killed."""
    records = former.log.records_in(former.log.open())
    for key in _not_merged(former, records):
        [window] = former.table.known_windows([key])
        former.info(f"{former.table.name} {key}: merges what a load has landed")
        call_off_merges(former, window)
        apply_changes(former, (window,), app_id(former.table, window), is_again=lambda _: True)


def _not_merged(load: LoadContext, records: Mapping[str, WindowRecord]) -> list[str]:
    table, _ = _opened(load)
    windows = load.table.known_windows(key for key in records if not key.startswith(BASE))
    return not_merged(load.table, {window: records[window.key] for window in windows}, table)


def _rewritten(load: LoadContext) -> Rebucketed | None:
    """Rewrites the table and proves it; None if another writer committed first."""
    delta, _ = _opened(load)
    number, bucket = (delta.transaction_version(_app_id(load)) or 0) + 1, bucket_sql(load.table)
    columns = [one for one in schema_of(delta).fields if one.name != BUCKET]
    kept = [col(one.name).alias(one.name, metadata=one.metadata or {}) for one in columns]
    comment = {"metadata": stored_as(load.table).columns[BUCKET].metadata or {}} if bucket else {}
    placed = [F.expr(bucket).alias(BUCKET, **comment)] if bucket else []
    # not of a fixed version, which the transaction would not know to have read
    rows = load.spark.read.format("delta").load(load.lake.spark_uri(load.uri))
    by = [name for name in (*delta.metadata().partition_columns, BUCKET) if name != BUCKET or bucket]
    by, files = [*dict.fromkeys(by)], data_files(delta)
    options = {"txnAppId": _app_id(load), "txnVersion": str(number), "userMetadata": f"rebucket, run {load.run_id}"}
    if by == delta.metadata().partition_columns:
        options["dataChange"] = "false"  # derived tables and readers of a change feed see that no row has changed
    else:
        options["overwriteSchema"] = "true"
    made = rows.select(*kept, *placed)
    made = made.repartition(*map(col, by)) if bucket else made.repartition(1 + bytes_of(files) // FILE_BYTES)
    load.spark.conf.unset(_LAST_COMMIT)
    try:
        made.write.partitionBy(*by).save(load.lake.spark_uri(load.uri), format="delta", mode="overwrite", **options)
    except PySparkException as error:
        if lost_the_race(error):
            return None
        raise _refused(load, error) from None
    if (version := load.spark.conf.get(_LAST_COMMIT, None)) is None:
        return None
    made_at = load.lake.delta(load.uri, int(version))
    assert made_at is not None
    _prove(load, int(version), rows_of(files))
    files_now = data_files(made_at)
    return Rebucketed(None, load.table.write.divided_into, rows_of(files_now), files.num_rows, files_now.num_rows,
                      bytes_of(files_now))  # fmt: skip


def _prove(load: LoadContext, version: int, rows: int) -> None:
    """Compares each bucket before and after a commit by its number of rows and the sum of their content hashes."""
    before, after = (
        load.spark.read.format("delta").option("versionAsOf", at).load(load.lake.spark_uri(load.uri))
        for at in (version - 1, version)
    )
    of_key, names = bucket_sql(load.table), [name for name in after.columns if name != BUCKET]
    differing = (
        _sums(before, names, F.expr(of_key) if of_key else F.lit(0), 1)
        .unionByName(_sums(after, names, col(BUCKET) if of_key else F.lit(0), -1))
        .groupBy("place")
        .agg(F.sum("rows").alias("rows"), F.sum("content").alias("content"))
        .filter("rows <> 0 OR content <> 0")
        .count()
    )
    if not differing:
        return
    load.spark.sql(f"RESTORE TABLE {load.lake.sql_name(load.uri)} TO VERSION AS OF {version - 1}")
    raise IncrementalLoadError(
        f"{load.table.name}: {several(differing, 'bucket')} of the rewritten table differ from the same rows before, "
        f"of {several(rows, 'row')}",
        rule="each bucket has the same rows before and after, by number and content hash; the table was restored",
        remedy="find the other writer of the table, and repeat the command; or restore the declaration and repeat it",
    )


def _sums(rows: DataFrame, names: list[str], place: Column, sign: int) -> DataFrame:
    content = F.expr(content_hash_sql(names)).cast("decimal(28,0)")
    placed = rows.select(place.alias("place"), content.alias("content"))
    return placed.groupBy("place").agg(
        (F.count(F.lit(1)) * sign).alias("rows"), (F.sum("content") * sign).alias("content")
    )


def _refused(load: LoadContext, error: PySparkException) -> Exception:
    text = str(error)
    if "[DELTA_" not in text:
        return error
    return SchemaMismatch(
        f"{load.table.name}: Delta refuses to rewrite {load.uri}: {text.splitlines()[0]}",
        rule="the table is rewritten in one commit, which its properties and columns have to allow; no row was changed",
        remedy="change the property that forbids it for the time of the rewrite, or restore the declaration and repeat "
        f"incload rebucket {load.table.name}",
    )


def _properties(load: LoadContext) -> dict[str, str]:
    """The properties of table and log that the declaration's buckets have."""
    declared = {n: v for n, v in stored_as(load.table).properties.items() if n.startswith("incload.bucket")}
    return {BUCKETS_PROPERTY: NO_BUCKETS} | declared


def _app_id(load: LoadContext) -> str:
    return f"{load.table.name}/buckets"


def _text(number: int | None) -> str:
    return NO_BUCKETS if number is None else str(number)


def _buckets(number: int | None) -> str:
    return "no buckets" if number is None else several(number, "bucket")


def _others_first(load: LoadContext) -> ConcurrentLoad:
    return ConcurrentLoad(
        f"{load.table.name}: loads committed first in each of {ATTEMPTS} attempts to rewrite the table",
        rule="the table is rewritten when no load changes it; what has begun goes on with the next attempt",
        remedy=f"pause the table, and repeat: incload rebucket {load.table.name}",
    )
