"""What starts a load: news at a source, a window that was missed, a failure whose time has come."""

from incload_assets.automation.orphans import fail_orphans, orphaned_runs
from incload_assets.automation.source_sensor import source_sensor

__all__ = ["fail_orphans", "orphaned_runs", "source_sensor"]
