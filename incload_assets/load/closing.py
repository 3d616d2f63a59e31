"""Closing a former partitions definition: it is refused while something of its windows is left to be loaded.

A closed window is never loaded again. So before the property that names the windows is extended, all that was ingested
has to be merged, and has to belong to a window that ends no later than its definition.
"""

from collections.abc import Mapping

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import BASE, WindowRecord
from incload_assets.contract.adaptation import UNTIL
from incload_assets.declaration.contract_of import WINDOWS
from incload_assets.declaration.eras import windows_text
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.load.range_fences import not_merged
from incload_assets.platform.errors import SchemaMismatch
from incload_assets.platform.wording import some


def refuse_unfinished(load: LoadContext) -> None:
    """Refuses to close former partitions while a window is in no definition, not merged, or may still get rows."""
    table = load.table
    log = load.lake.delta(load.log.uri) if table.former_partitions else None
    if log is None:
        return
    known = log.metadata().configuration.get(WINDOWS)
    if known is None or not windows_text(table.former_partitions, table.partitions_def).startswith(f"{known}{UNTIL}"):
        return
    records = {key: one for key, one in load.log.records_in(log).items() if not key.startswith(BASE)}
    last = table.former_partitions[-1].end.isoformat(timespec="minutes")
    held = [key for key, record in records.items() if not record.is_withdrawn]
    if others := sorted({*held} - table.closed.keys()):
        raise _unfinished(
            table, f"{some(others)}, and no former definition has such a window that ends by {last}",
            f"declare the former definition with its start, and a later until; or undo them with the former code: "
            f" incload undo {table.name} --partitions {others[0]}",
        )  # fmt: skip
    if left := _not_merged(load, records):
        raise _unfinished(
            table, f"{some(left)}, and the table has no commit of their merge",
            f"load them with the former code: incload load {table.name} --partitions {left[0]}",
        )  # fmt: skip
    if left := _not_settled(table, records):
        raise _unfinished(
            table, f"no complete load of {some(left)}: the source could still add rows",
            f"load them with the former code: incload load {table.name} --partitions {left[0]}; or, for windows that "
            "never were to be loaded, declare a later start of the former definition",
        )  # fmt: skip


def _not_merged(load: LoadContext, records: Mapping[str, WindowRecord]) -> list[str]:
    """The windows whose last landing is not in the table, oldest first."""
    delta = load.lake.delta(load.uri)
    windows = load.table.known_windows(records)
    if delta is None:
        return [window.key for window in windows]
    return not_merged(load.table, {window: records[window.key] for window in windows}, delta)


def _not_settled(table: Table, records: Mapping[str, WindowRecord]) -> list[str]:
    """The windows that a source which knows when windows are complete has not completed, since the first loaded one."""
    loaded = [window for window in table.closed.values() if window.key in records]

    def is_settled(window: Window) -> bool:
        record = records.get(window.key)
        return record is not None and (record.is_withdrawn or table.source.settled(record.as_position()))

    if not any(table.source.settled(records[window.key].as_position()) for window in loaded):
        return []
    return [window.key for window in table.closed.values() if window >= loaded[0] and not is_settled(window)]


def _unfinished(table: Table, problem: str, remedy: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"{table.name}: the former partitions cannot be closed: the log has {problem}",
        rule="windows of former partitions are not loaded any more, so that all of them are finished before",
        remedy=remedy,
    )
