"""Checks before a load writes anything: the table is one of ours, and its windows hold what the declaration says."""

from collections.abc import Iterator, Sequence

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import ingested_windows, window_records_of
from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window, known_windows
from resources.errors import SchemaMismatch
from resources.lake import data_files, rows_of


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


def refuse_foreign(load: LoadContext) -> None:
    """Refuses a table with rows that no load has made: they are in no log, so that a fold of the log would lose them.

    Args:
        load: The load's context.

    Raises:
        SchemaMismatch: The table has rows and no log, and was not made by a load.
    """
    table = load.lake.delta(load.uri)
    if table is None or load.lake.delta(load.log.uri) is not None:  # in this order: a log is made before any row
        return
    files = data_files(table)
    if not files.num_rows or any(name.startswith("incload.") for name in table.metadata().configuration):
        return
    raise SchemaMismatch(
        f"{load.table.name}: {load.uri} is a Delta table with {rows_of(files) or 'some'} rows that no load has made",
        rule="all rows of a table are in its change log; a load would lose rows that are not",
        remedy="give the table another name and load it from its source, or move the Delta table away",
    )


def _ingested(load: LoadContext, keys: Sequence[str]) -> Iterator[tuple[Window, Position]]:
    log = load.lake.delta(load.log.uri)
    if log is None:
        return
    controls = window_records_of(log, only=keys)
    if len(controls) < len(keys) and (others := ingested_windows(log)):
        controls |= window_records_of(log, only=[max(others)])
    for window in known_windows(load.table.partitions_def, controls):
        yield window, controls[window.key].as_position()
