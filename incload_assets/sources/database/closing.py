"""Completeness of a database window: no running transaction can still add a row to it.

A row becomes visible when its transaction commits, which may be long after its time or number was set. So a window is
*open* until its edge (its end, plus a lag for clock differences), then *waiting* for the transactions that began before
the edge and still run, then *closed*: all later rows have a later time or a higher number.

A window also waits for transactions whose begin is hidden. Of a server that does not tell all transactions no window
ever closes.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from incload_assets.declaration import window as windows
from incload_assets.declaration.source import Position
from incload_assets.platform.dialects.dialect import Dialect, Server
from incload_assets.platform.wording import several
from incload_assets.sources.database.ranges import Found, Range
from incload_assets.sources.database.relation import Relation

Lag = Annotated[timedelta, Field(ge=timedelta(0), description="a length of time that is not negative")]
State = Literal["open", "waiting", "closed"]


@dataclass(frozen=True)
class Closing:
    """Progress of a window towards completeness; the state is explained in the module.

    The window waits for ``pending``, transactions or sessions, whose numbers are only valid since the server's start.
    """

    state: State
    pending: Sequence[str] = ()
    started: str = ""

    @classmethod
    def told_by(cls, detail: Mapping[str, Any]) -> "Closing":
        """The closing stored in a position's detail; open if there is none."""
        return cls(detail.get("state", "open"), detail.get("pending", ()), detail.get("server_started", ""))

    def as_detail(self) -> dict[str, Any]:
        """The entries for a position's detail."""
        waiting = {"pending": list(self.pending), "server_started": self.started} if self.pending else {}
        return {"state": self.state, **waiting}


def server_of(dialect: Dialect, connection: Any) -> Server:
    """The state of the server; to be read before any row."""
    before = windows.now()
    server = dialect.server(connection)
    after = windows.now()
    # the server reads its clock when the query arrives, about halfway between the two
    return replace(server, skew=server.now - (before + (after - before) / 2))


def closing(edge: datetime | None, before: Closing, server: Server, *, by_session: bool = False) -> Closing:
    """The present closing of a window, from the one when the window was ingested.

    From ``edge`` on no transaction begins that could add a row; None: not known yet. With ``by_session`` it waits for
    sessions, because they cache sequence numbers.
    """
    if before.state == "closed":
        return Closing("closed")
    if edge is None or server.now < edge or server.blind:
        return Closing("open")
    running = server.sessions if by_session else server.transactions
    suspects = {number for number, begin in running.items() if begin is None or begin < edge}
    if before.state == "waiting":
        # a restart ended all of them; and only those that ran at the edge, which were recorded, matter
        suspects = suspects & set(before.pending) if before.started == server.started else set()
    if server.prepared:
        suspects.add("prepared")
    return Closing("waiting", sorted(suspects), server.started) if suspects else Closing("closed")


NOTHING = Position(
    "empty",
    {"low": 0, "high": 0, "rows": 0, "least": None, "most": None, "state": "closed"},
    "nothing at the source, and nothing to come",
)
"""The position of a window that is complete without a row."""


def closing_of(position: Position | None) -> Closing:
    """The closing of an ingested window."""
    return Closing.told_by(position.detail if position else {})


def position_of(relation: Relation, part: Range, found: Found, state: Closing, server: Server) -> Position:
    """The position of a range, with its content and its closing."""
    if state.state == "closed" and not found.rows:
        return NOTHING
    content = json.dumps([part.low, part.high, found.rows, found.hash, state.state])
    detail = {
        "low": part.low,
        "high": part.high,
        "rows": found.rows,
        "least": found.least,
        "most": found.most,
        **state.as_detail(),
        **({"blind": server.blind} if server.blind else {}),
    }
    nulls = f", {found.nulls} of them with NULL in the window column" if found.nulls else ""
    pending = f" for {len(state.pending)} transactions" if state.pending else ""
    skew = round(server.skew.total_seconds())
    clock = f"; the server's clock is {abs(skew)} s {'ahead of' if skew > 0 else 'behind'} ours" if skew else ""
    blind = f"; no window becomes complete: {server.blind}" if server.blind else ""
    summary = f"{several(found.rows, 'row')} of {relation.place}{nulls}, {state.state}{pending}{clock}{blind}"
    return Position(hashlib.sha256(content.encode()).hexdigest()[:16], detail, summary, found.size)
