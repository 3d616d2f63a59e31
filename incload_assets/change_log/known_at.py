"""Instants of landings: when what a history believes became known, for tables that keep it (``History(known=True)``).

The commit of a landing sets a transaction identifier of Delta in the log to its instant, in microseconds since 1970. So
a version of the log has one instant, that of its newest landing, and a merge uses the instant of the version that it
reads: it shows no change that was landed later, and a merge that is repeated after a kill writes the same. Instants
only grow, whatever the clocks of machines say: each is at least a microsecond after the one before.
"""

from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc
from deltalake import DeltaTable

from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.platform.lake import Lake, data_files

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND, _MILLISECOND = timedelta(microseconds=1), timedelta(milliseconds=1)


def known_app_id(table: Table) -> str:
    """The identifier in the log whose number is the instant of the newest landing."""
    return f"{table.name}/known"


def known_at(table: Table, log: DeltaTable, *, preview: bool = False) -> int | None:
    """The instant of a version of a log, or of the next landing (``preview``); None if the table keeps none."""
    if table.write.open_rows is None:
        return None
    newest = log.transaction_version(known_app_id(table))
    return _after(newest or 0) if preview or newest is None else newest


def next_instant(table: Table, lake: Lake, log: DeltaTable) -> dict[str, int]:
    """The instant of the next landing, by its identifier; empty if the table keeps none.

    If the log was lost, or put back, the newest instant in the table counts as that of its last landing.
    """
    if table.write.open_rows is None:
        return {}
    newest = log.transaction_version(known_app_id(table)) or 0
    if (delta := lake.delta(lake.table_uri(table.key.path))) is not None:
        newest = max(newest, _newest_in(delta, table))
    return {known_app_id(table): _after(newest)}


def instant_of(microseconds: int) -> datetime:
    """The instant as a time, aware, UTC."""
    return _EPOCH + microseconds * _MICROSECOND


def _after(newest: int) -> int:
    return max((windows.now() - _EPOCH) // _MICROSECOND, newest + 1)


def _newest_in(delta: DeltaTable, table: Table) -> int:
    """The newest instant in a table by its statistics, which Delta cuts to milliseconds; 0 without any."""
    files = data_files(delta)
    names = [f"max.{name}" for name in table.write.instants]
    found = [pc.max(files[name]).as_py() for name in names if name in files.schema.names]
    newest = [value if value.tzinfo else value.replace(tzinfo=UTC) for value in found if isinstance(value, datetime)]
    return max(((value + _MILLISECOND - _EPOCH) // _MICROSECOND for value in newest), default=0)
