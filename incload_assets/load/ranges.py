"""Range loads: first loads of many windows with one ingestion, one MERGE and one reconciliation for all of them.

Loaded one by one, a year of small partitions costs a year of small commits. Windows that were never ingested, and that
no other run has tried, need no fence for each window. So a run over several partitions ingests such windows in one
commit and merges them in one. All other windows, and windows whose range load fails, are loaded one by one.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby

from incload_assets.change_log.commit import bare_fence, commit
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import WindowRecord, window_records_of
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.declaration.write import AUTO
from incload_assets.delta.tuning import tune_ingest
from incload_assets.ingest.facts import Facts
from incload_assets.ingest.ingest import staged_rows, window_record_of
from incload_assets.ingest.ingestion import Ingestion, ingestion_app_id
from incload_assets.ingest.quarantine import is_nothing_else, is_tolerated
from incload_assets.load.apply import apply_changes
from incload_assets.load.detection import detect
from incload_assets.load.load import LoadReport, report_of
from incload_assets.load.placement import refuse_misplaced
from incload_assets.load.range_fences import FIRST_INGESTION, range_app_id
from incload_assets.load.tables import ensure_tables
from incload_assets.platform.errors import SourceUnreadable

BYTES_AT_ONCE = 256 * 2**20


def load_first_windows(
    load: LoadContext,
    windows: Sequence[Window],
    still_first: Callable[[Sequence[Window]], Collection[str]],
) -> Iterator[list[LoadReport]]:
    """Loads windows, oldest first, together where possible; yields the reports of one stretch after another.

    A window without a report has to be loaded by itself, whatever the reason, including an error of its stretch.
    ``still_first`` returns the keys of windows that no other run has tried; it is called again after the intent.
    """
    load = load.renewed()
    refuse_misplaced(load, windows)
    ensure_tables(load)
    positions = detect(load, list(windows))
    found = {window: positions[window.key] for window in windows if window.key in positions}
    for chunk in _chunks(load.table, found):
        if reports := _load_together(load.renewed(), chunk, still_first):
            yield reports


def _chunks(table: Table, found: dict[Window, Position]) -> Iterator[dict[Window, Position]]:
    """Stretches of one group each, and of bounded size."""
    for _, group in groupby(sorted(found), key=lambda window: range_app_id(table, window)):
        chunk: dict[Window, Position] = {}
        size = 0
        for window in group:
            if chunk and size + found[window].size > BYTES_AT_ONCE:
                yield chunk
                chunk, size = {}, 0
            chunk[window] = found[window]
            size += found[window].size
        yield chunk


def _load_together(
    load: LoadContext,
    chunk: dict[Window, Position],
    still_first: Callable[[Sequence[Window]], Collection[str]],
) -> list[LoadReport]:
    table, log = load.table, load.log
    app_id = range_app_id(table, min(chunk))
    intent = bare_fence(load, f"{app_id}/landing")
    # Only after the intent: a load that begins later sees the intent, and calls the range off.
    first = still_first(list(chunk))
    chunk = _never_ingested(load, {w: position for w, position in chunk.items() if w.key in first})
    if len(chunk) < 2:
        return []
    tune_ingest(
        load.spark, log.open(), [window.key for window in chunk], sum(position.size for position in chunk.values())
    )
    load.info(f"{table.name}: loading {len(chunk)} windows together, {min(chunk).key} to {max(chunk).key}")
    with load.phases.timed("ingest"):
        records = _ingest(load, chunk, f"{app_id}/landing", intent + 1)
    with load.phases.timed("detect"):  # detecting again proves that the source was at rest while it was read
        seen = {window.key: position.fingerprint for window, position in chunk.items()}
        now = seen
        if not table.source.changes_while_read:
            now = {key: position.fingerprint for key, position in detect(load, sorted(chunk)).items()}
    ingested = tuple(w for w in sorted(chunk) if w.key in records and now.get(w.key) == seen[w.key])
    if not ingested:
        return []

    if load.table.write.buckets == AUTO:
        ensure_tables(load)
    applied = apply_changes(load, ingested, app_id, of_range=True)
    return [report_of(load, applied, window, ingested=True, windows=len(ingested)) for window in ingested]


def _never_ingested(load: LoadContext, chunk: dict[Window, Position]) -> dict[Window, Position]:
    """The windows without any trace in the log, neither rows nor a fence."""
    log = load.log.open()
    known = window_records_of(log, only=[window.key for window in chunk])
    return {
        window: position
        for window, position in chunk.items()
        if window.key not in known and log.transaction_version(ingestion_app_id(load.table, window)) is None
    }


def _can_ingest(table: Table, window: Window, facts: Facts) -> bool:
    """True if a window raises no error that its own load would have to report."""
    try:
        table.source.check_skipped(table.name, window, facts.only_skipped)
    except SourceUnreadable:
        return False
    return is_tolerated(table, facts.rows, facts.rejected) and not is_nothing_else(facts.rows, facts.rejected)


def _ingest(load: LoadContext, chunk: dict[Window, Position], app_id: str, number: int) -> dict[str, WindowRecord]:
    """Ingests windows that the contract tolerates in one commit; none of them if another load came first."""
    with staged_rows(load, chunk) as (staged, facts):
        good = [window for window in sorted(chunk) if _can_ingest(load.table, window, facts[window.key])]
        records = {
            window.key: window_record_of(
                load, Ingestion(window, chunk[window], None, 0, False), facts[window.key], FIRST_INGESTION
            )
            for window in good
        }
        note = f"ingested {min(chunk).key}..{max(chunk).key}, run {load.run_id}"
        return records if records and commit(load, staged, records, app_id, number, note=note) else {}
