"""Silences: messages and alerts about tables that a person has stopped for a time, for planned work.

A silence is kept as a pause is, see :mod:`incload_assets.progress.pause`. Loads, checks and metrics go on. A silence of
no table in particular, with an empty name, is one of all tables and of the machinery.
"""

from collections.abc import Sequence
from datetime import datetime

from incload_assets.declaration.window import now
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.progress.audit import AuditEntry, record
from incload_assets.progress.pause import Pause, begin, pauses_in_force, pauses_to_show

ALL = ""
"""The table of a silence of all tables."""


def silence(
    lake: Lake, tables: Sequence[str], until: datetime, because: str, *, actor: str = "", run_id: str = ""
) -> list[Pause]:
    """Silences tables; what was in force for the same ones is replaced.

    Args:
        lake: The lake with the audit.
        tables: Names of tables; none: all tables and the machinery.
        until: When the silence ends by itself, aware.
        because: Why.
        actor: Who silences; default: the operating system's user.
        run_id: The Dagster run that does it; empty if none.

    Raises:
        IncrementalLoadError: There is no reason, or the end has passed.
    """
    return [
        begin(lake, table, until, because, action="silence", actor=actor, run_id=run_id) for table in tables or [ALL]
    ]


def unsilence(lake: Lake, tables: Sequence[str] = (), *, actor: str = "", run_id: str = "") -> list[Pause]:
    """Ends silences; returns them.

    Args:
        lake: The lake with the audit.
        tables: Names of tables; none: every silence in force.
        actor: Who ends them; default: the operating system's user.
        run_id: The Dagster run that does it; empty if none.

    Raises:
        IncrementalLoadError: Nothing is silenced, or a table only by a silence of all tables.
    """
    in_force = {one.table: one for one in pauses_in_force(lake, now(), "silence")}
    ended = [*in_force.values()] if not tables else [in_force[name] for name in tables if name in in_force]
    if missing := [name for name in tables if name not in in_force] or ([] if ended else ["nothing"]):
        raise IncrementalLoadError(
            f"{', '.join(missing)}: not silenced" + (" alone, but with all tables" if ALL in in_force else ""),
            rule="only what was silenced can be ended",
            remedy="incload silence --off ends every silence" if in_force else "none; messages are sent",
        )
    for one in ended:
        record(lake, AuditEntry(action="unsilence", table=one.table, actor=actor, run_id=run_id))
    return ended


def silences(lake: Lake, at: datetime | None = None) -> list[Pause]:
    """The silences to show at an instant, by default now, oldest first; none if the audit is damaged."""
    return pauses_to_show(lake, at or now(), "silence")


def silence_of(in_force: Sequence[Pause], table_name: str) -> Pause | None:
    """The newest of some silences that holds for a table; None if there is none."""
    return next((one for one in reversed(in_force) if one.table in (ALL, table_name)), None)
