"""The examination of a Delta table that no load has made, for adoption: keys, columns, layout, features and writers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyspark.sql.types as T
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.context import LoadContext
from incload_assets.contract.contract import MASK
from incload_assets.declaration import window as windows
from incload_assets.declaration.layout import bucket_sql
from incload_assets.declaration.table import Table
from incload_assets.declaration.write import BUCKET
from incload_assets.delta.tables import schema_of
from incload_assets.platform.errors import SchemaMismatch
from incload_assets.platform.sql import all_of, col, quoted, row_id_sql
from incload_assets.platform.unreadable import READER_FEATURES
from incload_assets.platform.wording import several
from incload_assets.protection.protect import is_protected
from incload_assets.writes.delete_insert import DeleteInsert
from incload_assets.writes.merge import Merge

RECENT = timedelta(days=7)
"""How long ago the last commit of another writer is that is reported."""
COMMITS = 200
"""Most commits of the table that are looked at."""

_WRITTEN_BY_DELTA = {"delta.columnMapping.mode": ("", "none"), "delta.appendOnly": ("", "false")}
"""Properties of a table, and the values with which a load can write it."""

_REASONS = {
    "History": (
        "a row of a history is a period, made of changes that the table does not have",
        "write these changes to files, and load them as the first window of a table with another name",
    ),
    "Snapshot": (
        "the newest full extract makes all rows",
        "move the Delta table away, and load the newest extract, which makes the table again",
    ),
    "FullReload": (
        "the newest full extract makes all rows",
        "move the Delta table away, and load the newest extract, which makes the table again",
    ),
    "Fold": (
        "a row is the sum of contributions of windows, and a load of a window that it contains would add it again",
        "load the table from its source under another name",
    ),
}


@dataclass
class Findings:
    """The findings of the examination of a table: problems, each with what to do, and notes for a person.

    A row that is marked as deleted becomes two changes.
    """

    rows: int = 0
    changes: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def refuse(self, table_name: str) -> None:
        """Raises an error with all problems, if there are any."""
        if self.problems:
            raise SchemaMismatch(
                f"{table_name}: the table cannot be adopted as it is: {'; '.join(self.problems)}",
                rule="each row of an adopted table becomes a change of its log, and loads then write the table",
                remedy="do what is said above, then adopt again; nothing was changed",
            )


def refuse_strategy(table: Table) -> None:
    """Refuses a table whose rows cannot become changes."""
    if table.write.adoptable:
        return
    name = type(table.write).__name__
    rule, remedy = _REASONS.get(name, ("its rows are no changes", "load the table from its source under another name"))
    raise SchemaMismatch(f"{table.name}: a table with write={name}() cannot be adopted", rule=rule, remedy=remedy)


def examine(load: LoadContext, delta: DeltaTable) -> Findings:
    """Examines a version of a table whose declaration can be adopted."""
    found = Findings()
    found.problems += _feature_problems(delta)
    schema, here = load.table.schema, schema_of(delta)
    found.problems += _column_problems(load, schema, here, found.notes)
    found.problems += _layout_problems(load, delta, here)
    found.notes += _writers(delta)
    if not found.problems:
        _look_at_rows(load, delta, here, found)
    return found


def _feature_problems(delta: DeltaTable) -> Iterator[str]:
    protocol, properties = delta.protocol(), delta.metadata().configuration
    if unknown := sorted(set(protocol.reader_features or ()) - READER_FEATURES):
        yield f"it uses {', '.join(unknown)}, which readers of the lake do not know: drop the feature, or write a copy"
    for name, allowed in _WRITTEN_BY_DELTA.items():
        if (value := properties.get(name, "")) not in allowed:
            yield f"it has {name} = {value}: write a copy without it"


def _column_problems(load: LoadContext, wanted: T.StructType, here: T.StructType, notes: list[str]) -> Iterator[str]:
    table, spelled = load.table, {name.lower(): name for name in here.names}
    required = {f.name for f in table.contract.fields if not f.nullable} | {*table.identity}
    for declared in wanted.fields:
        name, kind = declared.name, declared.dataType.simpleString()
        found = spelled.get(name.lower())
        if found is None and name in required:
            yield f"it lacks the column {name}, which may not be NULL: add and fill it"
        elif found is None and name not in table.columns:
            yield f"it lacks the column {name} {kind}, which the write strategy fills: add it, with false in each row"
        elif found is None:
            notes.append(f"the column {name} is missing, and becomes NULL in all rows")
        elif found != name:
            yield f"its column {found} is declared as {name}: declare it as {found}"
        elif (was := here[found].dataType.simpleString()) != kind:
            yield f"its column {found} is {was}, declared is {kind}: declare {was}, or write a copy with the type"
        elif not here[found].nullable and found not in required:
            yield f"its column {found} is NOT NULL, and the contract allows NULL: ALTER COLUMN {found} DROP NOT NULL"
    for extra in here.fields:
        name = extra.name
        if name.lower() in {known.lower() for known in wanted.names} or name == BUCKET:
            continue
        if table.write.is_content(table.changes):
            yield f"its column {name} is not in the contract, and its whole content identifies a row: declare it"
        elif not extra.nullable:
            yield f"its column {name} is NOT NULL and not in the contract: declare it, or drop NOT NULL"
        else:
            notes.append(f"the column {name} is not in the contract: rows that a load inserts have NULL there")


def _layout_problems(load: LoadContext, delta: DeltaTable, here: T.StructType) -> Iterator[str]:
    table, actual = load.table, tuple(delta.metadata().partition_columns)
    if actual == table.write.stored_by:
        return
    name, by = load.lake.sql_name(load.uri), ", ".join(map(quoted, table.write.stored_by))
    columns = f"*, {bucket_sql(table)} AS {BUCKET}" if table.write.divided_into and BUCKET not in here.names else "*"
    placed = f"PARTITIONED BY ({by}) " if by else ""
    statement = f"CREATE OR REPLACE TABLE {name} USING delta {placed}AS SELECT {columns} FROM {name}"
    wanted = list(table.write.stored_by)
    yield f"it is partitioned by {list(actual)}, declared is {wanted}: declare that, or {statement}"


def _writers(delta: DeltaTable) -> Iterator[str]:
    since = windows.now() - RECENT
    recent: Counter[str] = Counter()
    last: datetime | None = None
    for one in delta.history(COMMITS):
        at = datetime.fromtimestamp(one.get("timestamp", 0) / 1000, UTC)
        if at < since:
            continue
        last = max(last, at) if last else at
        who = [one.get("userName") or "", one.get("engineInfo") or one.get("clientVersion") or "an unknown engine"]
        recent[" with ".join(filter(None, who))] += 1
    if last is not None:
        shown = ", ".join(f"{who} ({count})" for who, count in recent.most_common(3))
        yield (
            f"others have written the table within {RECENT.days} days, last on {last:%Y-%m-%d %H:%M} UTC: {shown}; "
            "stop them, as a load would undo what they write"
        )


def _look_at_rows(load: LoadContext, delta: DeltaTable, here: T.StructType, found: Findings) -> None:
    """Counts what the rows lack, in one aggregate, and keys that occur twice, in another."""
    table = load.table
    rows = load.spark.read.format("delta").option("versionAsOf", delta.version()).load(load.lake.spark_uri(load.uri))
    absent = {f.name: F.lit(None).cast(f.data_type) for f in table.contract.fields if f.name not in here.names}
    rows = rows.withColumns(absent) if absent else rows
    marked, bucket, reasons = _marked(table), bucket_sql(table), table.contract.reasons()
    first = col(table.changes.sequence_by[0]) if table.changes.sequence_by else F.lit(0)
    invalid = F.when(F.size(reasons) > 0, F.element_at(reasons, 1))
    sums = rows.agg(
        F.count(F.lit(1)).alias("rows"),
        *(F.count(F.when(col(name).isNull(), 1)).alias(f"key {name}") for name in table.identity),
        F.count(F.when(first.isNull(), 1)).alias("unordered"),
        F.count(invalid).alias("invalid"),
        F.min(invalid).alias("reason"),
        F.count(F.when(~col(BUCKET).eqNullSafe(F.expr(bucket)), 1) if bucket else F.lit(None)).alias("misplaced"),
        *(F.count(F.when(~is_protected(name, table), 1)).alias(f"clear {name}") for name in table.contract.protections),
        F.count(F.when(marked, 1)).alias("deleted"),
        F.count(F.when(marked.isNull(), 1)).alias("unmarked"),
    ).first()
    assert sums is not None
    found.rows, found.changes = sums["rows"], sums["rows"] + sums["deleted"]
    problems, notes = found.problems, found.notes
    for name in table.identity:
        if count := sums[f"key {name}"]:
            problems.append(f"{several(count, 'row')} with NULL in {name}, which identifies a row: delete or fill them")
    for name, protection in table.contract.protections.items():
        if count := sums[f"clear {name}"]:
            problems.append(f"{several(count, 'value')} of {name} not as {protection} makes them: replace them")
    if sums["misplaced"]:
        problems.append(
            f"{several(sums['misplaced'], 'row')} not in the bucket of their key: fill {BUCKET} with {bucket}"
        )
    if sums["unmarked"]:
        problems.append(
            f"{several(sums['unmarked'], 'row')} with NULL in the column of soft_delete: fill it with false"
        )
    if sums["invalid"]:
        text = f"{several(sums['invalid'], 'row')} against the contract, for example {sums['reason']}"
        if table.by_column:
            problems.append(f"{text}: correct them, as a row that lacks required columns waits for them")
        else:
            notes.append(f"{text}; they stay until newer changes of their keys come")
    if sums["unordered"]:
        notes.append(
            f"{several(sums['unordered'], 'row')} without {table.changes.sequence_by[0]}: "
            "any later change will replace them"
        )
    problems += _repeated(table, rows)


def _marked(table: Table) -> Column:
    """True if a row is marked as deleted."""
    write = table.write
    return col(write.soft_delete) if isinstance(write, Merge) and write.soft_delete is not None else F.lit(False)


def _repeated(table: Table, rows: DataFrame) -> Iterator[str]:
    """Keys with several rows, or groups that are several sets."""
    keys: Sequence[str]
    if not table.write.reads_base:
        return
    if isinstance(table.write, DeleteInsert):
        place = F.to_json(F.struct(*map(col, table.changes.sequence_by)))
        keys, count = table.write.by, F.count_distinct(place)
        noun, what, then = "group", "with rows of several sequences", "give the rows of a group one sequence"
    elif table.write.is_content(table.changes):
        rows = rows.select(F.expr(row_id_sql(table.columns)).alias("_id"))
        keys, count = (), F.count(F.lit(1))
        noun, what, then = "row", "with copies", "keep one of each, as the whole content identifies a row"
    else:
        keys, count = table.changes.keys, F.count(F.lit(1))
        noun, what, then = "key", "with several rows", "keep one row of each"
    rows = rows.filter(all_of(col(name).isNotNull() for name in keys))  # NULLs are reported by themselves
    groups = rows.groupBy(*map(col, keys or ("_id",))).agg(count.alias("_n")).filter("_n > 1")
    shown = [F.lit(MASK) if name in table.contract.personal else col(name).cast("string") for name in keys]
    example = F.min(F.concat_ws(", ", *shown)) if shown else F.lit(None)
    sums = groups.agg(F.count(F.lit(1)).alias("n"), example.alias("example")).first()
    if sums is not None and sums["n"]:
        named = f", for example {sums['example']}" if sums["example"] is not None else ""
        yield f"{several(sums['n'], noun)} {what}{named}: {then}"
