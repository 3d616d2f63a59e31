"""The table that ``incload status`` shows."""

from collections.abc import Sequence
from datetime import datetime

from rich.table import Table as Grid

from incload_assets.cli import screen
from incload_assets.platform.wording import largest
from incload_assets.progress.status import TableStatus

COUNTED = ("loaded", "missing", "failed", "drifted", "in_progress", "waiting", "held")


LABELS = {"in_progress": "running"}


_STYLES = {"missing": "yellow", "failed": "red", "drifted": "yellow", "in_progress": "blue", "held": "magenta"}


def overview(found: Sequence[TableStatus], unknown: Sequence[str] = ()) -> Grid:
    """A row for each table: counts of partitions by status, rows, freshness and the last load.

    Args:
        found: The statuses.
        unknown: The names of tables whose status could not be found out.
    """
    grid = screen.grid("table")
    for name in (*COUNTED, "rows"):
        grid.add_column(LABELS.get(name, name), justify="right")
    for name in ("fresh", "last load"):
        grid.add_column(name)
    for one in found:
        counts = {name: len(getattr(one, name)) for name in COUNTED}
        grid.add_row(
            one.table,
            *(f"[{_STYLES[n]}]{c}[/]" if c and n in _STYLES else str(c) for n, c in counts.items()),
            "-" if one.rows is None else str(one.rows),
            _freshness(one.freshness),
            "never" if one.last_materialized is None else f"{one.last_materialized:%m-%d %H:%M}Z",
        )
    for name in unknown:
        grid.add_row(name, *("?" for _ in (*COUNTED, "rows")), "[red]unknown[/]", "")
    return grid


def _freshness(overdue: float | None) -> str:
    if overdue is None:
        return "-"
    if not overdue:
        return "[green]yes[/]"
    return f"[red]{largest(overdue)} late[/]"


def as_iso(value: datetime) -> str:
    """A moment as JSON has it."""
    return value.isoformat()
