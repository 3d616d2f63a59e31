"""All checks there are, and the checks that a table has."""

from incload_assets.checks import (
    clock,
    conflicts,
    freshness,
    gaps,
    headroom,
    quarantine,
    reconciliation,
    rollback,
    schema,
    skew,
    source_files,
    uniqueness,
    volume,
)
from incload_assets.declaration.table import Table

LIGHT_CHECKS = {
    check.name: check
    for check in (
        freshness.CHECK,
        gaps.CHECK,
        volume.CHECK,
        quarantine.CHECK,
        schema.CHECK,
        source_files.CHECK,
        rollback.CHECK,
        headroom.CHECK,
        clock.CHECK,
        skew.CHECK,
    )
}
TABLE_CHECKS = {check.name: check for check in (uniqueness.CHECK, conflicts.CHECK)}


def light_checks(table: Table) -> list[str]:
    """The names of the light checks that a table has."""
    return [check.name for check in LIGHT_CHECKS.values() if check.applies_to(table)]


def table_checks(table: Table) -> list[str]:
    """The names of the table checks that a table has."""
    return [check.name for check in TABLE_CHECKS.values() if check.applies_to(table)]


def check_names(table: Table) -> list[str]:
    """The names of all checks that a table has."""
    return [*light_checks(table), *table_checks(table), reconciliation.NAME]


def step_name(table: Table, name: str) -> str:
    """The name of the step that evaluates a check, or ``checks`` for all light checks."""
    return f"{table.identifier}__{name}"
