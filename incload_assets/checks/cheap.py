"""The checks that look at source, log and Dagster only, and so can go with every load."""

from collections.abc import Callable

import dagster as dg

from incload_assets.checks import clock, freshness, gaps, headroom, quarantine, rollback, source_files, volume
from incload_assets.checks.look import Look
from incload_assets.loading.declaration import Table

CHEAP: dict[str, tuple[str, Callable[[Look], dg.AssetCheckResult]]] = {
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


def has_check(table: Table, name: str) -> bool:
    """Whether a table has a check: there is no headroom where nothing is forgotten, no clock where nothing is dated."""
    source = table.source
    return {headroom.NAME: source.forgets, clock.NAME: source.dated}.get(name, True)


def cheap_checks(table: Table) -> list[str]:
    """The names of those that a table has."""
    return [name for name in CHEAP if has_check(table, name)]
