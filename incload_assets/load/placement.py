"""Whether what was landed still is in its window by the declaration; asked before a load writes anything."""

from collections.abc import Iterator, Sequence

from incload_assets.change_log.context import Context
from incload_assets.change_log.window_records import controls_of, landed_windows
from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window, known_windows


def refuse_misplaced(context: Context, windows: Sequence[Window]) -> None:
    """Refuse to load windows of a table whose windows hold what belongs to others now.

    Args:
        context: Of the load.
        windows: Those about to be loaded.

    Raises:
        SchemaMismatch: By what the log holds of these windows or, where one of them is new, of the newest other one.
    """
    context.table.source.check_landed(context.table.name, _landed(context, [window.key for window in windows]))


def _landed(context: Context, keys: Sequence[str]) -> Iterator[tuple[Window, Position]]:
    log = context.lake.delta(context.log.uri)
    if log is None:
        return
    controls = controls_of(log, only=keys)
    if len(controls) < len(keys) and (others := landed_windows(log)):
        controls |= controls_of(log, only=[max(others)])
    for window in known_windows(context.table.partitions_def, controls):
        yield window, controls[window.key].as_position()
