"""What is watched about a table, one module per check; :func:`checks_for` makes them Dagster asset checks."""

from incload_assets.checks.definitions import checks_for
from incload_assets.checks.reconciliation import ReconciliationConfig
from incload_assets.checks.registry import CHEAP
from incload_assets.checks.whole import WHOLE, check_names

__all__ = ["CHEAP", "WHOLE", "ReconciliationConfig", "check_names", "checks_for"]
