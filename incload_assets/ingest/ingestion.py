"""The ingestion of a window, and the fence of its ingestions."""

from dataclasses import dataclass

from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window


@dataclass(frozen=True)
class Ingestion:
    """A window to be ingested.

    Args:
        before: The window record of the ingestion that is replaced; None for the first.
        log_version: The log's version in which ``before`` was read.
        settled: Whether ``before`` is known to be reconciled and checkpointed, so that its removed keys are merged.
        fence: The number of the last ingestion in the log's commits up to that version, 0 if none. A log that was
            restored to an older version has older window records, but rejects every number that was ever committed.
        part: The part of the position that is read; the window's other rows stay. None: the position as a whole.
        held: Whether a load of the window was undone, and the source still holds what was undone.
    """

    window: Window
    position: Position
    before: WindowRecord | None
    log_version: int
    settled: bool
    fence: int = 0
    held: bool = False
    part: Position | None = None

    @property
    def read(self) -> Position:
        """The position that is read."""
        return self.part or self.position

    def is_same(self, code_version: str) -> bool:
        """True if the log has the source's present content already, as code of that version validates it."""
        now = self.position.fingerprint, code_version
        return self.before is not None and (self.before.fingerprint, self.before.code_version) == now


def ingestion_app_id(table: Table, window: Window) -> str:
    """The identifier of the fence for ingestions of a window."""
    return f"{table.name}/{window.key}/landing"


def next_number(before: WindowRecord | None, fence: int) -> int:
    """The number of a window's next landing, above that of its record and of every landing that was ever committed."""
    return max(before.landing if before else 0, fence) + 1
