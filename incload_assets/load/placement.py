"""Checks, before a load writes anything, that ingested rows are still in their windows by the declaration."""

from collections.abc import Iterator, Sequence

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import ingested_windows, window_records_of
from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window, known_windows


def refuse_misplaced(load: LoadContext, windows: Sequence[Window]) -> None:
    """Refuses to load windows if the declaration now assigns ingested rows to other windows.

    Args:
        load: The load's context.
        windows: The windows to be loaded.

    Raises:
        SchemaMismatch: Rows in the log are misplaced. The rows checked are those of the windows; if one of the windows
            is new, also those of the newest other window.
    """
    load.table.source.check_landed(load.table.name, _ingested(load, [window.key for window in windows]))


def _ingested(load: LoadContext, keys: Sequence[str]) -> Iterator[tuple[Window, Position]]:
    log = load.lake.delta(load.log.uri)
    if log is None:
        return
    controls = window_records_of(log, only=keys)
    if len(controls) < len(keys) and (others := ingested_windows(log)):
        controls |= window_records_of(log, only=[max(others)])
    for window in known_windows(load.table.partitions_def, controls):
        yield window, controls[window.key].as_position()
