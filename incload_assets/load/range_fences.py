"""The fences of range loads, which load several windows at once.

They are named ``<table>/range <group>``, where the group is a stretch of the calendar, so that a later load of a window
knows which range may have included it. Before it ingests, a range commits an *intent*, a bare fence: without an intent
no range can be running. A load of a window that another run may have tried *calls off* the ranges of its group by
moving their fences: the fence of their ingestions before it ingests, and the fence of their merges after it has
ingested. So commits that a killed run left behind, or planned from an older log, are rejected.
``tests/model/ranges.py`` explores this protocol.
"""

from collections.abc import Mapping

from deltalake import DeltaTable

from incload_assets.change_log.commit import bare_fence
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.delta.fences import transaction_versions
from incload_assets.writes.commit_notes import MergesNoted
from incload_assets.writes.merge_into import INGESTION_SHIFT, app_id, bare_merge_fence

WINDOWS_AT_ONCE = 32
FIRST_INGESTION = 1
"""The ingestion number of windows in a range, which were never ingested before."""


def range_app_id(table: Table, window: Window) -> str:
    """The identifier of the fence for ranges that can include a window."""
    era, first = table.era_of(window)
    group = (window.start - first.start) // ((first.end - first.start) * WINDOWS_AT_ONCE)
    return f"{table.name}/range {f'{era}.' if era else ''}{group}"


def not_merged(table: Table, records: Mapping[Window, WindowRecord], delta: DeltaTable) -> list[str]:
    """The keys of windows, in the given order, whose present landing has no merge among a table's commits.

    A range has one fence for its windows, so that after a first landing any merge of the range counts. Where all
    windows share one fence, the notes of the commits say what was merged, for as long as Delta keeps them.
    """
    if table.write.whole:
        noted = MergesNoted.of(delta)
        return [w.key for w, record in records.items() if not noted.may_have(w.key, record.run_id, record.landed_at)]
    landings = {window: _merged_landing(record) for window, record in records.items()}
    fences = transaction_versions(delta, [app_id(table, window) for window in records])
    left = [w for w in records if fences.get(app_id(table, w), 0) <= landings[w] << INGESTION_SHIFT]
    ranges = {window: range_app_id(table, window) for window in left if landings[window] == FIRST_INGESTION}
    of_ranges = transaction_versions(delta, {*ranges.values()})
    return [window.key for window in left if ranges.get(window) not in of_ranges]


def _merged_landing(record: WindowRecord) -> int:
    """The number of the landing that was merged last: a hold as it is has another number, and nothing to merge."""
    return record.hold.returned_to if record.hold and not record.hold.undone else record.landing


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
