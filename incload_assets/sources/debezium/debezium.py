"""The source of change events of Debezium, in files or in Kafka."""

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar, Literal

from pyspark.sql import DataFrame

from incload_assets.contract.contract import Contract
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.declared import Declared
from incload_assets.declaration.field_types import as_columns, check_types
from incload_assets.declaration.own_fields import OwnField
from incload_assets.declaration.source import Absent, Position, RetentionMargin, Shows, Source
from incload_assets.declaration.window import Window
from incload_assets.platform.errors import DeclarationError, SourceUnreadable
from incload_assets.platform.wording import some
from incload_assets.sources.database.replication_slot import ReplicationSlot
from incload_assets.sources.debezium.connectors import CONNECTORS, POSTGRESQL
from incload_assets.sources.debezium.declaration import OWN_FIELDS, check_connector, check_events
from incload_assets.sources.debezium.envelope import ENVELOPE, PAYLOAD
from incload_assets.sources.debezium.events import ELSEWHERE, Reading, table_rows
from incload_assets.sources.debezium.types import ENCODING, UNAVAILABLE, declared_encoding, default_encoding
from incload_assets.sources.decorator import SourceDecorator

TimePrecision = Literal["adaptive", "adaptive_time_microseconds", "connect", "microseconds", "nanoseconds", "isostring"]
Decimals = Literal["precise", "double", "string"]
ConnectorName = Literal["postgresql", "mysql", "mariadb", "sqlserver", "oracle", "mongodb"]
SHOWN_TABLES = 10
_WITHOUT_TRUNCATES = "write changes=events.changes(truncates=False)"
"""Largest number of table names in a message."""


@dataclass(frozen=True)
class Debezium(SourceDecorator):
    """JSON change events of one of Debezium's connectors, with or without schemas, as changes of one table.

    Beside the table's columns, the contract, the conditions and the function may use these fields:

    - ``cdc_sequence`` (string): orders all changes, including replayed changes and rows of snapshots. A change always
      has the same sequence, so that a replayed event is a duplicate. It consists of positions in the database's log.
    - ``cdc_op`` (string): c, u, d, r (row of a snapshot) or t (truncate).
    - ``cdc_lsn``, ``cdc_tx`` (long): log position and transaction of PostgreSQL; NULL in rows of incremental snapshots.
    - ``cdc_committed_at`` (timestamp): when the transaction committed, or the snapshot was read.
    - ``cdc_snapshot`` (string): false, or the kind of snapshot that the row is from.
    - ``kafka_...``: fields of the inner source.

    Tombstones, heartbeats, messages in the log, begins and ends of transactions, changes of the schema, and events of
    other tables are counted as skipped and change nothing. A window whose change events are all of other tables fails,
    unless these tables are declared, because ``table`` is probably misspelled. Events of other connectors, and
    flattened events, are quarantined. A delete has only the key, unless the connector logs whole rows.

    PostgreSQL and Oracle: a column that an update did not change may be missing in the event (TOAST, LOB). It keeps its
    value, even if the update gives the row a *new key*: that is a delete and a create at the same position of the log,
    and the value is taken from the old key. The row waits until that value is known. If the table's changes have no
    ``unavailable``, such events are quarantined. For arrays, except arrays of texts, int, bigint or uuid, Debezium
    writes NULL in place of such a value: tables with other arrays that may be large need REPLICA IDENTITY FULL in
    PostgreSQL.

    Values that Spark's types lack (infinite dates and times, 24:00, years before Christ or after 9999) are quarantined,
    unless the contract has the column as a string: "infinity", "24:00:00". Times in string columns have the same format
    in all modes: "12:34:56.000000", "2026-01-02T12:34:56.000000"; all other values stay as the connector writes them.

    Events without schemas do not declare how dates, times and decimals are encoded. Columns that the contract has as
    dates, timestamps or decimals are read in the connector's encoding for ``time_precision_mode`` and ``decimals``; the
    scale of a precise decimal is the contract's, which must be equal to the database's. If that does not fit
    (``timestamp(3)`` is written in milliseconds in the default mode), declare an encoding for the column. A value that
    does not match its encoding is quarantined, such as invalid base64, or nanoseconds finer than a microsecond.

    Args:
        source: The source of the events, ``Files(...)`` or ``Kafka(...)``.
        table: The table whose changes are read, as ``schema.table`` (MySQL, MariaDB: ``database.table``; SQL Server:
            ``database.schema.table``; MongoDB: ``database.collection``), spelled as in the events' ``source``: without
            quotes, and with the same case.
        connector: The connector's name in the events.
        logs: The binary logs of MySQL or MariaDB that the connector has read, in the order in which they were written,
            as ``topic prefix/base name of the log's files/ids of the servers whose changes it holds``:
            ``shop/mysql-bin/1``. New ones are added at the end, and none is removed. Events in other logs, and of
            other servers, are quarantined, because positions in different logs have no order.
        other_tables: Other tables whose events the source also holds, so that a window may consist of their events.
        keys: Columns of the table's primary key. A table without one cannot be kept row by row, and is refused: name a
            unique key that never changes (with REPLICA IDENTITY USING INDEX or FULL), or keep its events with
            ``Append``.
        keys_change: Whether rows may get a new key. False: an event that gives a row a new key and lacks a value is
            quarantined; and a ``log_retention`` can remove superseded changes, as with ``replica_identity="full"``.
            True: the values of an old key may be needed as of any time.
        replica_identity: PostgreSQL, Oracle: ``full`` if deletes carry the whole row, as a table with
            ``Merge(partition_by=...)`` needs. Deletes of the other connectors always do.
        time_precision_mode: The connector's ``time.precision.mode``.
        decimals: The connector's ``decimal.handling.mode``; None: events carry schemas, or the table has no decimals.
        encodings: Encodings by column, if neither schemas nor the rules above determine them: ``date``,
            ``timestamp[ms]``, ``time[us]`` (and ms, us, ns), ``decimal(2)``, ``unsigned`` (a ``bigint unsigned`` as a
            number that may be negative), ``plain``; for bytes ``hex``, ``base64url``.
        unavailable: The connector's ``unavailable.value.placeholder``, including the form ``hex:`` with digits.
        slot: The connector's replication slot, for the check ``headroom``, which warns before PostgreSQL drops the
            slot, and if nothing reads it.

    Example:
        >>> from incload_assets.assets import Files
        >>> orders = Debezium(Files("{landing}/cdc/{window:%Y-%m-%d}/*.json"), table="public.orders", keys=["id"])
        >>> orders.changes().sequence_by
        ('cdc_sequence',)
    """

    source: Source
    table: str
    keys: Sequence[str] = ()
    keys_change: bool = True
    replica_identity: Literal["default", "full"] = "default"
    time_precision_mode: TimePrecision = "adaptive"
    decimals: Decimals | None = None
    encodings: Mapping[str, str] = field(default_factory=dict, hash=False)
    unavailable: str = UNAVAILABLE
    slot: ReplicationSlot | None = None
    other_tables: Sequence[str] = field(default=(), repr=False)  # decides whether a window is read, not how
    connector: ConnectorName = field(default="postgresql", repr=False)  # see __repr__
    logs: Sequence[str] = field(default=(), repr=False)  # a new log leaves the order of the others as it is
    absent: Absent = field(init=False, default="wait")
    contract: Contract | None = field(init=False, default=None, repr=False, compare=False)
    kept: bool = field(init=False, default=False, repr=False, compare=False)
    moves_kept: bool = field(init=False, default=False, repr=False, compare=False)

    mixes_tables: ClassVar[bool] = True
    shows: ClassVar[Shows] = Shows(inserts=True, updates=True, deletes=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", as_columns(self.keys))
        object.__setattr__(self, "other_tables", as_columns(self.other_tables))
        object.__setattr__(self, "logs", as_columns(self.logs))
        if isinstance(self.source, Source):
            self.inherit_capabilities()
        if self.slot is not None:
            object.__setattr__(self, "expires_rows", True)

    def __repr__(self) -> str:
        """The declaration; without ``connector`` as it was before there was one, as it is part of the code version."""
        shown = [f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr]
        shown += [f"connector={self.connector!r}"] if self.connector != POSTGRESQL else []
        return f"Debezium({', '.join(shown)})"

    def __str__(self) -> str:
        return f"Debezium({self.source}, table={self.table!r})"

    def explained(self) -> list[str]:
        """Sentences for people; see :meth:`Source.explained`."""
        return [
            *self.source.explained(),
            f"They are Debezium's change events; events of {self.table} are taken, and others are skipped. A "
            "window with "
            "events of undeclared tables only fails.",
            "A change that is delivered again has the same cdc_sequence, so that it changes nothing.",
            "A value that an update did not send keeps what the row had."
            if self.kept
            else "An event that lacks a value, as it did not change, is quarantined.",
        ]

    @property
    def whole(self) -> bool:
        """True if each event has the whole row, also one that deletes it."""
        kind = CONNECTORS.get(self.connector)  # an unknown one is refused when the table is declared
        return self.replica_identity == "full" or (kind is not None and kind.whole)

    @property
    def placeholder(self) -> str:
        """The text that the connector writes for an unavailable value."""
        if not self.unavailable.startswith("hex:"):
            return self.unavailable
        try:
            return bytes.fromhex(self.unavailable.removeprefix("hex:")).decode()
        except ValueError:
            return ""  # refused when the table is declared

    @property
    def changes_of_fixed_keys(self) -> str:
        """See :attr:`Source.changes_of_fixed_keys`."""
        keeps = self.whole or not self.keys_change
        return _WITHOUT_TRUNCATES + ("" if keeps else " of Debezium(..., keys_change=False), if no row gets a new key")

    @property
    def whole_changes(self) -> str:
        """See :attr:`Source.whole_changes`."""
        without = _WITHOUT_TRUNCATES
        if self.whole:
            return without
        if self.connector != POSTGRESQL:
            return f'{without} of Debezium(..., replica_identity="full"); {CONNECTORS[self.connector].completing}'
        full = "ALTER TABLE ... REPLICA IDENTITY FULL in PostgreSQL"
        return f'{without} of Debezium(..., replica_identity="full"), after {full}'

    def changes(self, *, truncates: bool = True) -> "Changes":
        """The ``changes`` for the table's declaration.

        The contract needs the column ``cdc_sequence``, a string that is never NULL. With ``replica_identity="full"``
        every event has every value, so loads are cheaper, because they need no older values.

        Args:
            truncates: Whether truncates empty the table; the connector passes them on with ``skipped.operations=none``.
                False: they are quarantined, for write strategies without truncates, as with ``partition_by``.
        """
        return Changes(
            keys=self.keys,
            sequence_by="cdc_sequence",
            delete_when="cdc_op = 'd'",
            truncate_when="cdc_op = 't'" if truncates else None,
            unavailable=None if self.whole else self.placeholder,
            moved_when="cdc_op = 'c'" if self.keys_change and not self.whole else None,
        )

    def validate(self, table_name: str) -> None:
        """Checks the declarations of this source and of the inner source; see :meth:`Source.validate`."""
        if not isinstance(self.source, Source) or isinstance(self.source, Debezium):
            raise DeclarationError(
                f"{table_name}: source: Debezium of {self.source!r}",
                rule="it reads events from another source",
                remedy='write Debezium(Kafka(...), table="public.orders", keys=["id"])',
            )
        check_types(table_name, "source: ", self)
        self.source.validate(table_name)
        check_connector(table_name, self.connector, self.logs, self.table, self.other_tables)
        if self.table in self.other_tables:
            raise DeclarationError(
                f"{table_name}: source: other_tables has {self.table!r}, the table itself",
                rule="events of other_tables change nothing",
                remedy=f"remove {self.table!r} from other_tables",
            )
        if not self.keys:
            raise DeclarationError(
                f"{table_name}: source: keys is empty",
                rule="rows are kept by key; without a key an update does not identify its row",
                remedy="name the columns of the primary key, or of a unique key that never changes; or keep the events "
                "as they are, with Append()",
            )
        for column, encoding in self.encodings.items():
            if not re.fullmatch(ENCODING, encoding):
                raise DeclarationError(
                    f"{table_name}: source: the encoding of {column!r} is {encoding!r}",
                    rule="it is the format in which the connector writes the values of a column",
                    remedy="write plain, date, timestamp[ms], time[us] (units are ms, us, ns), decimal(2), "
                    "unsigned, hex, or base64url",
                )
        if self.slot is not None:
            self.slot.validate(table_name)
        if not self.placeholder:
            raise DeclarationError(
                f"{table_name}: source: unavailable is {self.unavailable!r}",
                rule="it is a string that is not empty, or hex: and the hexadecimal digits of its UTF-8",
                remedy="leave it out, or name the connector's unavailable.value.placeholder",
            )

    @property
    def own_fields(self) -> Mapping[str, OwnField]:
        """The fields of events, and of the inner source; see :meth:`Source.own_fields`."""
        return {**self.source.own_fields, **OWN_FIELDS}

    def validate_changes(self, declared: Declared) -> None:
        """Checks keys, order, deletes and encodings; see :meth:`Source.validate_changes`."""
        text = self.changes().unavailable or self.unavailable
        check_events(declared, self.keys, self.encodings, unavailable=text, whole_before=self.whole)

    def for_contract(self, contract: Contract) -> "Debezium":
        """This source, which reads values without schema by the contract's types; see :meth:`Source.for_contract`."""
        made = replace(self, source=self.source.for_contract(contract))
        object.__setattr__(made, "contract", contract)
        return made

    def for_changes(self, unavailable: str | None, *, moves: bool) -> "Debezium":
        """This source, which quarantines events with unavailable values that the table would mistake for values."""
        made = super().for_changes(unavailable, moves=moves)
        assert isinstance(made, Debezium)
        kept = unavailable == self.placeholder
        for name, value in {"contract": self.contract, "kept": kept, "moves_kept": kept and moves}.items():
            object.__setattr__(made, name, value)
        return made

    def check_skipped(self, table_name: str, window: Window, skipped: Mapping[str, Collection[str]]) -> None:
        """Refuses a window whose change events are all of undeclared tables; see :meth:`Source.check_skipped`."""
        reasons = (reason for of_part in skipped.values() for reason in of_part if reason.startswith(ELSEWHERE))
        others = sorted({reason.removeprefix(ELSEWHERE) for reason in reasons} - {*self.other_tables})
        if not others:
            return
        shown = ", ".join(map(repr, others[:SHOWN_TABLES]))
        named = some([*map(repr, others)], SHOWN_TABLES)
        raise SourceUnreadable(
            f"{table_name} {window.key}: {self.source} holds events of {named}, and no valid one of {self.table!r}",
            rule="a window whose change events are all of other tables is not the same as an empty window",
            remedy="correct table=, including its case, or read the topic or files that hold the table's events; if "
            f"windows may consist of events of other tables, declare Debezium(..., other_tables=[{shown}])",
        )

    def headroom(self, table_name: str, positions: Mapping[Window, Position], now: datetime) -> list[RetentionMargin]:
        """The margins of the inner source and of the slot; see :meth:`Source.headroom`."""
        of_slot = [self.slot.headroom(table_name)] if self.slot is not None else []
        return self.source.headroom(table_name, positions, now) + of_slot

    def of_record(self, fields: Sequence[str]) -> list[str]:
        """The members of an event, and the fields that its record in Kafka has."""
        return [*ENVELOPE, PAYLOAD, *_of_record(fields)]

    def parsed(self, records: DataFrame, fields: Sequence[str]) -> DataFrame:
        """The rows of the events; see :meth:`SourceDecorator.parsed`."""
        reading = Reading(
            table=self.table,
            connector=self.connector,
            logs=tuple(self.logs),
            keys=tuple(self.keys),
            whole_before=self.whole,
            unavailable=self.placeholder,
            kept=self.kept,
            moves=self.moves_kept,
            types=self.contract.types if self.contract else {},
            encodings={name: declared_encoding(of, self.time_precision_mode) for name, of in self.encodings.items()},
            masked=self.contract.personal if self.contract else (),
            default=lambda target: default_encoding(
                target, self.time_precision_mode, self.decimals, CONNECTORS[self.connector].timestamp
            ),
        )
        return table_rows(records, fields, reading, *_of_record(fields))


def _of_record(fields: Sequence[str]) -> list[str]:
    """The fields that belong to the event's record in Kafka."""
    return [name for name in fields if name.startswith("kafka_")]
