"""The checks that read only source, log and Dagster, and are cheap enough to run with every load."""

from collections.abc import Callable

import dagster as dg

from incload_assets.checks import clock, freshness, gaps, headroom, quarantine, rollback, source_files, volume
from incload_assets.checks.observation import Observation
from incload_assets.declaration.table import Table
from incload_assets.progress.verdicts import as_seen

CHEAP: dict[str, tuple[str, Callable[[Observation], dg.AssetCheckResult]]] = {
    freshness.NAME: (freshness.DESCRIPTION, freshness.freshness),
    gaps.NAME: (gaps.DESCRIPTION, gaps.gaps),
    volume.NAME: (volume.DESCRIPTION, volume.volume),
    quarantine.NAME: (quarantine.DESCRIPTION, quarantine.quarantine),
    source_files.NAME: (source_files.DESCRIPTION, source_files.source_files),
    rollback.NAME: (rollback.DESCRIPTION, rollback.rollback),
    headroom.NAME: (headroom.DESCRIPTION, headroom.headroom),
    clock.NAME: (clock.DESCRIPTION, clock.clock),
}
"""The checks that need neither Spark nor the table's rows, by name."""


def cheap_checks(table: Table) -> list[str]:
    """The names of the cheap checks that apply to a table: one that does not apply would always be green."""
    source = table.source
    without = {
        freshness.NAME: table.freshness is None,
        source_files.NAME: not source.names_what_it_holds(),
        headroom.NAME: not source.expires_rows,
        clock.NAME: not source.has_row_times,
    }
    return [name for name in CHEAP if not without.get(name)]


def cheap_verdict(name: str, look: Observation) -> dg.AssetCheckResult:
    """The result of one of the cheap checks for an observation."""
    return as_seen(CHEAP[name][1](look), look.now)
