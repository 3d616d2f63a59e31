"""The fences of loads of several windows at once.

They are named ``<table>/range <group>``, where the group is a stretch of the calendar, so that a later load of a window
knows which range may have tried it before. Before it ingests, a range commits an *intent*, a bare fence: as long as
there is none, no range can be on its way. A load of a window that another run may have tried *calls off* the
ranges of its group: it moves their fences, that of their ingestions before it ingests, that of their merges after it
has ingested, so that what a killed run left behind, or planned from an older log, is refused. ``tests/model/ranges.py``
explores all this.
"""

from incload_assets.change_log.commit import bare_fence
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window, first_window
from incload_assets.writes.merge_into import bare_merge_fence

WINDOWS_AT_ONCE = 32
FIRST_INGESTION = 1
"""What a range ingests was never ingested before."""


def range_app_id(table: Table, window: Window) -> str:
    """The identifier that fences the ranges which a window can be part of."""
    first = first_window(table.partitions_def)
    length = (first.end - first.start) * WINDOWS_AT_ONCE
    return f"{table.name}/range {(window.start - first.start) // length}"


def call_off_ingestions(load: LoadContext, window: Window) -> None:
    """Refuse whatever a range load of the window may still be about to ingest."""
    if _had_intent(load, window):
        bare_fence(load, f"{range_app_id(load.table, window)}/landing")


def call_off_merges(load: LoadContext, window: Window) -> None:
    """Refuse whatever a range load may still be about to merge that was planned before the window was ingested."""
    if _had_intent(load, window):
        bare_merge_fence(load, range_app_id(load.table, window))


def _had_intent(load: LoadContext, window: Window) -> bool:
    fence = f"{range_app_id(load.table, window)}/landing"
    return load.lake.transaction_version(load.log.uri, fence) is not None
