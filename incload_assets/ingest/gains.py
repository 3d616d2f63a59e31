"""A window that has gained files and lost nothing: only these are read, validated and written.

The rows that were ingested before stay in the log as they are, so that a file that comes into an open window costs what
it holds and not what the window holds. The log then has what an ingestion of the whole window would have put there, as
what is validated of a record depends on the record alone. Where it does not, or where an ingestion has more to do than
to add rows, the window is ingested as a whole.
"""

from dataclasses import replace

import pyarrow.compute as pc

from incload_assets.change_log.change import CONTROL
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import MAX_PARTITIONS
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.delta.sql import literal
from incload_assets.ingest.facts import Facts
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.ingest.validate import tearing_column
from resources.lake import data_files, files_in

MOST_FILES = 24
"""Most files of a window in the log to which others are added; a window of more is ingested anew, in few files."""


def gain_of(load: LoadContext, ingestion: Ingestion) -> Position | None:
    """What the source holds beside everything that was ingested; None where the window is to be ingested as a whole."""
    table, before = load.table, ingestion.before
    if (
        before is None
        or before.code_version != table.code_version
        or before.replaced  # markers, which an ingestion drops when their keys are done
        or before.compacted_at is not None
        or not _judges_each_by_itself(table)
    ):
        return None
    gain = table.source.gained(before.as_position(), ingestion.position)
    if gain is None:
        return None
    log = load.lake.delta(load.log.uri, ingestion.log_version)
    if log is None:
        return None
    files = files_in(data_files(log), "_window", [ingestion.window.key])
    here = files.filter(pc.field("partition._kind") != CONTROL).num_rows
    return gain if here <= MOST_FILES else None


def _judges_each_by_itself(table: Table) -> bool:
    """Whether no row of a window is validated, or marked, by what others there are in it."""
    changes, write = table.changes, table.write
    return not (
        table.contract.unique
        or write.together()
        or tearing_column(table)
        or changes.snapshot_when
        or table.source.mixes_tables
        or table.source.retains_absent_keys
        or not write.marked(table.contract, changes)  # written by scope: guarded by what the whole window holds
    )


def with_before(load: LoadContext, before: WindowRecord, gain: Facts) -> Facts:
    """The facts of a window, from what was ingested before and what has come."""
    both = [places for places in (before.partitions, gain.partitions) if places is not None]
    partitions = sorted({place for places in both for place in places})
    return replace(
        gain,
        rows=before.rows_read + gain.rows,
        rejected=before.rejected + gain.rejected,
        skipped=before.skipped + gain.skipped,
        partitions=partitions if len(both) == 2 and len(partitions) <= MAX_PARTITIONS else None,
        first_sequence=_first(load, before, gain),
    )


def _first(load: LoadContext, before: WindowRecord, gain: Facts) -> str | None:
    """The smaller of two first sequences; what has no changes has none that counts."""
    firsts = [
        first
        for first, changes in (
            (before.first_sequence, before.rows_read - before.rejected - before.skipped),
            (gain.first_sequence, gain.rows - gain.rejected - gain.skipped),
        )
        if changes
    ]
    if None in firsts or len(firsts) < 2:
        return firsts[0] if len(firsts) == 1 else None
    kind = load.table.type_of(load.table.changes.sequence_by[0]).simpleString()
    values = ", ".join(f"CAST({literal(first)} AS {kind})" for first in firsts if first is not None)
    row = load.spark.sql(f"SELECT CAST(least({values}) AS STRING) AS first").first()
    return row["first"] if row else None
