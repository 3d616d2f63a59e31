"""Rules for tables of Debezium events, whose keys, order and deletes are given by the events."""

import re
from collections.abc import Mapping, Sequence

import pyspark.sql.types as T
import sqlglot
from sqlglot import exp

from incload_assets.declaration.declared import Declared
from incload_assets.declaration.own_fields import OwnField
from incload_assets.platform.errors import DeclarationError
from incload_assets.sources.debezium.connectors import CONNECTORS, LOG, split_logs

OWN_FIELDS: Mapping[str, OwnField] = {
    "cdc_op": OwnField(T.StringType(), ("c", "u", "d", "r", "t")),
    "cdc_sequence": OwnField(T.StringType()),
    "cdc_lsn": OwnField(T.LongType()),
    "cdc_tx": OwnField(T.LongType()),
    "cdc_committed_at": OwnField(T.TimestampType()),
    "cdc_snapshot": OwnField(T.StringType()),
}
_DATED = (T.DateType, T.TimestampType, T.StringType)
_TYPES_OF_ENCODINGS: Mapping[str, tuple[type[T.DataType], ...]] = {
    "date": _DATED,
    "timestamp": _DATED,
    "time": (T.StringType,),
    "decimal": (T.NumericType, T.StringType),
    "unsigned": (T.DecimalType, T.StringType),
}
"""The types that a contract may declare for a column, by the kind of its encoding."""


def check_connector(
    table_name: str, connector: str, logs: Sequence[str], table: str, other_tables: Sequence[str]
) -> None:
    """Checks that names of tables, and binary logs, are as the connector's events have them."""
    kind = CONNECTORS[connector]
    name = r'[^."]+\.' * (len(kind.place) - 1) + r'[^"]+'
    for what, given in (("table", table), *(("one of other_tables", other) for other in other_tables)):
        if not re.fullmatch(name, given):
            raise DeclarationError(
                f"{table_name}: source: {what} is {given!r}",
                rule=_PLACES.get(connector, "a table is identified by its schema and name, without quotes"),
                remedy=f'write "{_EXAMPLES.get(connector, "public.orders")}"',
            )
    if bool(logs) != kind.logs:
        raise DeclarationError(
            f"{table_name}: source: logs is {list(logs)}, and connector is {connector!r}",
            rule="events of MySQL and MariaDB are ordered by their positions in a binary log, which identify a change "
            "only together with the log; other events are not in such a log",
            remedy='write logs=["shop/mysql-bin/1"]: the topic prefix of the connector, the base name of the files '
            "(@@log_bin_basename), and the server's id (@@server_id)"
            if kind.logs
            else "leave logs out",
        )
    for log in logs:
        if not re.fullmatch(LOG, log):
            raise DeclarationError(
                f"{table_name}: source: logs names {log!r}",
                rule="a binary log is identified by topic prefix, base name of its files, and ids of servers",
                remedy='write "shop/mysql-bin/1", or "shop/mysql-bin/1,2" if it holds changes of two servers',
            )
    names = [log for log, _ in split_logs(logs)]
    for twice in sorted({log for log in names if names.count(log) > 1}):
        raise DeclarationError(
            f"{table_name}: source: logs names {twice!r} twice",
            rule="topic prefix and base name identify one log, whose positions can be compared",
            remedy="name all ids of servers in one entry; if the log was started again or is another server's, use a "
            "connector with a new topic prefix and a snapshot, and add that log at the end",
        )


_PLACES = {
    "mysql": "a table is identified by its database and name, without quotes",
    "mariadb": "a table is identified by its database and name, without quotes",
    "sqlserver": "a table is identified by its database, schema and name, without quotes",
    "mongodb": "a collection is identified by its database and name, without quotes",
}
_EXAMPLES = {
    "mysql": "shop.orders",
    "mariadb": "shop.orders",
    "sqlserver": "shop.dbo.orders",
    "oracle": "SHOP.ORDERS",
    "mongodb": "shop.orders",
}


def check_events(
    declared: Declared, keys: Sequence[str], encodings: Mapping[str, str], *, unavailable: str, whole_before: bool
) -> None:
    """Checks that a declaration fits the events; ``whole_before``: deletes have all columns."""
    table_name, contract = declared.table_name, declared.contract
    for name in keys:
        if name not in contract.names:
            raise DeclarationError(
                f"{table_name}: source: keys names {name!r}, which {contract.model_name} does not have",
                rule=f"the keys of Debezium are columns of the contract ({', '.join(contract.names)})",
                remedy=f"add {name!r} to {contract.model_name}, or name the columns of the primary key",
            )
    _check_encodings(declared, encodings)
    if "cdc_sequence" in contract.names and next(f for f in contract.fields if f.name == "cdc_sequence").nullable:
        raise DeclarationError(
            f"{table_name}: {contract.model_name} allows NULL in 'cdc_sequence'",
            rule="every change has one, which orders the changes",
            remedy="declare cdc_sequence: T.StringType = pa.Field(nullable=False)",
        )
    if declared.supersedes:
        raise DeclarationError(
            f"{table_name}: write is {declared.way}(), and source is Debezium",
            rule="it replaces the table with the rows of one window, but a window of events only has changed rows",
            remedy="write Merge() or History() and changes=events.changes(), or Append() for the events themselves",
        )
    if declared.row_by_row:
        _check_changes(declared, keys, unavailable, whole_before=whole_before)


def _check_encodings(declared: Declared, encodings: Mapping[str, str]) -> None:
    table_name, contract = declared.table_name, declared.contract
    for column, encoding in encodings.items():
        if column in OWN_FIELDS or column not in (*contract.names, *declared.asked):
            raise DeclarationError(
                f"{table_name}: source: encodings names {column!r}, which {contract.model_name} does not have",
                rule="encodings are for columns of the database's table that the contract has "
                f"({', '.join(name for name in contract.names if name not in OWN_FIELDS)})",
                remedy=f"correct the name, including upper and lower case, or drop {column!r}",
            )
        if column not in contract.names:
            continue
        kind = element = contract.type_of(column)
        while isinstance(element, T.ArrayType):
            element = element.elementType
        fine = _TYPES_OF_ENCODINGS.get(encoding.partition("[")[0].partition("(")[0])
        if fine and not isinstance(element, fine):
            raise DeclarationError(
                f"{table_name}: source: the encoding of {column!r} is {encoding!r}, and {contract.model_name} declares "
                f"{kind.simpleString()}",
                rule=f"values of that encoding become {', '.join(sorted(of.typeName() for of in fine))}",
                remedy="correct the encoding, or the type in the contract",
            )


def _check_changes(declared: Declared, keys: Sequence[str], unavailable: str, *, whole_before: bool) -> None:
    table_name = declared.table_name
    use_changes = "write changes=events.changes(), for events = Debezium(...)"
    if set(declared.keys) != set(keys):
        raise DeclarationError(
            f"{table_name}: changes.keys is {list(declared.keys)}, and keys of Debezium is {list(keys)}",
            rule="a row is identified by the primary key of the database's table, and a delete has only that",
            remedy=use_changes,
        )
    names = {column.name for column in _columns_in(declared.delete_when)}
    if not names or ("cdc_op" not in names and not whole_before):
        raise DeclarationError(
            f"{table_name}: changes.delete_when is {declared.delete_when!r}, which does not test 'cdc_op'",
            rule="an event deletes a row if cdc_op is 'd'; unless replica_identity is 'full', such an event has no "
            "column but the key",
            remedy=f"{use_changes}, or delete_when=\"cdc_op = 'd'\"",
        )
    first = declared.sequence_by[0]
    if not whole_before and not first.startswith(("cdc_", "kafka_")):
        raise DeclarationError(
            f"{table_name}: changes.sequence_by begins with {first!r}",
            rule="a delete has only the key, so it would be older than any other change",
            remedy=f'{use_changes}, or sequence_by=["cdc_sequence", {first!r}]',
        )
    if declared.unavailable not in (None, unavailable):
        raise DeclarationError(
            f"{table_name}: changes.unavailable is {declared.unavailable!r}, and unavailable of Debezium is "
            f"{unavailable!r}",
            rule="both are the connector's unavailable.value.placeholder",
            remedy=use_changes,
        )


def _columns_in(condition: str | None) -> list[exp.Column]:
    return list(sqlglot.parse_one(condition, dialect="spark").find_all(exp.Column)) if condition else []
