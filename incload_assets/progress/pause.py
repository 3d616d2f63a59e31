"""Pauses: loads of a table that a person has stopped for a time, while detection and checks go on.

A pause is an entry of the audit, and so is its end: who paused what and why is written down by the commit that makes it
so. The pause of a claim has a holder, and stands beside that of a person. Silences are kept in the same way.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from json import loads
from threading import Lock

from deltalake import DeltaTable

from incload_assets.declaration.window import now
from incload_assets.platform.durations import duration_of
from incload_assets.platform.errors import IncrementalLoadError, TablePaused
from incload_assets.platform.lake import Lake
from incload_assets.platform.lake_rows import rows_where
from incload_assets.progress.audit import DAMAGED, Action, AuditEntry, audit_uri, record

_VERBS = {"pause": "paused", "silence": "silenced"}
_ENDS = {"resume": "pause", "unsilence": "silence"}
"""Actions that end what another action of the audit began."""
UNTIL, HOLDER = "until", "holder"
"""Names of details of the audit's entries."""


@dataclass(frozen=True, kw_only=True)
class Pause:
    """A pause of a table's loads, or a silence of messages about it; work that claims the table is its ``holder``."""

    table: str
    actor: str
    because: str
    since: datetime
    until: datetime
    holder: str = ""
    number: int = 0
    action: Action = "pause"

    def __str__(self) -> str:
        since, until = f"{self.since:%Y-%m-%d %H:%M}", f"{self.until:%Y-%m-%d %H:%M}"
        return f"{_VERBS[self.action]} by {self.actor} since {since} until {until} UTC: {self.because}"


def pauses_in_force(lake: Lake, at: datetime, action: Action = "pause") -> list[Pause]:
    """The pauses or silences in force at an instant, oldest first; one small read while the audit is unchanged."""
    delta = lake.delta(audit_uri(lake))
    if delta is None:
        return []
    version = (str(delta.metadata().id), delta.version())
    with _remembering:
        known = _remembered.get(lake.root)
    if known is None or known[0] != version:
        known = (version, _read(delta))
        with _remembering:
            _remembered[lake.root] = known
    return [pause for pause in known[1] if pause.action == action and pause.since <= at < pause.until]


def pauses_to_show(lake: Lake, at: datetime, action: Action = "pause") -> list[Pause]:
    """The pauses in force, for callers that only show them: none if the audit is damaged, which is shown as well."""
    try:
        return pauses_in_force(lake, at, action)
    except DAMAGED:
        return []


def pauses(lake: Lake, at: datetime) -> dict[str, Pause]:
    """The :func:`pauses_to_show` at an instant, by table name; the newest if a table has several."""
    return {pause.table: pause for pause in pauses_to_show(lake, at)}


def pause_of(lake: Lake, table_name: str, at: datetime | None = None) -> Pause | None:
    """The pause of a table in force at an instant, by default now; raises LakeUnreadable if the audit is damaged."""
    return {pause.table: pause for pause in pauses_in_force(lake, at or now())}.get(table_name)


def expect_not_paused(lake: Lake, table_name: str) -> None:
    """Refuses a load of a table that is paused now; the message says by whom, why, until when, and how to resume."""
    if (found := pause_of(lake, table_name)) is not None:
        raise TablePaused(
            f"{table_name} is {found}",
            rule="a paused table is not loaded, not even by hand",
            remedy=f"wait, or incload resume {table_name}",
        )


def pause(lake: Lake, table_name: str, until: datetime, because: str, *, actor: str = "", run_id: str = "") -> Pause:
    """Pauses a table until a future instant (aware), for a reason; replaces a person's pause that is in force."""
    return begin(lake, table_name, until, because, actor=actor, run_id=run_id)


def begin(
    lake: Lake,
    table_name: str,
    until: datetime,
    because: str,
    *,
    action: Action = "pause",
    actor: str = "",
    run_id: str = "",
) -> Pause:
    """Begins a pause or a silence, by an entry of the audit; arguments and errors are as for :func:`pause`."""
    what = f"{table_name or 'nothing'} is not {_VERBS[action]}"
    if not because.strip():
        raise IncrementalLoadError(
            f"{what}: no reason is given",
            rule=f"who depends on a table wants to know why it is {_VERBS[action]}",
            remedy='give one, for example --because "the shop is being migrated"',
        )
    if until <= now():
        raise IncrementalLoadError(
            f"{what}: {until:%Y-%m-%d %H:%M} UTC has passed",
            rule=f"a {action} ends in the future",
            remedy="name a later time, or a duration such as 2h",
        )
    entry = AuditEntry(
        action=action,
        table=table_name,
        actor=actor,
        because=because.strip(),
        run_id=run_id,
        details={UNTIL: until.astimezone(UTC).isoformat()},
    )
    return pause_by(record(lake, entry))


def resume(lake: Lake, table_name: str, because: str = "", *, actor: str = "", run_id: str = "") -> Pause:
    """Ends the pauses of a table, claims included; returns the newest, and raises an error if there is none."""
    found = pause_of(lake, table_name)
    if found is None:
        raise IncrementalLoadError(
            f"{table_name} is not paused", rule="only a paused table can be resumed", remedy="none; its loads go on"
        )
    record(lake, AuditEntry(action="resume", table=table_name, actor=actor, because=because, run_id=run_id))
    return found


def parse_until(text: str, at: datetime) -> datetime:
    """The instant of a time such as ``2026-01-06T12:00+01:00`` (default: UTC), or after a duration such as ``1w``."""
    return _instant(text, at, 1, "--until 2h")


def parse_since(text: str, at: datetime) -> datetime:
    """The same for the past: a duration counts back from the instant."""
    return _instant(text, at, -1, "--since 7d")


def _instant(text: str, at: datetime, sign: int, example: str) -> datetime:
    try:
        if (length := duration_of(text)) is not None:
            return at + sign * length
        instant = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise IncrementalLoadError(
            f"{text!r} is neither a time nor a duration",
            rule="a time is written 2026-01-06 or 2026-01-06T12:00, in UTC; a duration 30min, 2h, 3d or 1w",
            remedy=f"write for example {example}",
        ) from None
    return instant.astimezone(UTC) if instant.tzinfo else instant.replace(tzinfo=UTC)


def _read(delta: DeltaTable) -> tuple[Pause, ...]:
    """The pauses and silences that were not ended, whether or not their time is over, oldest first."""
    columns = ["number", "at", "action", "table", "actor", "because", "details"]
    rows = rows_where(delta, {"action": [*_VERBS, *_ENDS]}, columns=columns).to_pylist()
    found: dict[tuple[str, str], dict[str, Pause]] = {}
    for row in sorted(rows, key=lambda row: row["number"]):
        details, action = loads(row["details"]), row["action"]
        of_table = found.setdefault((_ENDS.get(action, action), row["table"]), {})
        holder = details.get(HOLDER, "")
        of_table.pop(holder, None)
        if action in _VERBS:
            of_table[holder] = pause_by(AuditEntry(**row | {"details": details}))
        elif not holder:
            of_table.clear()
    return tuple(sorted((one for several in found.values() for one in several.values()), key=lambda one: one.number))


def pause_by(entry: AuditEntry) -> Pause:
    """The pause that an entry of the audit begins."""
    assert entry.at is not None
    return Pause(
        table=entry.table,
        actor=entry.actor,
        because=entry.because,
        since=entry.at,
        until=datetime.fromisoformat(entry.details[UNTIL]),
        holder=entry.details.get(HOLDER, ""),
        number=entry.number,
        action=entry.action,
    )


_remembered: dict[str, tuple[tuple[str, int], tuple[Pause, ...]]] = {}
_remembering = Lock()
