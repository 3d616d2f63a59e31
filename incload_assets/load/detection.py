"""The source's present position of a window, and what a load knows of the window when it looks."""

from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.source import DetectRequest, Position
from incload_assets.declaration.window import Window, first_window
from incload_assets.delta.tuning import tune_ingest
from incload_assets.ingest.ingestion import Ingestion, ingestion_app_id
from incload_assets.platform.errors import SourceMissing, SourceUnreadable
from incload_assets.progress.checkpoint import Checkpoint


def detect(load: LoadContext, windows: list[Window]) -> dict[str, Position]:
    """The source's present positions of the windows that it has content for, or that may be empty."""
    table = load.table
    first = first_window(table.partitions_def).start
    request = DetectRequest(table.name, windows, load.log.ingested, load.lake, first, table.reads_older)
    table.source.prepare(load.spark, request)
    return table.source.empty_positions(windows, load.lake) | table.source.detect(request)


def _found(load: LoadContext, window: Window) -> Position | None:
    """The source's present position of a window; the ingested one if the source no longer has it."""
    try:
        return detect(load, [window]).get(window.key)
    except SourceUnreadable as error:
        before = load.log.ingested.get(window.key)
        if before is None or not load.table.source.settled(before):
            raise
        load.info(f"{load.table.name} {window.key}: was complete when it was ingested; its source now: {error}")
        return before


def _expect_content(load: LoadContext, window: Window, position: Position | None) -> Position:
    if position is None:
        raise SourceMissing(
            f"{load.table.name} {window.key}: {load.table.source} has nothing for this window",
            rule='the table waits for its source (absent="wait")',
            remedy='load it when the source has it, or declare absent="empty" if a window may be empty',
        )
    return position


def look(load: LoadContext, window: Window, checkpoint: Checkpoint, *, ingested: bool = False) -> Ingestion:
    """An ingestion of the source's present content of a window; of the ingested one if the source no longer has it."""
    found = _found(load, window)
    at = load.log.open()
    before = load.log.records_in(at, only=[window.key]).get(window.key)
    held = before is not None and before.is_held_at(found)
    position = _expect_content(load, window, found or (before.as_position() if before is not None else None))
    fence = at.transaction_version(ingestion_app_id(load.table, window)) or 0
    tune_ingest(load.spark, at, [window.key], position.size)
    merged = before is not None and not before.erasing  # an erasure may have been killed before its merge
    settled = (
        before is not None and merged and checkpoint == Checkpoint(before.fingerprint, clean=True) and not ingested
    )
    return Ingestion(window, position, before, at.version(), settled, fence, held)
