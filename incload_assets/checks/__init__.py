"""The checks of a table, one module each; :func:`checks_for` defines them as Dagster asset checks."""

from incload_assets.checks.definitions import checks_for
from incload_assets.checks.reconciliation import ReconciliationConfig
from incload_assets.checks.recording import RECORD_AGAIN, last_results, record_what_changed
from incload_assets.checks.registry import LIGHT_CHECKS, TABLE_CHECKS, check_names

__all__ = [
    "LIGHT_CHECKS",
    "RECORD_AGAIN",
    "TABLE_CHECKS",
    "ReconciliationConfig",
    "check_names",
    "checks_for",
    "last_results",
    "record_what_changed",
]
