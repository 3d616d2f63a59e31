"""The observations of tables by the sensor on their sources, kept so that others need not read the sources again.

Each table's observation is kept by Dagster when it differs from the one before. The sensor's cursor says when it last
looked at all tables, and for which of them that is longer ago.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from socket import gethostname
from typing import Any

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.platform.dagster_private import InstigatorState, InstigatorType
from incload_assets.progress.instance_values import keep_values, values_of
from incload_assets.progress.lateness import Lateness
from incload_assets.progress.progress import STATUSES, WindowProgress
from incload_assets.progress.status import Overview

SENSOR = "watch_sources"
"""The name of the sensor on the sources of all tables."""
REMEMBERED = 200
"""Number of pending windows for which the first sight is kept."""
SHOWN = 20
RECENT = timedelta(minutes=2)
"""How long a look of the sensor counts as one of now."""
NEVER = "1970-01-01T00:00:00+00:00"
"""The instant of an observation of a table that could not be looked at yet."""
Mark = tuple[int, str]
"""The number of an event in Dagster's history, and the instant, in ISO 8601, at which it was the newest one."""
_OF_TABLE, _OF_LOCATION = "incload/observed ", "incload/watched "


@dataclass(frozen=True, kw_only=True)
class Observed:
    """The observation of a table's source. Times are in ISO 8601, durations in seconds, sizes estimated.

    Args:
        at: When the source was looked at; the last time that this went well, if there is ``trouble``.
        pending: When each window that is not loaded was first seen, by partition key; the oldest.
        waiting_records: Number of records that are not loaded; None if the source does not know it.
        rows: Number of rows of the table; None if there is no table, or it is unknown.
        last_load: When a partition was materialized last; empty: never.
        forgotten: Number of windows whose load is in the log, but unknown to Dagster.
        closed: What is to be said of former partitions definitions.
        left_out: Names of files at the source that resemble the table's data but are not read.
        unreadable: Why the table or its log cannot be read, with the remedy; empty if they can.
        trouble: Why the source could not be looked at since, with the remedy; empty if it could.
        location: Name of the code location whose sensor looked.
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
    rows: int | None = None
    last_load: str = ""
    forgotten: int = 0
    closed: Sequence[str] = field(default_factory=list)
    left_out: Sequence[str] = field(default_factory=list)
    unreadable: str = ""
    trouble: str = ""
    location: str = ""

    @property
    def time(self) -> datetime:
        """The instant, aware."""
        return datetime.fromisoformat(self.at)

    @property
    def oldest(self) -> timedelta:
        """For how long the oldest news have been waiting."""
        return max((self.time - datetime.fromisoformat(since) for since in self.pending.values()), default=timedelta(0))

    def seen_at(self, at: datetime) -> "Observed":
        """The same at a later instant, at which nothing else had changed: a table that is late has become later."""
        since = (at - self.time).total_seconds()
        return replace(self, at=at.isoformat(), overdue=self.overdue + since if self.verdict == "late" else 0.0)

    def overview(self, table_name: str, at: datetime) -> Overview:
        """The row of the table among others, as it was seen then and is at a later instant if nothing else happened."""
        return Overview(
            table=table_name,
            counts={} if self.trouble else self.windows,
            rows=self.rows,
            freshness=None if self.verdict in ("undeclared", "not due") else self.seen_at(at).overdue,
            last_materialized=datetime.fromisoformat(self.last_load) if self.last_load else None,
            forgotten=self.forgotten,
            left_out=self.left_out,
            closed=self.closed,
            unreadable=self.trouble or self.unreadable,
        )

    def says_the_same(self, other: "Observed") -> bool:
        """True if nothing but time lies between two observations."""
        return replace(self, at=other.at, overdue=other.overdue) == other

    def as_text(self) -> str:
        """The observation as it is kept."""
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(frozen=True)
class Pass:
    """The cursor of the sensor: when it last looked at tables, and when at those that have been waiting since.

    Args:
        at: When it last looked at all others, in ISO 8601.
        behind: When the sensor last looked at each table that waits for too long, by name; empty: never.
        unsure: The names of tables that may have changed: the sensor has not looked at them for :data:`RECENT`, or
            Dagster has recorded something about them since.
        marks: How much of Dagster's history the sensor knows; see :class:`~incload_assets.automation.news.News`.
    """

    at: str
    behind: Mapping[str, str] = field(default_factory=dict)
    unsure: Sequence[str] = field(default_factory=list)
    marks: Sequence[Mark] = field(default_factory=list)

    def as_text(self) -> str:
        """The pass as a cursor."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def last_look(self, table_name: str) -> datetime | None:
        """When the sensor last looked at a table; None if it never did."""
        at = self.behind.get(table_name, self.at)
        return datetime.fromisoformat(at) if at else None


def pass_in(cursor: str | None) -> Pass | None:
    """The pass in the sensor's cursor; None if it holds none, as a person may have set it to anything."""
    try:
        found: Any = json.loads(cursor or "")
        if datetime.fromisoformat(found["at"]).tzinfo is None:
            return None
        marks = [(int(number), str(instant)) for number, instant in found.get("marks") or ()]
        return Pass(found["at"], dict(found.get("behind") or {}), list(found.get("unsure") or ()), marks)
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


def observed_in(text: str | None) -> Observed | None:
    """The observation in a text; None if it holds none, for example of another version."""
    try:
        found: Any = json.loads(text or "")
        return Observed(**{name: value for name, value in found.items() if name in Observed.__dataclass_fields__})
    except (ValueError, TypeError, AttributeError):
        return None


def keep_observed(instance: dg.DagsterInstance, table: Table, observed: Observed) -> None:
    """Keeps the observation of a table."""
    keep_values(instance, {_OF_TABLE + table.name: observed.as_text()})


def sensors(instance: dg.DagsterInstance) -> Iterator[tuple[str, InstigatorState, Any]]:
    """The sensor on the sources of each code location: the location's name, its state in Dagster, and its last tick."""
    for state in instance.all_instigator_state(instigator_type=InstigatorType.SENSOR):
        if state.instigator_name == SENSOR and (tick := state.sensor_instigator_data) is not None:
            yield state.origin.repository_origin.code_location_origin.location_name, state, tick


def folder_of(root: Path) -> str:
    """The folder of a project with the name of its machine, as another machine may have the same folder."""
    return f"{gethostname()}:{root}"


def keep_watched(instance: dg.DagsterInstance, location: str, names: Iterable[str], folder: str) -> None:
    """Keeps the names of the tables that the sensor of a code location looks at, and the folder of its project."""
    keep_values(instance, {_OF_LOCATION + location: json.dumps([folder, sorted(names)])})


def watched_tables(instance: dg.DagsterInstance, location: str, folder: str) -> list[str]:
    """The names of the tables that the sensor of a location looks at, sorted; none if it is of another project."""
    kept = values_of(instance, [_OF_LOCATION + location]).values()
    return [name for of, names in map(json.loads, kept) if of == folder for name in names]


def observed_tables(instance: dg.DagsterInstance, tables: Iterable[Table]) -> dict[str, Observed]:
    """The kept observations by table name; tables without one are left out."""
    return observed_by_name(instance, (table.name for table in tables))


def observed_by_name(instance: dg.DagsterInstance, names: Iterable[str]) -> dict[str, Observed]:
    """The kept observations of tables with some names; those without one are left out."""
    kept = values_of(instance, (_OF_TABLE + name for name in names))
    found = {name.removeprefix(_OF_TABLE): observed_in(text) for name, text in kept.items()}
    return {name: observed for name, observed in found.items() if observed is not None}


def observation(
    table: Table,
    progress: Sequence[WindowProgress],
    late: Lateness,
    row: Overview | str,
    stopped: Mapping[str, str],
    before: Observed | None,
    at: datetime,
    location: str = "",
) -> Observed:
    """The observation of a tick; the one before says when pending windows were first seen.

    ``row`` is the table's row among others, or why the table cannot be read.
    """
    pending = [
        w for w in progress if w.status not in ("loaded", "held") and w.position is not None and not w.is_current
    ]
    first, records = dict(before.pending) if before else {}, _records(table, pending)
    seen = Observed(
        at=at.isoformat(),
        windows={name: sum(w.status == name for w in progress) for name in STATUSES},
        verdict=late.verdict,
        overdue=late.overdue.total_seconds(),
        pending={w.key: first.get(w.key, at.isoformat()) for w in pending[:REMEMBERED]},
        waiting_bytes=sum(w.position.size for w in pending if w.position is not None),
        waiting_records=None if records is None else sum(records.values()),
        waiting_by_part={part: count for part, count in (records or {}).items() if part and count},
        stopped=dict(list(stopped.items())[:SHOWN]),
        location=location,
        failing=dict([(w.key, w.failure or "error") for w in progress if w.status == "failed"][-SHOWN:]),
    )
    if isinstance(row, str):
        known = before or seen
        return replace(seen, unreadable=row, rows=known.rows, last_load=known.last_load)
    return replace(
        seen,
        windows=row.counts,
        rows=row.rows,
        last_load="" if row.last_materialized is None else row.last_materialized.isoformat(),
        forgotten=row.forgotten,
        closed=row.closed,
        left_out=row.left_out,
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
