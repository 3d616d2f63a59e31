"""The fences of loads of several windows at once.

They are named ``<table>/range <group>``, where the group is a stretch of the calendar, so that a later load of a window
knows which range may have tried it before. Before it lands, a range commits an *intent*, a bare fence: as long as
there is none, no range can be on its way. A load of a window that another run may have tried *calls off* the
ranges of its group: it moves their fences, so that what a killed run left behind is refused. ``tests/model/ranges.py``
explores all this.
"""

from incload_assets.loading.context import Context
from incload_assets.loading.declaration import Table
from incload_assets.loading.window import Window, first_window
from incload_assets.loading.writes.merging import bare_fence

WINDOWS_AT_ONCE = 32
FIRST_LANDING = 1
"""What a range lands was never landed before."""


def range_app_id(table: Table, window: Window) -> str:
    """The identifier that fences the ranges which a window can be part of."""
    first = first_window(table.partitions_def)
    length = (first.end - first.start) * WINDOWS_AT_ONCE
    return f"{table.name}/range {(window.start - first.start) // length}"


def call_off_ranges(context: Context, window: Window) -> None:
    """Refuse whatever a killed range load of the window may still be about to commit."""
    app_id = range_app_id(context.table, window)
    lake, log = context.lake, context.log
    if lake.transaction_version(log.uri, f"{app_id}/landing") is None:
        return
    bare_fence(context, log.uri, f"{app_id}/landing")
    bare_fence(context, context.uri, app_id, landing=FIRST_LANDING)
