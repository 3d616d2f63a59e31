"""What a load does about windows whose log was compacted: it refuses to replace them, unless a run is allowed to."""

from incload_assets.change_log.commit import bare_fence
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from resources.errors import WindowCompacted

REWRITE_COMPACTED_TAG = "incload/rewrite_compacted"
"""Of a run that may replace windows whose log was compacted."""


def refuse_rewrite(load: LoadContext, window: Window, ingested: WindowRecord, position: Position) -> None:
    """Do not replace a compacted window.

    Raises:
        WindowCompacted: With what changed, and how to choose.
    """
    name = load.table.name
    changed = (
        f"the source has changed: ingested was {ingested.summary or ingested.fingerprint}, now it is "
        f"{position.summary or position.fingerprint}"
        if ingested.fingerprint != position.fingerprint
        else f"the table's code has changed ({ingested.code_version}, now {load.table.code_version})"
    )
    raise WindowCompacted(
        f"{name} {window.key}: its log was compacted on {ingested.compacted_at:%Y-%m-%d}, and {changed}",
        rule="a window older than log_retention is replaced only by choice: changes that it had overtaken may be gone "
        "from the log, so that they cannot come back",
        remedy=f"to replace it nevertheless: incload load {name} --partitions {window.key} --rewrite-compacted, or "
        f"materialize it with the run tag {REWRITE_COMPACTED_TAG}",
    )


def hold_off(load: LoadContext) -> None:
    """Refuse whatever a compaction may be about to remove: a load is going to ingest one of its windows.

    Raises:
        ConcurrentLoad: Others kept moving the fence.
    """
    bare_fence(load, compaction_app_id(load.table), odd=True)


def compaction_app_id(table: Table) -> str:
    """The identifier that fences the compactions of a table's log."""
    return f"{table.name}/compaction"
