"""The fences of range loads, which load several windows at once.

They are named ``<table>/range <group>``, where the group is a stretch of the calendar, so that a later load of a window
knows which range may have included it. Before it ingests, a range commits an *intent*, a bare fence: without an intent
no range can be running. A load of a window that another run may have tried *calls off* the ranges of its group by
moving their fences: the fence of their ingestions before it ingests, and the fence of their merges after it has
ingested. So commits that a killed run left behind, or planned from an older log, are rejected.
``tests/model/ranges.py`` explores this protocol.
"""

from incload_assets.change_log.commit import bare_fence
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window, first_window
from incload_assets.writes.merge_into import bare_merge_fence

WINDOWS_AT_ONCE = 32
FIRST_INGESTION = 1
"""The ingestion number of windows in a range, which were never ingested before."""


def range_app_id(table: Table, window: Window) -> str:
    """The identifier of the fence for ranges that can include a window."""
    first = first_window(table.partitions_def)
    length = (first.end - first.start) * WINDOWS_AT_ONCE
    return f"{table.name}/range {(window.start - first.start) // length}"


def call_off_ingestions(load: LoadContext, window: Window) -> None:
    """Rejects ingestions of range loads with the window that may still be running."""
    if _had_intent(load, window):
        bare_fence(load, f"{range_app_id(load.table, window)}/landing")


def call_off_merges(load: LoadContext, window: Window) -> None:
    """Rejects merges of range loads that were planned before the window was ingested."""
    if _had_intent(load, window):
        bare_merge_fence(load, range_app_id(load.table, window))


def _had_intent(load: LoadContext, window: Window) -> bool:
    fence = f"{range_app_id(load.table, window)}/landing"
    return load.lake.transaction_version(load.log.uri, fence) is not None
