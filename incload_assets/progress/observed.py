"""The observation of a table's sensor, kept as its cursor, so that others need not read the source again."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from incload_assets.declaration.table import Table
from incload_assets.progress.lateness import Lateness
from incload_assets.progress.progress import STATUSES, WindowProgress

REMEMBERED = 200
"""Number of pending windows for which the first sight is kept."""
SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class Observed:
    """The observation of one tick of a table's sensor. Times are in ISO 8601, durations in seconds, sizes estimated.

    Args:
        pending: When each window that is not loaded was first seen, by partition key; the oldest.
        waiting_records: Number of records that are not loaded; None if the source does not know it.
    """

    at: str
    windows: Mapping[str, int] = field(default_factory=dict)
    verdict: str = "not due"
    overdue: float = 0.0
    pending: Mapping[str, str] = field(default_factory=dict)
    waiting_bytes: int = 0
    waiting_records: int | None = None
    waiting_by_part: Mapping[str, int] = field(default_factory=dict)
    stopped: Mapping[str, str] = field(default_factory=dict)
    failing: Mapping[str, str] = field(default_factory=dict)

    @property
    def time(self) -> datetime:
        """The instant, aware."""
        return datetime.fromisoformat(self.at)

    @property
    def oldest(self) -> timedelta:
        """For how long the oldest news have been waiting."""
        return max((self.time - datetime.fromisoformat(since) for since in self.pending.values()), default=timedelta(0))

    def as_text(self) -> str:
        """The observation as a sensor's cursor."""
        return json.dumps(asdict(self))


def source_sensor_name(table: Table) -> str:
    """The name of the sensor on a table's source, for example ``watch_orders``."""
    return f"watch_{table.identifier}"


def observed_in(cursor: str | None) -> Observed | None:
    """The observation in a sensor's cursor; None if it holds none, as a person may have set it to anything."""
    try:
        found: Any = json.loads(cursor or "")
        return Observed(**{name: value for name, value in found.items() if name in Observed.__dataclass_fields__})
    except (ValueError, TypeError, AttributeError):
        return None


def observation(
    table: Table,
    progress: Sequence[WindowProgress],
    late: Lateness,
    stopped: Mapping[str, str],
    before: Observed | None,
    at: datetime,
) -> Observed:
    """The observation of a tick; the one before says when pending windows were first seen."""
    pending = [
        w for w in progress if w.status not in ("loaded", "held") and w.position is not None and not w.is_current
    ]
    first, records = dict(before.pending) if before else {}, _records(table, pending)
    return Observed(
        at=at.isoformat(),
        windows={status: sum(w.status == status for w in progress) for status in STATUSES},
        verdict=late.verdict,
        overdue=late.overdue.total_seconds(),
        pending={w.key: first.get(w.key, at.isoformat()) for w in pending[:REMEMBERED]},
        waiting_bytes=sum(w.position.size for w in pending if w.position is not None),
        waiting_records=None if records is None else sum(records.values()),
        waiting_by_part={part: count for part, count in (records or {}).items() if part and count},
        stopped=dict(list(stopped.items())[:SHOWN]),
        failing=dict([(w.key, w.failure or "error") for w in progress if w.status == "failed"][-SHOWN:]),
    )


def _records(table: Table, pending: Sequence[WindowProgress]) -> Mapping[str, int] | None:
    """The number of records that windows have beyond what was ingested, by topic partition; None if unknown."""
    found: Counter[str] = Counter()
    for window in pending:
        now = table.source.records_in(window.position) if window.position is not None else {}
        before = table.source.records_in(window.record.as_position()) if window.record is not None else {}
        if now is None or before is None:
            return None
        found.update({part: max(count - before.get(part, 0), 0) for part, count in now.items()})
    return found
