"""The checks that look at source, log and Dagster only, and so can go with every load."""

from collections.abc import Callable

import dagster as dg

from incload_assets.checks import freshness, gaps, quarantine, rollback, source_files, volume
from incload_assets.checks.look import Look

CHEAP: dict[str, tuple[str, Callable[[Look], dg.AssetCheckResult]]] = {
    freshness.NAME: (freshness.DESCRIPTION, freshness.freshness),
    gaps.NAME: (gaps.DESCRIPTION, gaps.gaps),
    volume.NAME: (volume.DESCRIPTION, volume.volume),
    quarantine.NAME: (quarantine.DESCRIPTION, quarantine.quarantine),
    source_files.NAME: (source_files.DESCRIPTION, source_files.source_files),
    rollback.NAME: (rollback.DESCRIPTION, rollback.rollback),
}
"""The checks that need neither Spark nor the table's rows, by name."""
