"""Sensors that start loads: for new data at a source, missed windows, due retries and runs whose process is gone."""

from incload_assets.automation.orphans import fail_orphans, orphaned_runs
from incload_assets.automation.watching import watch_sensor

__all__ = ["fail_orphans", "orphaned_runs", "watch_sensor"]
