"""The checks of a table, one module each; :func:`checks_for` defines them as Dagster asset checks."""

from incload_assets.checks.definitions import checks_for
from incload_assets.checks.reconciliation import ReconciliationConfig
from incload_assets.checks.registry import CHEAP
from incload_assets.checks.whole import WHOLE, check_names

__all__ = ["CHEAP", "WHOLE", "ReconciliationConfig", "check_names", "checks_for"]
