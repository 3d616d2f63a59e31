"""One window about to be ingested, and the fence of its ingestions."""

from dataclasses import dataclass

from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window


@dataclass(frozen=True)
class Ingestion:
    """One window about to be ingested.

    Args:
        window: Which.
        position: What the source holds for it.
        before: The control row of the ingestion it replaces, None for the first.
        log_version: The log's version in which ``before`` was read.
        settled: Whether ``before`` is known to be reconciled and checkpointed, so that the keys it took away are done.
        fence: The number of the last ingestion that the log's commits tell of in that version, 0 if none. A log that
            was restored to an older version has older control rows, but refuses every number that was ever committed.
    """

    window: Window
    position: Position
    before: WindowRecord | None
    log_version: int
    settled: bool
    fence: int = 0


def ingestion_app_id(table: Table, window: Window) -> str:
    """The identifier that fences the ingestions of a window."""
    return f"{table.name}/{window.key}/landing"
