"""Nightly maintenance of tables. Each job is in a file of its own, with its implementation and schedule."""

from incload_assets.maintenance.compact_files import COMPACT_FILES
from incload_assets.maintenance.compact_logs import COMPACT_LOGS
from incload_assets.maintenance.expire_payloads import EXPIRE_PAYLOADS
from incload_assets.maintenance.vacuum import VACUUM_TABLES

JOBS = (COMPACT_FILES, EXPIRE_PAYLOADS, VACUUM_TABLES, COMPACT_LOGS)
"""All maintenance jobs, in the order in which they run."""
