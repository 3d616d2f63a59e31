"""Claims: pauses of work that must be alone with a table, as an erasure is.

A claim is a pause with a *holder*, which tells the work from other work and is the same when it is repeated. So work
that has died is taken over by its repetition, and other work is refused while a claim is in force. The end of a claim
ends no other pause; ``incload resume`` ends all of a table.
"""

from datetime import UTC, datetime

from incload_assets.declaration.window import now
from incload_assets.platform.lake import Lake
from incload_assets.progress.audit import AuditEntry, record_if
from incload_assets.progress.pause import HOLDER, UNTIL, Pause, pause_by, pauses_in_force


def claim(
    lake: Lake, table_name: str, until: datetime, because: str, *, holder: str, actor: str = "", run_id: str = ""
) -> Pause | None:
    """Pauses a table for work that must be alone with it; None if other work has the table.

    Work of the same holder that has died, or that was started twice, loses its claim to this one.

    Args:
        lake: The lake with the audit.
        table_name: The table's name.
        until: When the claim ends by itself, aware.
        because: What is done.
        holder: What tells the work from other work, and is the same when it is repeated.
        actor: Who does it; default: the operating system's user.
        run_id: The Dagster run that does it; empty if none.

    Raises:
        ConcurrentLoad: Others wrote to the audit first in every attempt.
    """
    details = {UNTIL: until.astimezone(UTC).isoformat(), HOLDER: holder}
    entry = AuditEntry(action="pause", table=table_name, actor=actor, because=because, run_id=run_id, details=details)
    made = record_if(lake, lambda: entry if claimed_by_others(lake, table_name, holder) is None else None)
    return pause_by(made) if made is not None else None


def claimed_by_others(lake: Lake, table_name: str, holder: str) -> Pause | None:
    """The claim of another holder that a table has now; None if there is none."""
    others = (one for one in pauses_in_force(lake, now()) if one.table == table_name and one.holder not in ("", holder))
    return next(others, None)


def end_claim(lake: Lake, claimed: Pause, because: str, *, actor: str = "", run_id: str = "") -> bool:
    """Ends a claim, and no other pause; returns whether it was in force, as another may have taken its place.

    Args:
        lake: The lake with the audit.
        claimed: The claim, from :func:`claim`.
        because: Why.
        actor: Who ends it; default: the operating system's user.
        run_id: The Dagster run that ends it; empty if none.

    Raises:
        ConcurrentLoad: Others wrote to the audit first in every attempt.
    """
    details = {HOLDER: claimed.holder}
    entry = AuditEntry(
        action="resume", table=claimed.table, actor=actor, because=because, run_id=run_id, details=details
    )

    def if_in_force() -> AuditEntry | None:
        return entry if claimed.number in {one.number for one in pauses_in_force(lake, now())} else None

    return record_if(lake, if_in_force) is not None
