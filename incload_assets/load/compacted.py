"""Windows whose log was compacted: a load refuses to replace them, unless the run is allowed to."""

from incload_assets.change_log.commit import bare_fence
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.platform.errors import WindowCompacted
from incload_assets.progress.run_tags import REWRITE_COMPACTED_TAG


def refuse_rewrite(load: LoadContext, window: Window, ingested: WindowRecord, position: Position) -> None:
    """Refuses to replace a compacted window: says what has changed, and how to replace the window nevertheless."""
    name = load.table.name
    changed = (
        f"the source has changed from {ingested.summary or ingested.fingerprint} to "
        f"{position.summary or position.fingerprint}"
        if ingested.fingerprint != position.fingerprint
        else f"the table's code has changed ({ingested.code_version}, now {load.table.code_version})"
    )
    raise WindowCompacted(
        f"{name} {window.key}: its log was compacted on {ingested.compacted_at:%Y-%m-%d}, and {changed}",
        rule="a window older than log_retention is not replaced automatically: older changes that it superseded may be "
        "gone from the log, and cannot be restored",
        remedy=f"to replace it nevertheless: incload load {name} --partitions {window.key} --rewrite-compacted, or "
        f"materialize it with the run tag {REWRITE_COMPACTED_TAG}",
    )


def hold_off(load: LoadContext) -> None:
    """Rejects the removals of compactions that may be running, before a load ingests a compacted window."""
    bare_fence(load, compaction_app_id(load.table), odd=True)


def compaction_app_id(table: Table) -> str:
    """The identifier of the fence for compactions of a table's log."""
    return f"{table.name}/compaction"
