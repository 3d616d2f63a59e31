"""What is watched about a table, one module per check; :func:`checks_for` makes them Dagster asset checks."""

from incload_assets.checks.cheap import CHEAP, has_check
from incload_assets.checks.definitions import checks_for
from incload_assets.checks.reconciliation import ReconciliationConfig

__all__ = ["CHEAP", "ReconciliationConfig", "checks_for", "has_check"]
