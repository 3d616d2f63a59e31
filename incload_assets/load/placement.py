"""Whether what was ingested still is in its window by the declaration; asked before a load writes anything."""

from collections.abc import Iterator, Sequence

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import ingested_windows, window_records_of
from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window, known_windows


def refuse_misplaced(load: LoadContext, windows: Sequence[Window]) -> None:
    """Refuse to load windows of a table whose windows hold what belongs to others now.

    Args:
        load: Of the load.
        windows: Those about to be loaded.

    Raises:
        SchemaMismatch: By what the log holds of these windows or, where one of them is new, of the newest other one.
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
