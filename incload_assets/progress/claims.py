"""Claims: pauses of work that must be alone with a table, as an erasure is.

A claim is a pause with a *holder*, which identifies the work and is the same when it is repeated. So the repetition of
work that has died takes its claim over, and other work is refused. The end of a claim ends no other pause.
"""

from datetime import UTC, datetime

from incload_assets.declaration.window import now
from incload_assets.platform.lake import Lake
from incload_assets.progress.audit import AuditEntry, record_if
from incload_assets.progress.pause import HOLDER, UNTIL, Pause, pause_by, pauses_in_force


def claim(
    lake: Lake, table_name: str, until: datetime, because: str, *, holder: str, actor: str = "", run_id: str = ""
) -> Pause | None:
    """Pauses a table for work that must be alone with it; None if work of another holder has the table.

    Work of the same holder that has died, or that was started twice, loses its claim to this one.
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
    """Ends a claim, and no other pause; returns whether it was in force, as another may have taken its place."""
    details = {HOLDER: claimed.holder}
    entry = AuditEntry(
        action="resume", table=claimed.table, actor=actor, because=because, run_id=run_id, details=details
    )

    def if_in_force() -> AuditEntry | None:
        return entry if claimed.number in {one.number for one in pauses_in_force(lake, now())} else None

    return record_if(lake, if_in_force) is not None
