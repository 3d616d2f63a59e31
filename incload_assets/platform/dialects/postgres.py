"""PostgreSQL, with psycopg and its JDBC driver."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

import psycopg

from incload_assets.platform.dialects.dialect import APPLICATION, Address, Catalog, Column, Dialect, Server, Stated
from incload_assets.platform.dialects.values import instant_of, moment
from incload_assets.platform.dialects.watch import cut_after

_CATALOG = """
SELECT c.oid::bigint, n.nspname, c.relname, a.attname, b.typname, b.typcategory, b.typtype, s.seqcache,
  CASE WHEN s.seqrelid IS NOT NULL AND has_sequence_privilege(s.seqrelid, 'USAGE, SELECT')
    THEN coalesce(pg_sequence_last_value(s.seqrelid), s.seqstart - s.seqincrement) END
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
LEFT JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.refobjsubid = a.attnum
  AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
  AND EXISTS (SELECT FROM pg_sequence q WHERE q.seqrelid = d.objid)
LEFT JOIN pg_sequence s ON s.seqrelid = d.objid
WHERE c.oid = to_regclass(%s)
ORDER BY a.attnum
"""
_STATED = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
  array_position(i.indkey::int[], a.attnum::int) IS NOT NULL,
  EXISTS (SELECT FROM pg_index x WHERE x.indrelid = a.attrelid AND x.indkey[0] = a.attnum)
FROM pg_attribute a
LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
_SPREAD = """
SELECT {} FROM (SELECT unnest(histogram_bounds::text::{}[]) AS {} FROM pg_stats
WHERE schemaname = %s AND tablename = %s AND attname = %s AND NOT inherited) AS bounds"""
# pg_locks shows every transaction to every account, even if it has written nothing yet. The begin of other accounts'
# transactions is hidden, unless the account is a member of pg_read_all_stats. now() is the begin of this statement's
# transaction, before the locks are read; the rows are read later.
_SERVER = f"""
SELECT now(), pg_postmaster_start_time()::text, pg_is_in_recovery(),
  (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()),
  (SELECT coalesce(json_agg(json_build_array(l.virtualtransaction, extract(epoch FROM a.xact_start),
      a.pid || '@' || coalesce(extract(epoch FROM a.backend_start)::text, ''),
      extract(epoch FROM a.backend_start))), '[]')
    FROM pg_stat_activity a LEFT JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'virtualxid' AND l.granted
      AND l.virtualxid = l.virtualtransaction
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
      AND coalesce(a.application_name, '') <> '{APPLICATION}')
"""
# Types that Spark reads without loss. All others are read as text and typed by the contract: numerics of any precision
# including NaN, intervals, inets; uuid and json are text in Spark anyway.
_NATIVE = {
    "bool": "boolean", "int2": "bigint", "int4": "bigint", "int8": "bigint", "float4": "double", "float8": "double",
    "date": "date", "timestamptz": "timestamp", "timestamp": "timestamp", "bytea": "binary", "text": "string",
    "varchar": "string",
}  # fmt: skip
# Replacements for -infinity and infinity, which Spark does not have.
_FIRST, _LAST = "timestamptz '0001-01-01 00:00:00+00'", "timestamptz '9999-12-31 23:59:59.999999+00'"
_DAYS = ("date '0001-01-01'", "date '9999-12-31'")
_ENDS = {"timestamptz": (_FIRST, _LAST), "timestamp": (_FIRST, _LAST), "date": _DAYS}
_ROW, _TEXT = '"_incload_row"', '"_incload_text"'


class _Connection(psycopg.Connection[Any]):
    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.execute(query.encode(), values or None).fetchall()


class Postgres(Dialect):
    """PostgreSQL 11 or newer."""

    name = "PostgreSQL"
    schemes = ("postgresql", "postgres")
    port = 5432
    # libpq and the JDBC driver have the same names for these; passwords do not belong in an address
    tls = ("sslmode", "sslrootcert", "sslcert", "sslkey")
    tls_mode = ("sslmode", "prefer")
    encrypted_modes = ("require", "verify-ca", "verify-full")
    plain_modes = ("disable", "allow", "prefer")
    authority = ("sslrootcert", *plain_modes, *encrypted_modes)
    schema = "public"
    text = "text"
    account = ("PGUSER", "PGPASSWORD")
    jar = "org.postgresql:postgresql:42.7.7"
    driver = "org.postgresql.Driver"
    times: ClassVar = {"timestamptz": "timestamptz", "timestamp": "timestamp"}
    integers: ClassVar = {"int2": "smallint", "int4": "integer", "int8": "bigint"}
    rights = "USAGE on its schema, SELECT on it"
    gate = "pg_hba.conf"
    # a server may speak another language: psycopg's text is preceded by the SQLSTATE, which JDBC does not report
    patterns: ClassVar = {
        "refused": r"password authentication failed|authentication failed|no password (was )?(supplied|provided)"
        r"|requested no password|no pg_hba\.conf entry|(role|database) \"[^\"]*\" does not exist"
        r"|is not permitted to log in|does not support SSL|certificate [^\n]*|sslmode[^\n]*|SSLHandshakeException"
        r"|permission denied for database",
        "forbidden": r"permission denied for [^\n.]+|(?<=^42501: ).+",
        "missing": r"(?:relation|column|schema|type) \"?[^\s]+ does not exist|column [^\n]+ does not exist"
        r"|(?<=^42P01: |^42703: |^42704: |^3F000: ).+",
        "slow": r"canceling statement due to (statement timeout|conflict with recovery|user request)|Read timed out"
        r"|(?<=^57014: ).+",
        "down": r"[Cc]onnection refused|Connection to \S+ refused|timeout expired|[Cc]onnect timed out"
        r"|connection attempt failed|An I/O error occurred|terminating connection|the database system is"
        r"|server closed the connection|connection (is|was|has been) (lost|closed|reset)"
        r"|Connection reset|too many clients|remaining connection slots|could not (translate|connect)|failed to resolve"
        r"|No route to host|Network is unreachable|EOFException|recovery mode"
        r"|consuming input failed|SSL error|SSL connection has been closed|(?<=^57P..: |^08...: ).+",
    }

    @contextmanager
    def connect(self, address: Address) -> Iterator[_Connection]:
        """A connection of psycopg."""
        connection = _Connection.connect(
            host=address.host, port=address.port, dbname=address.catalog, user=address.user,
            password=address.password, connect_timeout=address.connect_seconds, application_name=APPLICATION,
            options=_session(address.timeout), autocommit=True, **address.tls,  # type: ignore[arg-type]
        )  # fmt: skip
        with connection, cut_after(2 * address.timeout + address.connect_seconds, connection.fileno()):
            yield connection

    def jdbc_url(self, address: Address) -> str:
        """``jdbc:postgresql://…``."""
        host = f"[{address.host}]" if ":" in address.host else address.host
        options = {
            **address.tls,
            "ApplicationName": APPLICATION,
            "connectTimeout": address.connect_seconds,
            "loginTimeout": 2 * address.connect_seconds,
            "socketTimeout": address.timeout + address.connect_seconds,
            "tcpKeepAlive": "true",
            "options": _session(address.timeout),
        }
        encoded = urlencode(options, quote_via=quote)
        return f"jdbc:postgresql://{host}:{address.port}/{quote(address.catalog, safe='')}?{encoded}"

    def jdbc_options(self, address: Address) -> Mapping[str, str]:
        """A time-out of each query."""
        return {"queryTimeout": str(address.timeout)}

    def told(self, error: Exception) -> tuple[str, bool] | None:
        """SQLSTATE and text of psycopg's errors."""
        if not isinstance(error, psycopg.Error):
            return None
        return f"{error.sqlstate}: {error}", isinstance(error, psycopg.OperationalError)

    def catalog(self, connection: Any, name: str) -> Catalog | None:
        """Columns with their base types, and the sequences that they own."""
        rows = connection.rows(_CATALOG, [".".join(map(self.quoted, name.split(".")))])
        columns = tuple(Column(r[3], r[4], r[5] == "A" or r[6] == "c", r[7], r[8]) for r in rows)
        return Catalog(rows[0][1], rows[0][2], rows[0][0], columns) if rows else None

    def stated(self, connection: Any, table: Catalog) -> list[Stated]:
        """Types as ``format_type`` spells them; a numeric without a scale is read as text, and its values decide."""
        types = {c.name: "string" if c.nested else _NATIVE.get(c.type, "string") for c in table.columns}
        types |= {c.name: "" for c in table.columns if c.type == "numeric"}
        notes = {c.name: ", kept as JSON" for c in table.columns if c.nested}
        notes |= {c.name: ", without a zone, read as UTC" for c in table.columns if c.type == "timestamp"}
        return [
            Stated(name, said + notes.get(name, ""), _decimal(said) or types[name] or None, *facts)
            for name, said, *facts in connection.rows(_STATED, [table.oid])
        ]

    def server(self, connection: Any) -> Server:
        """Transactions by their virtual numbers."""
        [(now, started, standby, prepared, running)] = connection.rows(_SERVER)
        return Server(
            now=now.astimezone(UTC),
            started=started,
            blind="a standby does not know the transactions of its primary server" if standby else "",
            prepared=prepared,
            transactions={number: instant_of(begin) for number, begin, *_ in running if number},
            sessions={number: instant_of(begin) for *_, number, begin in running},
        )

    def spread(self, connection: Any, table: Catalog, column: Column) -> Sequence[int]:
        """The bounds of the column's histogram."""
        names = (text.replace("%", "%%") for text in (self.value(column), column.type, self.quoted(column.name)))
        found = connection.rows(_SPREAD.format(*names), [table.schema, table.name, column.name])
        return sorted(value for (value,) in found if value is not None)

    def quoted(self, name: str) -> str:
        """In double quotes."""
        return '"' + name.replace('"', '""') + '"'

    def readable(self, column: Column) -> str:
        """Infinite times as the first and the last that Spark has; what Spark does not have as text."""
        name = self.quoted(column.name)
        if column.type in _ENDS:  # the text 'infinity' is not a date, and the driver turns infinity into a wrong one
            first, last = _ENDS[column.type]
            value = f"({name} AT TIME ZONE 'UTC')" if column.type == "timestamp" else name  # without a zone: UTC
            return f"CASE {name} WHEN '-infinity' THEN {first} WHEN 'infinity' THEN {last} ELSE {value} END"
        if column.nested:
            return f"to_json({name})::text"
        return name if column.type in _NATIVE else f"{name}::text"

    def literal(self, column: Column, value: int) -> str:
        """With a cast to the column's type."""
        if column.type not in self.times:
            return f"{value}::bigint"
        return f"'{moment(value)}'::timestamp" if column.type == "timestamp" else f"'{moment(value)}+00'::timestamptz"

    def value(self, column: Column) -> str:
        """NULL if it is infinite."""
        name = self.quoted(column.name)
        if column.type not in self.times:
            return f"{name}::bigint"
        return f"CASE WHEN isfinite({name}) THEN (extract(epoch FROM {name}) * 1000000)::bigint END"

    def bucket(self, column: Column, bounds: Sequence[int]) -> str:
        """``width_bucket``, which requires value and bounds of the same type."""
        value = self.quoted(column.name) + ("" if column.type in self.times else "::bigint")
        return f"coalesce(width_bucket({value}, ARRAY[{', '.join(self.literal(column, b) for b in bounds)}]), 0)"

    def statistics(self, sql: str, columns: Sequence[Column], by: Column, bucket: str, where: str) -> str:
        """``hashtextextended`` of the row as text; OFFSET 0 keeps the server from computing the text for each use."""
        name, value = self.quoted(by.name), self.value(by)
        return (
            f"SELECT {bucket}, count(*), sum(hashtextextended({_TEXT}, 0)::numeric)::text, sum(octet_length({_TEXT})), "
            f"count(*) FILTER (WHERE {name} IS NULL), min({value}), max({value}) "
            f"FROM (SELECT {name}, {_ROW}::text AS {_TEXT} FROM {sql} AS {_ROW} WHERE {where} OFFSET 0) AS {_ROW} "
            "GROUP BY 1"
        )

    def finite(self, name: str) -> str:
        """``isfinite``."""
        return f"isfinite({name})"


def _session(timeout: int) -> str:
    # hashes of rows depend on values as text, so the defaults of the account or the server must not apply
    settings = {
        "default_transaction_read_only": "on", "statement_timeout": f"{timeout * 1000}", "TimeZone": "UTC",
        "DateStyle": "ISO", "IntervalStyle": "iso_8601", "bytea_output": "hex", "extra_float_digits": "1",
    }  # fmt: skip
    return " ".join(f"-c {name}={value}" for name, value in settings.items())


def _decimal(said: str) -> str:
    return said.replace("numeric", "decimal") if said.startswith("numeric(") and said.endswith(")") else ""
