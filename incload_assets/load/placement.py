"""Checks before a load writes: incload made this table, and its rows are in the windows the declaration names."""

from collections.abc import Iterator, Sequence

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import ingested_windows, window_records_of
from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window, known_windows
from incload_assets.platform.errors import SchemaMismatch, StoredFileLost
from incload_assets.platform.lake import data_files, rows_of


def refuse_misplaced(load: LoadContext, windows: Sequence[Window]) -> None:
    """Refuses to load windows if the declaration now assigns ingested rows to other windows.

    It checks the rows of the windows; if one of them is new, also the rows of the newest other window.
    """
    load.table.source.check_landed(load.table.name, _ingested(load, [window.key for window in windows]))


ADOPTED = "incload.adopted"
"""Property of the log and, once the adoption is complete, of the table: which rows were adopted."""


def refuse_foreign(load: LoadContext) -> None:
    """Refuses a table with rows that are not in the log, so that a fold of the log would lose them.

    These are the rows of a table that no load has made, that was adopted in part, or that has lost adopted rows.
    """
    name = load.table.name
    table = load.lake.delta(load.uri)
    log = load.lake.delta(load.log.uri)  # in this order: a log is made before any row
    known = {} if table is None else table.metadata().configuration
    if log is not None:
        adopted = log.metadata().configuration.get(ADOPTED)
        if adopted is not None and known.get(ADOPTED) != adopted:
            raise SchemaMismatch(
                f"{name}: the adoption of {load.uri} ({adopted}) is not complete, or the table was replaced since",
                rule="loads begin when all rows that a table had before are in its change log, and in the table",
                remedy=f"run `incload adopt {name}` again: it resumes, and restores the rows already adopted",
            )
        return
    files = None if table is None else data_files(table)
    if files is None or not files.num_rows or any(prop.startswith("incload.") for prop in known):
        return
    raise SchemaMismatch(
        f"{name}: {load.uri} is a Delta table with {rows_of(files) or 'some'} rows that no load has made",
        rule="all rows of a table are in its change log; a load would lose rows that are not",
        remedy=f"adopt them: incload adopt {name}; or give the table another name, or move the Delta table away",
    )


def refuse_lost_beliefs(load: LoadContext) -> None:
    """Refuses to make a lost table again that kept what was believed earlier: the log has only what is believed now."""
    name = load.table.name
    if load.table.write.open_rows is None or load.lake.delta(load.uri) is not None:
        return
    log = load.lake.delta(load.log.uri)
    if log is None or not ingested_windows(log):
        return
    raise StoredFileLost(
        f"{name}: {load.uri} is gone, and with it what was believed earlier",
        rule="beliefs that were ended are nowhere but in the table; its log makes only the versions that hold now",
        remedy="put the table's folder back from a backup or from the versions of the store; or go on without what was "
        f"believed: incload rebuild {name} --forget-beliefs",
    )


def _ingested(load: LoadContext, keys: Sequence[str]) -> Iterator[tuple[Window, Position]]:
    log = load.lake.delta(load.log.uri)
    if log is None:
        return
    records = window_records_of(log, only=keys)
    if len(records) < len(keys) and (others := ingested_windows(log)):  # without base rows
        records |= window_records_of(log, only=[max(others)])
    for window in known_windows(load.table.partitions_def, records):  # closed ones stay, whatever is declared
        yield window, records[window.key].as_position()
