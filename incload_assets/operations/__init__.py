"""What keeps loaded tables in order: their progress, lateness and status."""

from incload_assets.operations.advice import advice_for
from incload_assets.operations.lateness import Lateness, lateness_of
from incload_assets.operations.progress import (
    SourceState,
    WindowProgress,
    progress_from,
    progress_of,
    source_state,
    windows_to_look_at,
)
from incload_assets.operations.status import TableStatus, rows_of, table_status
from incload_assets.operations.undone import undone_windows, with_undone

__all__ = [
    "Lateness",
    "SourceState",
    "TableStatus",
    "WindowProgress",
    "advice_for",
    "lateness_of",
    "progress_from",
    "progress_of",
    "rows_of",
    "source_state",
    "table_status",
    "undone_windows",
    "windows_to_look_at",
    "with_undone",
]
