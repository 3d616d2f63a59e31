"""Ingests only the new rows of a window that has gained files or messages and lost nothing, at the cost of these alone.

The rows ingested before stay in the log unchanged. The log then has the same rows as after an ingestion of the whole
window, because validation of a record depends on that record alone, and for some tables on the partitions of other
records of its key, which are looked for. If it depends on others in another way, or if an ingestion has to do more than
add rows, the window is ingested as a whole.
"""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow.compute as pc
from pyspark.sql import DataFrame

from incload_assets.change_log.change import CONTROL
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import MAX_PARTITIONS, oldest_sql
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.ingest.compared import tearing_column
from incload_assets.ingest.facts import CONTENTS, Facts, has_torn_keys
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.platform.lake import data_files, files_in
from incload_assets.platform.sql import col

MOST_FILES = 24
"""Most files of a window in the log that others are added to; a window with more is rewritten to few files."""


def gain_of(load: LoadContext, ingestion: Ingestion) -> Position | None:
    """The position of the source's content that is not ingested yet; None: the window is ingested as a whole."""
    table, before = load.table, ingestion.before
    if (
        before is None
        or before.code_version != table.code_version
        or before.replaced  # an ingestion removes these markers once their keys are merged
        or before.compacted_at is not None
        or not alone_but_for_places(table)
    ):
        return None
    return table.source.gained(before.as_position(), ingestion.position)


def is_scattered(load: LoadContext, ingestion: Ingestion) -> bool:
    """True if a window has so many files in the log that they are better rewritten than added to."""
    log = load.lake.delta(load.log.uri, ingestion.log_version)
    if log is None:
        return True
    files = files_in(data_files(log), "_window", [ingestion.window.key])
    return bool(files.filter(pc.field("partition._kind") != CONTROL).num_rows > MOST_FILES)


def renewal_of(load: LoadContext, ingestion: Ingestion) -> Position | None:
    """The part of a window that differs from the ingested one, if all its rows were accepted; None: all is read."""
    before = ingestion.before
    if (
        before is None
        or before.code_version != load.table.code_version
        or before.compacted_at is not None
        or before.erasing
        or before.rejected
        or before.skipped
        or before.erased
    ):
        return None
    return load.table.source.renewed(before.as_position(), ingestion.position)


def validates_each_alone(table: Table) -> bool:
    """True if a row's validation and markers do not depend on other rows of its window."""
    return tearing_column(table) is None and alone_but_for_places(table)


def alone_but_for_places(table: Table) -> bool:
    """The same, unless rows of its key are in other partitions."""
    changes, write = table.changes, table.write
    return not (
        table.contract.unique
        or write.together()
        or changes.snapshot_when
        or table.source.retains_absent_keys
        or not write.marked(table.contract, changes)  # written by scope: guards compare the whole window
    )


def has_other_places(load: LoadContext, ingestion: Ingestion, gain: DataFrame, facts: Facts) -> bool:
    """True if a key of gained rows has two partitions, in these rows and those ingested before."""
    table, place = load.table, tearing_column(load.table)
    if place is None or facts.of_one_partition:
        return False
    keys = list(table.changes.keys)
    rows = gain.select("_window", *map(col, [*keys, place]))
    before = load.log.read(load.spark, ingestion.log_version, [ingestion.window.key]).select(*map(col, rows.columns))
    beside = before.join(rows.select(*map(col, keys)).distinct(), keys, "left_semi").select(*map(col, rows.columns))
    return has_torn_keys(rows.unionByName(beside), table, [facts])


def with_before(load: LoadContext, before: WindowRecord, gain: Facts) -> Facts:
    """The facts of a window, combined from the earlier ingestion and the gain."""
    both = [places for places in (before.partitions, gain.partitions) if places is not None]
    partitions = sorted({place for places in both for place in places})
    alike = _is_placed_as_now(load, before)
    return replace(
        gain,
        rows=before.rows_read + gain.rows,
        rejected=before.rejected + gain.rejected,
        skipped=before.skipped + gain.skipped,
        erased=before.erased + gain.erased,
        partitions=partitions if len(both) == 2 and alike and len(partitions) <= MAX_PARTITIONS else None,
        first_sequence=_first(load, before, gain),
        content=content_with(before, gain.content),
        largest_key=_greatest(before.largest_key, gain.largest_key),
        largest_place=_greatest(before.largest_place, gain.largest_place),
    )


def _is_placed_as_now(load: LoadContext, part: WindowRecord | Facts) -> bool:
    """True if the places of a part are partition values, or buckets of the number that the table has now."""
    return load.log.buckets_of(load.log.open(), part.buckets) == load.table.write.divided_into


def _greatest(*counts: int | None) -> int | None:
    return max((count for count in counts if count is not None), default=None)


def content_with(before: WindowRecord, more: int | None) -> int | None:
    """The content of a window that holds more, or less if it is negative, than before; None if it is unknown."""
    return None if before.content is None or more is None else (before.content + more) % CONTENTS


def facts_together(load: LoadContext, parts: Sequence[Facts]) -> Facts:
    """The facts of a window whose rows were validated in parts, each by itself."""
    places = [part.partitions for part in parts if part.partitions is not None]
    partitions = sorted({place for some in places for place in some})
    contents = [part.content for part in parts if part.content is not None]
    alike = all(_is_placed_as_now(load, part) for part in parts)
    return Facts(
        rows=sum(part.rows for part in parts),
        rejected=sum(part.rejected for part in parts),
        skipped=sum(part.skipped for part in parts),
        erased=sum(part.erased for part in parts),
        replaced=sum(part.replaced for part in parts),
        partitions=partitions if len(places) == len(parts) and alike and len(partitions) <= MAX_PARTITIONS else None,
        first_sequence=_least(
            load, [(part.first_sequence, part.rows - part.rejected - part.skipped - part.erased) for part in parts]
        ),
        content=sum(contents) % CONTENTS if len(contents) == len(parts) else None,
        unseen=tuple(sorted(set[str].intersection(*(set(part.unseen) for part in parts)))),
        buckets=load.table.write.divided_into or 0,
        largest_key=_greatest(*(part.largest_key for part in parts)),
        largest_place=_greatest(*(part.largest_place for part in parts)),
    )


def _first(load: LoadContext, before: WindowRecord, gain: Facts) -> str | None:
    """The smaller of two first sequences, ignoring a part without changes."""
    changes = before.rows_read - before.rejected - before.skipped - before.erased
    gained = gain.rows - gain.rejected - gain.skipped - gain.erased
    return _least(load, [(before.first_sequence, changes), (gain.first_sequence, gained)])


def _least(load: LoadContext, parts: Sequence[tuple[str | None, int]]) -> str | None:
    """The least first sequence of parts with so many changes; None if a change of one of them has no sequence."""
    firsts = list(dict.fromkeys(first for first, changes in parts if changes))
    if None in firsts or len(firsts) < 2:
        return firsts[0] if len(firsts) == 1 else None
    oldest = oldest_sql(load.table, [first for first in firsts if first is not None])
    row = load.spark.sql(f"SELECT CAST({oldest} AS STRING) AS first").first()
    return row["first"] if row else None
