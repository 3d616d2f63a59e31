"""Positions of windows of a database table: what is remembered of them."""

import hashlib
import json
from datetime import timedelta

from incload_assets.loading.errors import DeclarationError
from incload_assets.loading.sources.base import Position
from incload_assets.loading.sources.database_closing import Closing, Server
from incload_assets.loading.sources.database_ranges import Range
from incload_assets.loading.sources.database_scan import Found
from incload_assets.loading.sources.database_table import Relation

NOTHING = Position(
    "empty",
    {"low": 0, "high": 0, "rows": 0, "least": None, "most": None, "state": "closed"},
    "nothing at the source, nor to come",
)
"""The position of a window that is complete without a row."""


def check_lag(table: str, lag: timedelta) -> None:
    """Check a lag.

    Raises:
        DeclarationError: It is negative.
    """
    if lag < timedelta(0):
        raise DeclarationError(
            f"{table}: source: lag is {lag}", rule="a lag is not negative", remedy="write timedelta(minutes=5)"
        )


def closing_of(position: Position | None) -> Closing:
    """How far a landed window was."""
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
