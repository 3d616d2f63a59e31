"""The lake's table ``_loads``: the history of all loads, appended without Spark and off the path of any load.

:func:`~incload_assets.history.collect.collect` makes it from Dagster's events and the window records of the logs, again
if it is lost. Runs that are deleted in Dagster stay in it.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from incload_assets.history.load_row import SCHEMA, LoadRow, as_arrow, as_rows
from incload_assets.platform.lake import LOADS_FOLDER, Lake
from incload_assets.platform.lake_rows import rows_where

WRITER = "incload/loads"
"""The identifier of the writers of the table: if several write at once, one succeeds."""
FILES = 100
"""The number of files from which the table is compacted."""


class LoadsTable:
    """The table ``_loads`` of a lake."""

    def __init__(self, lake: Lake) -> None:
        self.lake, self.uri = lake, f"{lake.root}/{LOADS_FOLDER}"

    def open(self) -> DeltaTable | None:
        """The newest version, None if there is no table yet."""
        return self.lake.delta(self.uri)

    def columns(
        self,
        names: Sequence[str],
        *,
        since: datetime | None = None,
        tables: Collection[str] | None = None,
        windows: Collection[str] | None = None,
        runs: Collection[str] | None = None,
    ) -> pa.Table:
        """Columns of the rows, in no order; no rows if there is no table.

        ``since`` is the earliest end of a load, aware; windows are partition keys, runs are identifiers; None: any.
        """
        delta = self.open()
        if delta is None:
            return pa.schema([SCHEMA.field(name) for name in names]).empty_table()
        recent = None if since is None else pc.field("ended_at") >= pa.scalar(since, pa.timestamp("us", "UTC"))
        among = {"table": tables, "window": windows, "run_id": runs}
        asked = {name: values for name, values in among.items() if values is not None}
        return rows_where(delta, asked, recent, columns=names)

    def rows(
        self,
        names: Sequence[str] | None = None,
        *,
        since: datetime | None = None,
        tables: Collection[str] | None = None,
        windows: Collection[str] | None = None,
        runs: Collection[str] | None = None,
    ) -> list[LoadRow]:
        """The rows, oldest first, with some columns or all; arguments as in :meth:`columns`."""
        found = self.columns(names or SCHEMA.names, since=since, tables=tables, windows=windows, runs=runs)
        return sorted(as_rows(found), key=lambda row: (row.ended_at, row.event))

    def append(self, rows: Sequence[LoadRow], after: int) -> bool:
        """Appends rows that consider the first ``after`` commits; False if another writer has appended since."""
        return self.lake.append(self.uri, as_arrow(rows), WRITER, after + 1)

    def commits(self) -> int:
        """The number of commits with rows."""
        delta = self.open()
        return 0 if delta is None else delta.transaction_version(WRITER) or 0

    def compact(self) -> None:
        """Compacts small files, and removes the files that were replaced an hour ago or earlier."""
        delta = self.open()
        if delta is not None and len(delta.file_uris()) >= FILES:
            delta.optimize.compact()
            delta.vacuum(retention_hours=1, dry_run=False, enforce_retention_duration=False)
            delta.create_checkpoint()
