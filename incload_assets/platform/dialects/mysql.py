"""MySQL and MariaDB, with PyMySQL and MariaDB's JDBC driver; the server says which of the two it is."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC
from typing import Any, ClassVar

import pymysql

from incload_assets.platform.dialects.dialect import APPLICATION, Address, Catalog, Column, Dialect, Server, Stated
from incload_assets.platform.dialects.innodb import REPLICA, running, unseen
from incload_assets.platform.dialects.tls import context_of
from incload_assets.platform.dialects.values import moment, reached

# Hashes of rows and literals depend on these, so the defaults of account and server must not apply. Spark quotes names
# by double quotes; a backslash in a text is a backslash. MySQL alone executes comments of version 507.., MariaDB alone
# comments with M.
_SESSION = """SET SESSION time_zone = '+00:00', sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES',
 sql_select_limit = 18446744073709551615, net_write_timeout = {seconds} + 600
 /*M!100101 , max_statement_time = {seconds}, tx_read_only = 1, tx_isolation = 'REPEATABLE-READ' */
 /*!50720 , max_execution_time = {seconds}000, transaction_read_only = 1,
 transaction_isolation = 'REPEATABLE-READ' */"""
_JDBC_TLS = {"DISABLED": "disable", "REQUIRED": "trust", "VERIFY_CA": "verify-ca", "VERIFY_IDENTITY": "verify-full"}
# The information schema compares names without case: BINARY tells Orders from orders. Each of its views needs the names
# as given, or the server opens all tables of all databases.
_CATALOG = """
SELECT t.table_schema, t.table_name, t.engine, c.column_name,
  IF(c.column_type LIKE 'bigint%%unsigned%%', 'bigint unsigned', c.data_type),
  IF(c.extra LIKE '%%auto_increment%%', t.auto_increment - 1, NULL)
FROM information_schema.columns c, information_schema.tables t
WHERE c.table_schema = coalesce(%s, database()) AND c.table_name = %s
  AND t.table_schema = coalesce(%s, database()) AND t.table_name = %s
  AND BINARY c.table_schema = BINARY t.table_schema AND BINARY c.table_name = BINARY t.table_name
  AND (@@lower_case_table_names OR BINARY t.table_schema = coalesce(%s, database()) AND BINARY t.table_name = %s)
ORDER BY c.ordinal_position
"""
_STATED = """
SELECT c.column_name, c.column_type, c.is_nullable = 'NO', c.column_key = 'PRI', EXISTS (SELECT 1
  FROM information_schema.statistics s WHERE s.table_schema = %s AND s.table_name = %s
  AND BINARY s.table_schema = BINARY c.table_schema AND BINARY s.table_name = BINARY c.table_name
  AND s.column_name = c.column_name AND s.seq_in_index = 1)
FROM information_schema.columns c WHERE c.table_schema = %s AND c.table_name = %s
  AND BINARY c.table_schema = %s AND BINARY c.table_name = %s ORDER BY c.ordinal_position
"""
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_LONG = ("tinytext", "text", "mediumtext", "longtext", "json", *_BYTES[2:])
_SHAPE = re.compile(r"geom\w+|(multi)?(point|linestring|polygon)")
_UNSIGNED = "bigint unsigned"
_KINDS = dict.fromkeys((*_INTEGERS, "year"), "bigint") | dict.fromkeys(_BYTES, "binary") | {
    _UNSIGNED: "decimal(20,0)", "bit": "decimal(20,0)", "float": "double", "double": "double", "date": "date",
    "timestamp": "timestamp", "datetime": "timestamp",
}  # fmt: skip


class _Connection(pymysql.Connection):
    @property
    def is_mariadb(self) -> bool:
        return "MariaDB" in str(vars(self)["server_version"])

    def wait(self, seconds: int) -> None:
        self._read_timeout = self._write_timeout = seconds

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.cursor() as cursor:
            cursor.execute(query, values or None)
            return list(cursor.fetchall())


class Mysql(Dialect):
    """MySQL 8 or newer, MariaDB 10.2 or newer."""

    name = "MySQL or MariaDB"
    schemes = ("mysql", "mariadb")
    port = 3306
    tls = ("ssl-mode", "ssl-ca")
    tls_mode = ("ssl-mode", "DISABLED")
    encrypted_modes = ("REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
    plain_modes = ("DISABLED",)
    authority = ("ssl-ca", "VERIFY_CA", "VERIFY_IDENTITY")
    schema = ""
    text = "char"
    account = ("MYSQL_USER", "MYSQL_PWD")
    jar = "org.mariadb.jdbc:mariadb-java-client:3.5.6"
    driver = "org.mariadb.jdbc.Driver"
    times: ClassVar = {"timestamp": "timestamp", "datetime": "datetime"}
    integers: ClassVar = {name: name for name in _INTEGERS} | {_UNSIGNED: _UNSIGNED}
    rights = "SELECT on it; a part of its columns by way of a view"
    gate = "the account's host in the server"
    patterns: ClassVar = {
        "refused": r"Access denied for user [^\n]*|Unknown database '[^'\n]*'|[^\n]* is not allowed to connect[^\n]*"
        r"|insecure transport[^\n]*|SSL is required[^\n]*|[^\n]*ssl not enabled[^\n]*"
        r"|[^\n]*(certificate of ssl-ca|\[SSL: \w*CERT|SSL hostname verification|Self signed cert|serverSslCert)[^\n]*"
        r"|SSLHandshakeException[^\n]*|RSA public key[^\n]*|[Aa]uthentication plugin [^\n]*",
        "forbidden": r"\w+ command denied to user [^\n]*|[^\n]*lack rights to use them|(?<=^1227: ).+",
        "missing": r"Table '[^\n]*' doesn't exist|Unknown column [^\n]*|(?<=^1146: |^1054: ).+",
        "slow": r"Query execution was interrupted[^\n]*|execution time exceeded|Lock wait timeout exceeded"
        r"|Read timed out|\(timed out\)|(?<=^1969: |^3024: |^1317: |^1205: ).+",
        "down": r"Can't connect to [^\n]*|Lost connection [^\n]*|[^\n]*gone away|[Cc]onnection refused|Connection reset"
        r"|Connection was killed|Too many connections|[Ss]hutdown in progress|Socket (error|fail)[^\n]*|unexpected end"
        r" of stream[^\n]*|[Cc]onnect timed out|Broken pipe|UnknownHost|(?<=^1040: |^1053: |^1927: |^20..: ).+",
    }

    @contextmanager
    def connect(self, address: Address) -> Iterator[_Connection]:
        """A connection of PyMySQL."""
        mode, limit = address.tls.get("ssl-mode", "DISABLED"), address.connect_seconds
        try:
            context = None if mode == "DISABLED" else context_of(address.tls.get("ssl-ca"), _JDBC_TLS[mode])
        except OSError as error:
            raise pymysql.err.OperationalError(2026, f"the certificate of ssl-ca cannot be read: {error}") from None
        with _Connection(
            host=address.host, port=address.port, database=address.catalog, user=address.user,
            password=address.password, charset="utf8mb4", autocommit=True, program_name=APPLICATION,
            connect_timeout=limit, read_timeout=limit, write_timeout=limit,
            init_command=_SESSION.format(seconds=address.timeout), ssl=context, ssl_disabled=context is None,
        ) as connection:  # fmt: skip
            connection.wait(address.timeout + limit)
            if not connection.is_mariadb:  # which would tell numbers of up to a day ago
                connection.rows("SET SESSION information_schema_stats_expiry = 0")
            yield connection

    def jdbc_url(self, address: Address) -> str:
        """Without options, whose values the driver would not decode, and without a database, which SQL names."""
        host = f"[{address.host}]" if ":" in address.host else address.host
        return f"jdbc:mariadb://{host}:{address.port}/"

    def jdbc_options(self, address: Address) -> Mapping[str, str]:
        """The driver's options; conditions stay in Spark, because the server's collations compare texts otherwise."""
        authority = {"serverSslCert": address.tls["ssl-ca"]} if "ssl-ca" in address.tls else {}
        limit = address.connect_seconds
        return authority | {
            "sslMode": _JDBC_TLS[address.tls.get("ssl-mode", "DISABLED")], "connectTimeout": f"{limit}000",
            "initSql": _SESSION.format(seconds=address.timeout), "socketTimeout": f"{address.timeout + limit}000",
            "allowLocalInfile": "false", "tcpKeepAlive": "true", "allowPublicKeyRetrieval": "true",
            "pushDownPredicate": "false",
        }  # fmt: skip

    def told(self, error: Exception) -> tuple[str, bool] | None:
        """Number and text of PyMySQL's errors; errors of the client are numbered from 2000."""
        if not isinstance(error, pymysql.err.MySQLError):
            return None
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        return ": ".join(map(str, error.args)), 2000 <= number < 3000

    def catalog(self, connection: Any, name: str) -> Catalog | None:
        """Columns of ``database.table``; raises an error if a column may not be read."""
        schema, _, table = name.rpartition(".")
        rows = connection.rows(_CATALOG, [schema or None, table] * 3)
        try:
            connection.rows(f"SELECT * FROM {'.'.join(map(self.quoted, name.split('.')))} LIMIT 0")
        except pymysql.err.ProgrammingError as error:
            if error.args[0] != pymysql.constants.ER.NO_SUCH_TABLE:
                raise
            return None
        columns = [
            Column(name, kind, cache=None if last is None else 1, last=last, long=kind in _LONG)
            for *_, name, kind, last in rows
        ]
        return Catalog(rows[0][0], rows[0][1], 0, tuple(columns), unseen(rows[0][2])) if rows else None

    def stated(self, connection: Any, table: Catalog) -> list[Stated]:
        """Types as the server spells them."""
        types = {column.name: column.type for column in table.columns}
        kinds = {name: "" if kind == "decimal" else _KINDS.get(kind, "string") for name, kind in types.items()}
        return [
            Stated(name, said, kinds[name] or said.partition(" ")[0], *map(bool, facts))
            for name, said, *facts in connection.rows(_STATED, [table.schema, table.name] * 3)
        ]

    def server(self, connection: Any) -> Server:
        """Running transactions and statements by their threads, for an account with the privilege PROCESS."""
        [(now, read_only)] = connection.rows("SELECT utc_timestamp(6), @@global.read_only")
        variables = "information_schema" if connection.is_mariadb else "performance_schema"
        [(started,)] = connection.rows(
            f"SELECT cast(unix_timestamp() - variable_value AS signed) FROM {variables}.global_status "
            "WHERE variable_name = 'UPTIME'"
        )
        begun, blind = running(connection)
        if read_only:
            blind = REPLICA
        prepared = int("0" in begun)  # a prepared transaction whose session has ended has no thread
        transactions = {thread: begin for thread, begin in begun.items() if thread != "0"}
        return Server(now.replace(tzinfo=UTC), str(started), blind, prepared, transactions, {})

    def quoted(self, name: str) -> str:
        """In backticks."""
        return "`" + name.replace("`", "``") + "`"

    def readable(self, column: Column) -> str:
        """Whole numbers, doubles and bytes as they are; all others, times too, as text, which the contract types."""
        name, kind = self.quoted(column.name), column.type
        if kind in (_UNSIGNED, "bit"):
            return f"CAST({name} + 0 AS decimal(20))"
        if kind in (*_INTEGERS, "year"):
            return f"CAST({name} AS signed)"
        if kind in ("double", "varchar", *_LONG, *_BYTES):
            return name
        if kind == "float":
            return f"{name} + 0e0"
        return f"ST_AsText({name})" if _SHAPE.fullmatch(kind) else f"CAST({name} AS char)"

    def literal(self, column: Column, value: int) -> str:
        """A time in UTC, or a number."""
        return f"TIMESTAMP'{moment(value)}'" if column.type in self.times else str(value)

    def value(self, column: Column) -> str:
        """NULL for a zero date."""
        name = self.quoted(column.name)
        if column.type not in self.times:
            return name
        return f"timestampdiff(MICROSECOND, TIMESTAMP'{moment(0)}', {name})"

    def bucket(self, column: Column, bounds: Sequence[int]) -> str:
        """A tree of conditions."""
        return reached(self.quoted(column.name), [self.literal(column, bound) for bound in bounds])

    def statistics(self, sql: str, columns: Sequence[Column], by: Column, bucket: str, where: str) -> str:
        """64 bits of MD5 of the quoted values; of a long value its own MD5, as longer texts would become NULL."""
        name, value = self.quoted(by.name), self.value(by)
        row = f"concat_ws(',', {', '.join(map(self._hashed, columns))})"
        long = "".join(f" + coalesce(octet_length({self.quoted(c.name)}), 0)" for c in columns if c.long)
        return (
            f"SELECT {bucket}, count(*), CAST(sum(CAST(conv(left(md5({row}), 16), 16, 10) AS decimal(20))) AS char), "
            f"sum(octet_length({row}){long}), sum({name} IS NULL), min({value}), max({value}) "
            f"FROM {sql} WHERE {where} GROUP BY 1"
        )

    def _hashed(self, column: Column) -> str:
        if column.long:
            return f"coalesce(md5({self.quoted(column.name)}), 'NULL')"
        value = self.readable(column)
        return f"quote({f'hex({value})' if column.type in _BYTES else f'CAST({value} AS char)'})"

    def finite(self, name: str) -> str:
        """No zero date."""
        return f"{name} >= TIMESTAMP'0001-01-01 00:00:00'"
