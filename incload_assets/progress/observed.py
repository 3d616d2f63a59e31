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
"""The number of pending windows of which the first sight is kept."""
SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class Observed:
    """The observation of one tick of a table's sensor.

    Args:
        at: The instant, ISO 8601.
        windows: Number of windows by status.
        verdict: The verdict of the lateness, see :class:`~incload_assets.progress.lateness.Lateness`.
        overdue: Seconds for which the latest due window has been overdue.
        pending: When news of each window that is not loaded were first seen, ISO 8601, by partition key; the oldest.
        waiting_bytes: Estimated size of what loads of the pending windows would read, in bytes.
        waiting_records: Number of records that are not loaded; None if the source does not know it.
        waiting_by_part: The same by topic partition, as far as there are any, where the source has such.
        stopped: Why windows wait for a person, by partition key.
        failing: Causes of failed windows by partition key.
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
    """The observation in a sensor's cursor; None if it holds none.

    Args:
        cursor: The cursor; a person may have set it to anything.
    """
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
    """The observation of a tick of a sensor.

    Args:
        table: The declaration.
        progress: The progress of all windows, oldest first.
        late: The table's lateness.
        stopped: Why windows wait for a person, by partition key.
        before: The observation of the tick before, for when news were first seen.
        at: The instant, aware.
    """
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
