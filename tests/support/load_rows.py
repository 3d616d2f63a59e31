"""Made-up rows of ``_loads``, for tests of what is made of them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from incload_assets.history.load_row import LoadRow

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
RUN = str(UUID(int=0x0123456789ABCDEF0123456789ABCDEF))


def load_row(day: int = 1, *, at: datetime = NOON, **changes: Any) -> LoadRow:
    """A load of a day of January 2026 that took ten seconds and ended at an instant."""
    start = datetime(2026, 1, day, tzinfo=UTC)
    parts = [("prepare", -10, 1), ("detect", -9, 1), ("ingest", -8, 3), ("merge", -5, 2), ("ingest", -3, 1),
             ("reconcile", -2, 1.5)]  # fmt: skip
    timeline = [{"phase": name, "start": at.timestamp() + begin, "seconds": took} for name, begin, took in parts]
    given: dict[str, Any] = {
        "table": "orders",
        "window": f"2026-01-{day:02d}",
        "window_start": start,
        "window_end": start + timedelta(days=1),
        "due_at": start + timedelta(days=1, hours=6),
        "outcome": "loaded",
        "asked_at": NOON - timedelta(seconds=30),
        "ended_at": at,
        "instance": "here",
        "event": 100 + day,
        "run_id": RUN,
        "trigger": "sensor",
        "why": "new",
        "attempt": 1,
        "seconds": 10.0,
        "timeline": json.dumps(timeline),
        "rows_read": 7,
        "inserted": 5,
        "applied": 5,
        "quarantined": 2,
        "bytes": 1234,
        "table_version": 3,
        "log_version": 4,
        "commit": "MERGE",
        "proof": json.dumps({"keys": 5, "pending": 0, "present": 5, "log_hash": "a", "table_hash": "a"}),
    }
    return LoadRow(**{**given, **changes})


def failed_row(day: int = 1, **changes: Any) -> LoadRow:
    """A failed attempt at a day of January 2026."""
    given = {
        "outcome": "failed",
        "event": 0,
        "error_class": "ContractViolation",
        "error": "2 of 7 rows break the contract",
        "seconds": 0.0,
        "timeline": "[]",
        "proof": "{}",
        "table_version": None,
        "log_version": None,
        "commit": "",
    }
    return load_row(day, **{**given, **changes})
