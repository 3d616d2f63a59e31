"""What keeps loaded tables in order: their progress and status."""

from incload_assets.operations.progress import SourceState, WindowProgress, progress_of, source_state, windows_to_look_at
from incload_assets.operations.status import TableStatus, table_status

__all__ = [
    "SourceState",
    "TableStatus",
    "WindowProgress",
    "progress_of",
    "source_state",
    "table_status",
    "windows_to_look_at",
]
