"""The connectors of Debezium: how their events name a table, and in which order their positions are.

A sequence is a text with parts of equal length, so that texts have the order of the positions. A change always has the
same sequence. Rows of a snapshot are older than the changes that the connector reads after the snapshot.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

POSTGRESQL = "postgresql"
Fact = Callable[[str, str], Column]
"""From a member of an event's ``source``, and a type, to its value."""
LOG = r"([^/]+/[^/]+)/(\d+(?:,\d+)*)"
"""Pattern of a declared binary log: topic prefix, base name of its files, ids of the servers that wrote its changes."""


@dataclass(frozen=True)
class Connector:
    """A connector, as far as it differs from others.

    Args:
        label: The database's name, for messages.
        place: The members of ``source`` that name a table.
        sequence: From the operation and the members of ``source`` to the event's position; NULL if it has none.
        reason: Why an event has no position.
        whole: Whether an event always has the whole row, before and after the change.
        completing: How the database is told to log whole rows.
        timestamp: Encoding of a timestamp of the database's default precision.
        logs: Whether positions are in binary logs, which must be declared.
        documents: Whether rows are JSON texts.
    """

    label: str
    place: tuple[str, ...]
    sequence: Callable[[Column, Fact, Sequence[str]], Column]
    reason: str
    whole: bool = True
    completing: str = "use REPLICA IDENTITY FULL"
    timestamp: str = "timestamp[ms]"
    logs: bool = False
    documents: bool = False

    def unordered(self, fact: Fact) -> Column:
        """Why an event that has no position has none."""
        if not self.logs:
            return F.lit(self.reason)
        parts = (fact("name", "string"), _base_name(fact), fact("server_id", "string"))
        log = F.concat_ws("/", *(F.coalesce(part, F.lit("?")) for part in parts))
        return F.concat(F.lit("source names the binary log '"), log, F.lit(f"', {self.reason}"))


def _of_postgresql(op: Column, fact: Fact, logs: Sequence[str]) -> Column:
    """Two positions in the log: a lower bound for the change's commit, and the change's own. NULL if both are unknown.

    A change is written to the log before its transaction commits, and events come in the order of commits. So a
    change's own position may be before a change that the rows of a snapshot already include, although it is newer than
    these rows. Therefore the first position includes the end of the last transaction that committed before. Rows of an
    incremental snapshot only have that position, and the position up to which the log was read; they are older than any
    change that comes after the same position.
    """
    sequence = fact("sequence", "string")
    committed, read = (F.get_json_object(sequence, f"$[{i}]").try_cast("bigint") for i in (0, 1))
    own = fact("lsn", "bigint")
    of_row = F.when(op == "r", 0).otherwise(F.coalesce(own, F.lit(0)))
    texts = [F.lpad(F.hex(number), 16, "0") for number in (F.greatest(own, committed, read), of_row)]
    return F.concat(texts[0], F.lit("/"), texts[1])


def _of_binlog(op: Column, fact: Fact, logs: Sequence[str]) -> Column:
    """Number of the log, of its file, position in the file, and row in the event, which is 0 for rows of snapshots.

    Transactions are written to a binary log when they commit, so the order of positions is the order of commits.
    """
    file, server = fact("file", "string"), fact("server_id", "bigint")
    name = F.concat(fact("name", "string"), F.lit("/"), _base_name(fact))
    log = F.lit(None).cast("int")
    for number, (identity, servers) in enumerate(split_logs(logs)):
        wrote = server.isin(*servers) | (server == 0)  # a snapshot is by no server
        log = F.when((name == identity) & F.coalesce(wrote, op == "r"), number).otherwise(log)
    row = F.when(op == "r", 0).otherwise(fact("row", "bigint") + 1)
    of_file = F.regexp_extract(file, r"\.(\d+)$", 1).try_cast("bigint")
    return _joined((log, 4), (of_file, 10), (fact("pos", "bigint"), 20), (row, 10))


def _base_name(fact: Fact) -> Column:
    return F.regexp_extract(fact("file", "string"), r"^(.+)\.\d+$", 1)


def split_logs(logs: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Declared logs as their names (topic prefix and base name of the files) and the ids of their servers."""
    parts = [log.rpartition("/") for log in logs]
    return [(name, [int(number) for number in servers.split(",")]) for name, _, servers in parts]


def _of_sqlserver(op: Column, fact: Fact, logs: Sequence[str]) -> Column:
    """Log positions of the commit and of the change, and the event's number; a snapshot includes what it names."""
    lsn = r"^[0-9a-f]{8}:[0-9a-f]{8}:[0-9a-f]{4}$"
    commit, change = (F.lower(fact(name, "string")) for name in ("commit_lsn", "change_lsn"))
    of_row = op == "r"
    change = F.when(of_row, "g").when(change.rlike(lsn), change)  # after all digits
    number = F.when(of_row, 0).otherwise(F.coalesce(fact("event_serial_no", "bigint"), F.lit(0)))
    return F.concat(F.when(commit.rlike(lsn), commit), F.lit("/"), change, F.lit("/"), _padded(number, 20))


def _of_oracle(op: Column, fact: Fact, logs: Sequence[str]) -> Column:
    """Change numbers of the commit and of the change, and its place in the redo log; a snapshot has one number."""
    own, commit = (fact(name, "string").try_cast("decimal(38,0)") for name in ("scn", "commit_scn"))
    place = F.trim(F.coalesce(fact("lcr_position", "string"), fact("rs_id", "string")))
    number = F.coalesce(fact("ssn", "bigint"), F.lit(0))
    change = F.concat(_joined((commit, 20), (own, 20)), F.lit("/"), place, F.lit("/"), _padded(number, 10))
    of_row = _joined((F.coalesce(commit, own), 20), (F.coalesce(commit, own), 20))
    return F.when(op == "r", of_row).otherwise(change)


def _of_mongodb(op: Column, fact: Fact, logs: Sequence[str]) -> Column:
    """Time of the operation in seconds, and its number in the second; NULL in transactions, as all changes share it."""
    alone = fact("txnNumber", "string").isNull() & fact("lsid", "string").isNull()
    seconds = F.call_function("div", fact("ts_ms", "bigint"), F.lit(1000))
    return F.when(alone, _joined((seconds, 20), (fact("ord", "bigint"), 10), (F.when(op == "r", 0).otherwise(1), 1)))


def _joined(*parts: tuple[Column, int]) -> Column:
    texts = [_padded(number, size) for number, size in parts]
    return F.concat(texts[0], *(piece for text in texts[1:] for piece in (F.lit("/"), text)))


def _padded(number: Column, size: int) -> Column:
    """The digits of a number that is not negative, filled up with zeros; NULL if it has more."""
    text = number.cast("string")
    return F.when(text.rlike(rf"^\d{{1,{size}}}$"), F.lpad(text, size, "0"))


_LOGGED = "binlog_row_image must be FULL"
_BINLOG = (
    "and logs has no such log and server, or the position is not complete: positions in different logs have no order, "
    "so declare the logs in the order in which they were written"
)
CONNECTORS: Mapping[str, Connector] = {
    POSTGRESQL: Connector(
        "PostgreSQL",
        ("schema", "table"),
        _of_postgresql,
        "source has neither lsn nor sequence: the order of the event is unknown",
        whole=False,
        timestamp="timestamp[us]",
    ),
    "mysql": Connector("MySQL", ("db", "table"), _of_binlog, _BINLOG, completing=_LOGGED, logs=True),
    "mariadb": Connector("MariaDB", ("db", "table"), _of_binlog, _BINLOG, completing=_LOGGED, logs=True),
    "sqlserver": Connector(
        "SQL Server",
        ("db", "schema", "table"),
        _of_sqlserver,
        "source has no commit_lsn or no change_lsn: the order of the event is unknown",
        completing="capture all columns",
    ),
    "oracle": Connector(
        "Oracle",
        ("schema", "table"),
        _of_oracle,
        "source has no scn, no commit_scn, or neither rs_id nor lcr_position: the order of the event is unknown",
        whole=False,
        completing="use supplemental logging of all columns",
        timestamp="timestamp[us]",
    ),
    "mongodb": Connector(
        "MongoDB",
        ("db", "collection"),
        _of_mongodb,
        "source has no ts_ms and ord of the change alone: all changes of a transaction have one position, so their "
        "order is unknown",
        completing="use capture.mode=change_streams_update_full_with_pre_image",
        documents=True,
    ),
}
"""The connectors by their name in events."""
