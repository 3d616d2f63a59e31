"""The details of the plan of a window: keys and rows that would change, files to rewrite, tables that would follow."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.scratch import Change
from incload_assets.contract.contract import MASK
from incload_assets.contract.conversion import as_text
from incload_assets.declaration.layout import laid_out_by
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.platform.lake import Lake, bytes_of, data_files, files_in
from incload_assets.platform.sql import any_of, col
from incload_assets.progress.progress import windows_to_look_at
from incload_assets.sources.upstream.delta_files import DeltaFiles
from incload_assets.sources.upstream.state import UpstreamState
from incload_assets.sources.upstream.tables import Tables
from incload_assets.what_if.planned import Basis, Follower, Sample, WindowPlan, digest, log_digest, table_digest
from incload_assets.what_if.preview import Preview
from incload_assets.writes.scratch import DOES

SAMPLES = 5
"""Most rows shown before and after."""
SHOWN_CHARACTERS = 80
"""Most characters of a value shown."""
PLACES = 1_000
"""Most values of the partition column from which the windows of derived tables are found; more concern all of them."""
MOVES_BYTES = 256 * 2**20
"""Size of a table up to which its other partitions are searched for the keys of new rows."""


def window_plan(found: Preview, tables: Sequence[Table], *, values: bool) -> WindowPlan:
    """The plan of a window by the preview of its load, which must not have ended.

    Tables derived from this one are found among all tables. Samples show ``values`` if asked for, but no personal ones.
    """
    load, report, changes = found.load, found.report, found.scratch.merged.changes
    merged, evidence, hold = report.merged, report.evidence, report.record.hold
    facts = [_facts(load, change) for change in changes]
    changed = [fact for fact in facts if fact["keys"]]
    files = _near_files(found)
    places: set[str] | None = set()
    for fact in changed:
        places = None if places is None or fact["places"] is None else places | set(fact["places"])
    samples: list[Sample] = []
    moved: int | None = 0
    for change in changes if changed else ():
        if change.by_key and merged.updated and len(samples) < SAMPLES:
            samples += _samples(load, change, values=values)[: SAMPLES - len(samples)]
        more = _moved(load, change)
        moved = None if moved is None or more is None else moved + more
    plan = WindowPlan(
        report.window.key,
        basis=_basis(found),
        again=not report.ingested and hold is None,
        rows_read=evidence.rows_read,
        inserted=merged.inserted,
        updated=merged.updated,
        deleted=merged.deleted,
        unchanged=max(0, evidence.keys - sum(fact["keys"] for fact in changed)),
        stale=evidence.stale,
        duplicate=evidence.duplicate,
        quarantined=evidence.quarantined,
        waiting=evidence.waiting,
        skipped=evidence.skipped,
        erased=evidence.erased,
        moved=moved,
        followers=_followers(load, tables, places) if changed else (),
        samples=samples,
    )
    return replace(plan, files=files[0], bytes=files[1]) if changed else plan


def _basis(found: Preview) -> Basis:
    """The versions that a preview was made from."""
    load, record, column = found.load, found.report.record, laid_out_by(found.load.table)
    partitions = found.partitions if column is not None else None
    touched = None if partitions is None else [digest([value]) for value in partitions]
    rows, log = (found.scratch.delta(uri) if found.scratch.exists(uri) else None for uri in (load.uri, load.log.uri))
    # a load that completes an undo leaves its source alone, which still holds what was undone
    source, summary = (record.fingerprint, record.summary) if record.hold is None else (record.hold.fingerprint, "")
    at_log = log_digest(log, found.report.window.key)
    return Basis(source, summary, at_log, table_digest(rows, column, touched), touched)


def _facts(load: LoadContext, change: Change) -> dict[str, Any]:
    """The number of keys that a merge changes, and the values of the partition column of their rows."""
    table, rows = load.table, change.rows
    if change.has_id:
        key: Column = F.col("s._id")
    else:
        key = F.struct(*(_either(name, change) for name in table.identity)) if table.identity else F.lit(1)
    by = table.write.partition_by
    asked = [F.count_distinct(key).alias("keys")]
    if by is not None:
        sides = [F.collect_set(side.cast("string")) for side in _sides(by, change)]
        both = sides[0] if len(sides) == 1 else F.array_union(*sides)
        asked.append(F.slice(both, 1, PLACES + 1).alias("places"))
    row = rows.agg(*asked).first()
    assert row is not None
    places = list(row["places"]) if by is not None else None
    return {"keys": row["keys"], "places": places if places is None or len(places) <= PLACES else None}


def _sides(name: str, change: Change) -> list[Column]:
    """A column of a changed row as it would be, and as it is."""
    after = F.when(F.col(DOES) != "delete", col(name, "s._row"))
    if not change.by_key:
        return [col(name, "s._row")]
    return [after, F.when(F.col(DOES) != "insert", col(name, "t"))]


def _either(name: str, change: Change) -> Column:
    return F.coalesce(*_sides(name, change)).alias(name)


def _samples(load: LoadContext, change: Change, *, values: bool) -> list[Sample]:
    """A few rows that a merge updates; values are read only if they are to be shown, and personal ones never."""
    table = load.table
    kinds = {field.name: field.dataType for field in table.schema.fields}
    personal = table.contract.personal

    def text(name: str, alias: str) -> Column:
        return as_text(col(name, alias), kinds[name])

    def shown(name: str, alias: str) -> Column:
        hidden = F.when(col(name, alias).isNotNull(), F.lit(MASK))
        return hidden if name in personal else F.substring(F.make_valid_utf8(text(name, alias)), 1, SHOWN_CHARACTERS)

    nothing = F.lit(None).cast("string")
    differing = [
        F.when(
            ~text(name, "t").eqNullSafe(text(name, "s._row")),
            F.struct(
                F.lit(name).alias("name"),
                (shown(name, "t") if values else nothing).alias("before"),
                (shown(name, "s._row") if values else nothing).alias("after"),
            ),
        )
        for name in table.schema.names
    ]
    names = (table.changes.keys or table.identity) if values else ()
    keys = [shown(name, "t").alias(f"key{place}") for place, name in enumerate(names)]
    rows = change.rows.filter(F.col(DOES) == "update")
    found = rows.select(*keys, F.array_compact(F.array(*differing)).alias("changed")).head(SAMPLES)
    return [
        Sample(
            {name: row[f"key{place}"] for place, name in enumerate(names)},
            {each["name"]: (each["before"], each["after"]) for each in row["changed"]},
        )
        for row in found
    ]


def _moved(load: LoadContext, change: Change) -> int | None:
    """The number of keys that would be in another partition than now; None if the table is too large to be searched."""
    table = load.table
    by, keys = table.write.partition_by, table.changes.keys
    if by is None or not keys or by in keys:
        return 0
    if change.at.table_bytes > MOVES_BYTES:
        return None
    new = change.rows.filter(F.col(DOES) != "delete")
    after = new.select(*(col(name, "s._row").alias(name) for name in keys), col(by, "s._row").alias("_to")).alias("n")
    if load.scratch is None or not load.scratch.exists(load.uri):
        return 0
    before = (
        replace(load, lake=Lake(load.lake.root))
        .rows(change.at)
        .select(*map(col, keys), col(by).alias("_from"))
        .alias("o")
    )
    same = [col(name, "n").eqNullSafe(col(name, "o")) for name in keys]
    condition = ~any_of([~each for each in same]) & ~F.col("_to").eqNullSafe(F.col("_from"))
    return int(after.join(before, condition, "left_semi").select(*map(col, keys)).distinct().count())


def _near_files(found: Preview) -> tuple[int, int]:
    """Number and size of the table's files that a load may rewrite."""
    uri, column = found.load.uri, laid_out_by(found.load.table)
    delta = found.scratch.delta(uri)
    if delta is None or not found.scratch.exists(uri):
        return 0, 0
    files = data_files(delta)
    if column is not None and found.partitions is not None and files.num_rows:
        files = files_in(files, column, found.partitions)
    return files.num_rows, bytes_of(files)


def _followers(load: LoadContext, tables: Iterable[Table], places: set[str] | None) -> list[Follower]:
    """The tables derived from the table directly, with the windows that would follow."""
    found, delta = [], load.lake.delta(load.uri)
    assert delta is not None
    for other in tables:
        source = other.source
        if not isinstance(source, Tables):
            continue
        for upstream in source.of:
            if upstream.path != tuple(load.table.key.path):
                continue
            windows = windows_to_look_at(other, now())
            if upstream.partition is None:
                keys = None if upstream.on is not None else [window.key for window in windows]
            elif places is None:
                keys = [window.key for window in windows]
            else:
                state = UpstreamState(upstream, DeltaFiles(delta, upstream.partition), windows, source.timezone)
                touched = [state.window_of(_value(place, upstream.kind)) for place in places]
                keys = [window.key for window in sorted({window for window in touched if window is not None})]
            found.append(Follower(other.name, keys))
    return found


def _value(place: str, kind: T.DataType | None) -> date | datetime:
    if isinstance(kind, T.DateType):
        return date.fromisoformat(place)
    found = datetime.fromisoformat(place)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
