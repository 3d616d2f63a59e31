"""The checks of a table, one module each; :func:`checks_for` defines them as Dagster asset checks."""

from incload_assets.checks.definitions import checks_for
from incload_assets.checks.reconciliation import ReconciliationConfig
from incload_assets.checks.registry import LIGHT_CHECKS, TABLE_CHECKS, check_names

__all__ = ["LIGHT_CHECKS", "TABLE_CHECKS", "ReconciliationConfig", "check_names", "checks_for"]
