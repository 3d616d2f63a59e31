"""Notices: the messages about tables, one for each change of a table's state.

A table is *late* as its sensor or the newer check ``freshness`` says; it has *failed* if windows wait for a person; it
is *repaired* when neither holds any more. Sensor and check decide this; here it is only reported.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from incload_assets.monitoring.channels import Notice
from incload_assets.monitoring.facts import Check, Watch
from incload_assets.platform.wording import spoken

SETTLES = timedelta(minutes=2)
"""How long a table has to be late, or windows to wait for a person, before it is reported."""
_NEVER_LOADED = {"missing", "waiting", "failed", "in_progress"}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The state of a table as it is known now; while a backfill of it is under way, it may be late."""

    table: str
    watch: Watch
    freshness: Check | None = None
    backfill: bool = False
    link: str = ""


@dataclass
class Notified:
    """The states that were seen and reported so far, kept as the cursor of the sensor.

    Args:
        since: Since when each state of a table holds, ISO 8601, by table and state.
        told: The same for the states that were reported, with the windows concerned.
        waiting: Notices that a channel has not taken yet, by channel.
    """

    since: dict[str, dict[str, str]] = field(default_factory=dict)
    told: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    waiting: dict[str, list[dict[str, str]]] = field(default_factory=dict)

    @classmethod
    def of(cls, cursor: str | None) -> "Notified":
        """The content of a cursor; nothing if a person has set it to anything else."""
        try:
            return cls(**json.loads(cursor or "{}"))
        except (ValueError, TypeError):
            return cls()

    def as_text(self) -> str:
        """This as a cursor."""
        return json.dumps(asdict(self))

    def changes(self, tables: Iterable[Seen], at: datetime) -> list[Notice]:
        """The changes that are to be reported; they count as reported from now on.

        ``tables`` has only tables that are not paused or silenced, and whose sensor runs; the states of others stay.
        """
        found: list[Notice] = []
        for seen in tables:
            told = self.told.get(seen.table, {})
            now = _states(seen, told, at)
            since = {state: self.since.get(seen.table, {}).get(state, at.isoformat()) for state in now}
            lasting = {s: text for s, text in now.items() if at - datetime.fromisoformat(since[s]) >= SETTLES}
            new = [state for state in lasting if state not in told]
            found += [Notice(table=seen.table, state=s, text=_linked(lasting[s], seen)) for s in new]  # type: ignore[arg-type]
            if told and not now:
                was = " and ".join(f"{s} since {told[s]['since'][:16].replace('T', ' ')} UTC" for s in told)
                found.append(Notice(table=seen.table, state="repaired", text=_linked(f"it was {was}", seen)))
            stopped = sorted(seen.watch.seen.stopped) if seen.watch.seen else []
            kept = {
                s: {"since": since[s], "windows": stopped or told.get(s, {}).get("windows", [])}
                for s in now
                if s in told or s in new
            }
            for known, value in ((self.since, since), (self.told, kept)):
                known.pop(seen.table, None)
                if value:
                    known[seen.table] = value  # type: ignore[assignment]
        return found

    def keep(self, notices: Sequence[Notice], channels: Iterable[str]) -> None:
        """Keeps notices for channels until they are taken, of each table the newest two; drops former channels."""
        kept = {}
        for channel in channels:
            all_of_it = [*self.waiting.get(channel, ()), *map(asdict, notices)]
            later = [[other["table"] for other in all_of_it[place + 1 :]] for place in range(len(all_of_it))]
            kept[channel] = [n for n, others in zip(all_of_it, later, strict=True) if others.count(n["table"]) < 2]
        self.waiting = kept


def _states(seen: Seen, told: Mapping[str, Any], at: datetime) -> dict[str, str]:
    """The states that hold for a table, with their text."""
    watched, check, found = seen.watch.seen, seen.freshness, {}
    if watched is None:
        return {state: "" for state in told}  # its sensor has seen nothing yet, so nothing has changed
    if check is not None and check.at > watched.time:
        late, about = not check.passed and check.severity == "ERROR", check.description
    else:
        overdue = timedelta(seconds=watched.overdue) + (at - watched.time)
        late, about = watched.verdict == "late", f"its latest due window has been overdue for {spoken(overdue)}"
    ever_loaded = any(count for status, count in watched.windows.items() if status not in _NEVER_LOADED)
    if late and ("late" in told or (ever_loaded and not seen.backfill)):
        found["late"] = about
    reasons = [f"{key} ({why})" for key, why in watched.stopped.items()]
    if reasons:
        more = f" and {len(reasons) - 3} more" if len(reasons) > 3 else ""
        found["failed"] = f"windows wait for a person: {'; '.join(reasons[:3])}{more}"
    elif any(key in watched.pending for key in told.get("failed", {}).get("windows", ())):
        found["failed"] = ""  # tried again just now, and not loaded yet
    return found


def _linked(text: str, seen: Seen) -> str:
    return f"{text} {seen.link}".strip()
