"""Data at the source that came too late for closed windows, which are the windows of former partitions definitions."""

from collections.abc import Mapping

from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.source import DetectRequest
from incload_assets.declaration.table import Table
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake


def late_for_closed(table: Table, lake: Lake, records: Mapping[str, WindowRecord]) -> dict[str, str]:
    """The closed windows for which the source holds other data than was loaded, with that data in a line.

    A source is not asked if rows leave its windows by themselves (a query of a database), or if it takes late data
    into later windows anyway. One that does not answer is reported by its own checks.

    Args:
        table: The declaration.
        lake: The lake with the table.
        records: The log's window records by partition key.
    """
    late: dict[str, str] = {}
    ingested = {key: record.as_position() for key, record in records.items()}
    for era in table.former_partitions:
        source = era.source or table.source
        if source.retains_absent_keys:
            continue
        asked = [w for w in era.windows if w.key not in records or not source.settled(ingested[w.key])]
        try:
            found = source.detect(DetectRequest(table.name, asked, ingested, lake, era.end, older=False))
        except IncrementalLoadError:
            continue
        for window in asked:
            position, record = found.get(window.key), records.get(window.key)
            if position is None or (record and (record.fingerprint == position.fingerprint or record.held)):
                continue
            late[window.key] = position.summary or position.fingerprint
    return late
