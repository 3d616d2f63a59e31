"""When a window of a database is complete: no transaction is left that could still add a row to it.

A row becomes visible when its transaction commits, which may be long after the time, or the number, that it bears. So
a window is *open* until its edge (its end, and a lag for clocks that differ), then *waiting* for the transactions that
began before the edge and still run, then *closed*: whatever is to come bears a later time or a higher number.

Which transactions run is read from ``pg_locks``, where every account sees every transaction, also those that have
written nothing yet. When they began, an account sees of its own only, unless it is a member of ``pg_read_all_stats``:
what is hidden is waited for, too.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import psycopg
from pydantic import Field

from incload_assets.declaration import window as windows
from incload_assets.declaration.source import Position
from incload_assets.sources.postgres.ranges import Found, Range
from incload_assets.sources.postgres.relation import Relation
from resources.databases import APPLICATION

Lag = Annotated[timedelta, Field(ge=timedelta(0), description="a length of time that is not negative")]
State = Literal["open", "waiting", "closed"]

# now() is when this statement's transaction began, before the locks are looked at; what is visible is looked at later
_SERVER = f"""
SELECT now(), pg_postmaster_start_time()::text, pg_is_in_recovery(),
  (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()),
  (SELECT coalesce(json_agg(json_build_array(l.virtualtransaction, extract(epoch FROM a.xact_start),
      a.pid || '@' || coalesce(extract(epoch FROM a.backend_start)::text, ''),
      extract(epoch FROM a.backend_start))), '[]')
    FROM pg_stat_activity a LEFT JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'virtualxid' AND l.granted
      AND l.virtualxid = l.virtualtransaction
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
      AND coalesce(a.application_name, '') <> '{APPLICATION}')
"""


@dataclass(frozen=True)
class Server:
    """What a server said of itself at one moment.

    Args:
        now: By its clock, aware, UTC.
        skew: How far its clock is ahead of ours.
        started: When it was started, as it writes it: numbers of transactions are counted from there.
        standby: Whether it repeats another server, whose transactions it does not know.
        prepared: Transactions prepared and not yet committed.
        transactions: Those that run, by number, with their begin where it is not hidden.
        sessions: Likewise the connections.
    """

    now: datetime
    skew: timedelta
    started: str
    standby: bool
    prepared: int
    transactions: Mapping[str, datetime | None]
    sessions: Mapping[str, datetime | None]


@dataclass(frozen=True)
class Closing:
    """How far a window is on its way to completeness.

    Args:
        state: See above.
        pending: The transactions, or sessions, that are waited for.
        started: The server's start, without which their numbers say nothing.
    """

    state: State
    pending: Sequence[str] = ()
    started: str = ""

    @classmethod
    def told_by(cls, detail: Mapping[str, Any]) -> "Closing":
        """As a position remembers it; open where it does not."""
        return cls(detail.get("state", "open"), detail.get("pending", ()), detail.get("server_started", ""))

    def as_detail(self) -> dict[str, Any]:
        """For a position."""
        waiting = {"pending": list(self.pending), "server_started": self.started} if self.pending else {}
        return {"state": self.state, **waiting}


def server_of(connection: psycopg.Connection[Any]) -> Server:
    """What the server says of itself, to be asked before its rows are looked at.

    Raises:
        psycopg.Error: As the server has it.
    """
    before = windows.now()
    row = connection.execute(_SERVER).fetchone()
    assert row is not None
    now, started, standby, prepared, running = row
    after = windows.now()
    return Server(
        now=now.astimezone(UTC),
        # now() is taken when the question arrives, on the way
        skew=now.astimezone(UTC) - (before + (after - before) / 2),
        started=started,
        standby=standby,
        prepared=prepared,
        transactions={number: _instant(begin) for number, begin, *_ in running if number},
        sessions={number: _instant(begin) for *_, number, begin in running},
    )


def closing(edge: datetime | None, before: Closing, server: Server, *, by_session: bool = False) -> Closing:
    """How far a window is now.

    Args:
        edge: From when on no transaction begins that could add a row; None if that is not known yet.
        before: How far it was when it was ingested.
        server: What the server says.
        by_session: Whether to wait for sessions, not transactions: they hold back numbers from a sequence.
    """
    if before.state == "closed":
        return Closing("closed")
    if edge is None or server.now < edge or server.standby:
        return Closing("open")
    running = server.sessions if by_session else server.transactions
    suspects = {number for number, begin in running.items() if begin is None or begin < edge}
    if before.state == "waiting":
        # a restart ended them all; and who was not there when the window was over is none of them
        suspects = suspects & set(before.pending) if before.started == server.started else set()
    if server.prepared:
        suspects.add("prepared")
    return Closing("waiting", sorted(suspects), server.started) if suspects else Closing("closed")


def _instant(epoch: float | None) -> datetime | None:
    return None if epoch is None else datetime.fromtimestamp(epoch, UTC)


NOTHING = Position(
    "empty",
    {"low": 0, "high": 0, "rows": 0, "least": None, "most": None, "state": "closed"},
    "nothing at the source, nor to come",
)
"""The position of a window that is complete without a row."""


def closing_of(position: Position | None) -> Closing:
    """How far an ingested window was."""
    return Closing.told_by(position.detail if position else {})


def position_of(relation: Relation, part: Range, found: Found, state: Closing, server: Server) -> Position:
    """A range's position: what it holds, and how far it is on its way to completeness."""
    if state.state == "closed" and not found.rows:
        return NOTHING
    told = json.dumps([part.low, part.high, found.rows, found.hash, state.state])
    detail = {
        "low": part.low,
        "high": part.high,
        "rows": found.rows,
        "least": found.least,
        "most": found.most,
        **state.as_detail(),
    }
    nulls = f", {found.nulls} of them without a value to go by" if found.nulls else ""
    pending = f" for {len(state.pending)} transactions" if state.pending else ""
    skew = round(server.skew.total_seconds())
    clock = f"; the server's clock is {abs(skew)} s {'ahead of' if skew > 0 else 'behind'} ours" if skew else ""
    summary = f"{found.rows} rows of {relation.place}{nulls}, {state.state}{pending}{clock}"
    return Position(hashlib.sha256(told.encode()).hexdigest()[:16], detail, summary, found.size)
