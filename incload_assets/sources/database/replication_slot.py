"""Monitoring of PostgreSQL replication slots: the log that the server still keeps for a connector."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from incload_assets.declaration.field_types import check_types
from incload_assets.declaration.source import RetentionMargin
from incload_assets.platform.databases import POSTGRES, Database
from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.wording import size
from incload_assets.sources.database.errors import looking
from incload_assets.sources.database.relation import DatabaseName

_SLOT = """
SELECT s.active, s.wal_status, s.safe_wal_size, pg_wal_lsn_diff(
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, s.restart_lsn)::bigint,
  c.setting::bigint * 1024 * 1024
FROM pg_settings c LEFT JOIN pg_replication_slots s ON s.slot_name = %s WHERE c.name = 'max_slot_wal_keep_size'
"""


@dataclass(frozen=True)
class ReplicationSlot:
    """A replication slot, whose remaining log is reported by a check.

    PostgreSQL keeps its log from the position of the slot's reader on, up to ``max_slot_wal_keep_size``, and then drops
    the slot. The reader loses all changes since its position: a new slot begins later, with a snapshot that shows no
    deletes. Without a limit the log fills the server's disk. Any account may read the state of a slot.

    Args:
        database: The database's name in the environment, ``INCLOAD_DATABASE_<NAME>_URL``.
        name: Name of the slot; Debezium's ``slot.name``.

    Example:
        >>> ReplicationSlot("shop", "debezium").name
        'debezium'
    """

    database: DatabaseName
    name: Annotated[str, Field(pattern="^[a-z0-9_]{1,63}$", description="up to 63 of a-z, 0-9 and _")]

    def validate(self, table_name: str) -> None:
        """Checks both names."""
        check_types(table_name, "source: slot.", self)

    def headroom(self, table_name: str) -> RetentionMargin:
        """The share of the log limit left until the slot is dropped, and whether it is read; needs PostgreSQL 13."""
        keeper = f"the replication slot {self.name} of {self.database}"
        database = Database.named(self.database)
        if database.dialect is not POSTGRES:
            raise SourceUnreadable(
                f"{table_name}: {keeper}: the database is a {database.dialect.name}",
                rule="replication slots are of PostgreSQL",
                remedy="drop slot from Debezium(...), or name another database",
            )
        with looking(table_name, keeper), database.connect() as connection:
            found = connection.execute(_SLOT, [self.name]).fetchone()
        if found is None:
            raise SourceUnreadable(
                f"{table_name}: {keeper}: the server has no max_slot_wal_keep_size",
                rule="PostgreSQL 13 and newer report the headroom of a slot",
                remedy="drop slot from Debezium(...), or use a newer server",
            )
        active, status, safe, kept, limit = found
        if status is None or status == "lost":
            gone = "does not exist" if status is None else "was dropped"
            return RetentionMargin(f"{keeper} {gone}: all changes since its reader's last read are lost", 0)
        idle = "" if active else "; nothing reads it now"
        if safe is None:
            return RetentionMargin(
                f"{keeper} keeps {size(kept)} of log, limited only by the disk{idle}", 1, bool(active), kept=kept
            )
        return RetentionMargin(
            f"{keeper} keeps {size(kept)} of log and is dropped when {size(max(safe, 0))} more are written{idle}",
            safe / limit,
            bool(active),
            kept=kept,
        )
