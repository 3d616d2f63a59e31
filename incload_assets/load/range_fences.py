"""The fences of range loads, which load several windows at once.

They are named ``<table>/range <group>``, where the group is a stretch of the calendar, so that a later load of a window
knows which range may have included it. Before it ingests, a range commits an *intent*, a bare fence: without an intent
no range can be running. A load of a window that another run may have tried *calls off* the ranges of its group by
moving their fences: the fence of their ingestions before it ingests, and the fence of their merges after it has
ingested. So commits that a killed run left behind, or planned from an older log, are rejected.
``tests/model/ranges.py`` explores this protocol.
"""

from collections.abc import Iterable, Mapping

from deltalake import DeltaTable

from incload_assets.change_log.commit import bare_fence
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import BASE, WindowRecord
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.delta.fences import transaction_versions
from incload_assets.load.base_rows import base_window
from incload_assets.platform.attempts import in_attempts
from incload_assets.platform.errors import ConcurrentLoad
from incload_assets.writes.commit_notes import MergesNoted
from incload_assets.writes.merge_into import INGESTION_SHIFT, app_id, bare_merge_fence

WINDOWS_AT_ONCE = 32
ATTEMPTS = 5
"""How often the fences of all windows are moved if others commit first."""
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


def every_window(table: Table, keys: Iterable[str]) -> list[Window]:
    """The windows of the given keys, base rows first, then oldest first; other keys are ignored."""
    keys = list(keys)
    base = [base_window(key) for key in keys if key.startswith(BASE)]
    return [*base, *table.known_windows(key for key in keys if not key.startswith(BASE))]


def call_off_all_merges(load: LoadContext, records: Mapping[str, WindowRecord], lost: ConcurrentLoad) -> None:
    """Rejects all merges of these landings that were planned before, by the fences of all windows and ranges.

    A landing that is not merged yet counts as merged from then on. ``lost`` is raised if others always commit first.
    """
    table, least = load.table, dict[str, int]()
    for window in every_window(table, records):
        least[app_id(table, window)] = records[window.key].landing << INGESTION_SHIFT
        if not window.key.startswith(BASE):
            least.setdefault(range_app_id(table, window), -1)  # only if there is one
    if table.write.whole:
        least = {f"{table.name}/*": max(least.values(), default=0)}

    def moved() -> bool | None:
        delta = load.lake.delta(load.uri)
        assert delta is not None
        present = transaction_versions(delta, least)
        numbers = {fence: max(floor, present.get(fence, 0)) + 1 for fence, floor in least.items()
                   if fence in present or floor >= 0}  # fmt: skip
        return load.lake.move_fences(delta, numbers) or None

    in_attempts(ATTEMPTS, moved, lost)


def _had_intent(load: LoadContext, window: Window) -> bool:
    fence = f"{range_app_id(load.table, window)}/landing"
    return load.lake.transaction_version(load.log.uri, fence) is not None
