"""The transactions of a server with InnoDB that may still add rows, by their threads.

InnoDB answers with its last list of transactions for a tenth of a second after the last answer, to whomever it gave it.
So the list is believed only if it has a transaction that was begun for this purpose.
"""

import time
from datetime import UTC, datetime
from typing import Any

import pymysql

REPLICA = "a replica does not know the transactions of its primary server"
_OLD = "the server's list of transactions is old, because others ask for it all the time"
_UNTOLD = "the account may not see whether the server is a replica; GRANT {right} to it"
_HIDDEN = "the account may not see transactions of others; GRANT PROCESS ON *.* to it"
# Engines without transactions are seen by their statements. Others may also read tables of another server.
_ENGINES = ("innodb", "myisam", "mrg_myisam", "aria", "memory", "csv", "archive")
# A replica that is stopped has no session of the system. The rows of these queries are its connections to primaries.
_MARIADB = ("SHOW ALL SLAVES STATUS", "SLAVE MONITOR ON *.*")
_CHANNELS = "performance_schema.replication_connection_configuration"
_MYSQL = (f"SELECT channel_name FROM {_CHANNELS}", f"SELECT ON {_CHANNELS}")
# A statement takes NOW() when it arrives, and may wait for a lock before its transaction begins. Sessions of the system
# apply changes of another server: a replica's, or a cluster's.
_STATEMENTS = """
SELECT id, user = 'system user', utc_timestamp() - INTERVAL time + 1 SECOND FROM information_schema.processlist
WHERE id <> connection_id() AND command <> 'Daemon'
  AND (user = 'system user' OR command <> 'Sleep' AND command NOT LIKE 'Binlog Dump%')
"""
# InnoDB tells the begin in the time zone of the server's machine; of the hour that comes twice, the first is meant
_TRANSACTIONS = """
SELECT thread, thread = connection_id(),
  IF(convert_tz(utc - INTERVAL 1 HOUR, '+00:00', 'SYSTEM') = begun, utc - INTERVAL 1 HOUR, utc)
FROM (SELECT trx_mysql_thread_id AS thread, trx_started AS begun, convert_tz(trx_started, 'SYSTEM', '+00:00') AS utc
  FROM information_schema.innodb_trx WHERE trx_is_read_only = 0 OR trx_mysql_thread_id = connection_id()) AS running
"""
_ER = pymysql.constants.ER
_CACHED_SECONDS, _LOOKS = 0.11, 50


def running(connection: Any) -> tuple[dict[str, datetime | None], str]:
    """The begin of what runs in each thread, None if it is unknown, and why this is not all; empty if it is.

    The thread 0 has prepared transactions whose session has ended.
    """
    statements = connection.rows(_STATEMENTS)  # before the transactions: a statement ends, what it began stays
    transactions, blind = _transactions(connection)
    begun: dict[str, datetime | None] = {}
    for thread, _, begin in [*transactions, *statements]:
        known = begun.get(str(thread), begin)
        begun[str(thread)] = min(known, begin) if known and begin else None
    if any(of_system for _, of_system, _ in statements):
        blind = REPLICA
    blind = blind or _replicates(connection)
    return {thread: begin and begin.replace(tzinfo=UTC) for thread, begin in begun.items()}, blind


def unseen(engine: str | None) -> str:
    """The reason why transactions of a table's engine are not known; empty if they are. A view has no engine."""
    known = engine is None or engine.lower() in _ENGINES
    return "" if known else f"the transactions of the storage engine {engine} are not known"


def _replicates(connection: Any) -> str:
    query, right = _MARIADB if connection.is_mariadb else _MYSQL
    try:
        return REPLICA if connection.rows(query) else ""
    except pymysql.err.OperationalError as error:
        if error.args[0] not in (_ER.SPECIFIC_ACCESS_DENIED_ERROR, _ER.TABLEACCESS_DENIED_ERROR):
            raise
        return _UNTOLD.format(right=right)


def _transactions(connection: Any) -> tuple[list[tuple[Any, ...]], str]:
    found, blind = [], _OLD
    connection.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    for _ in range(_LOOKS):
        try:
            found = connection.rows(_TRANSACTIONS)
        except pymysql.err.OperationalError as error:
            if error.args[0] != _ER.SPECIFIC_ACCESS_DENIED_ERROR:
                raise
            blind = _HIDDEN
            break
        if any(own for _, own, _ in found):
            blind = ""
            break
        time.sleep(_CACHED_SECONDS)
    connection.rows("COMMIT")  # rows are read later, by what was committed then
    return [row for row in found if not row[1]], blind
