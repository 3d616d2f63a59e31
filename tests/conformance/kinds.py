"""The tables that every command is tried on: each write strategy, each kind of source, and what their tables hold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import (
    Append,
    Changes,
    Debezium,
    DeleteInsert,
    Files,
    Fold,
    FullReload,
    History,
    Kafka,
    Merge,
    Overwrite,
    Quarantine,
    QueryById,
    QueryByTime,
    ReplicationSlot,
    Several,
    Snapshot,
    Subject,
    Unwrapped,
    Upstream,
    derived_asset,
    incremental_asset,
)
from incload_assets.declaration.source import Source
from incload_assets.declaration.write import Write
from tests.sources.case import Case, Row
from tests.sources.case_debezium import DebeziumFiles
from tests.sources.case_files import JsonFiles
from tests.sources.case_kafka import KafkaTopic
from tests.sources.case_postgres import PostgresById, PostgresByTime
from tests.sources.case_several import SeveralFiles
from tests.sources.case_unwrapped import UnwrappedFiles

D1, D2, D3 = "2026-01-01", "2026-01-02", "2026-01-03"
DAYS = dg.DailyPartitionsDefinition(D1, end_date="2026-01-04")
FIRST, SECOND, THIRD = (date(2026, 1, number) for number in (1, 2, 3))
ITEMS = "items"


class Sold(pa.DataFrameModel):
    """Something sold; an amount below 0 is rejected."""

    id: T.StringType = pa.Field(nullable=False)
    big: T.LongType = pa.Field(nullable=True, ge=0)
    born: T.DateType = pa.Field(nullable=False)
    seq: T.LongType = pa.Field(nullable=False)


class Summed(Sold):
    """What was sold before anybody checks it."""

    big: T.LongType = pa.Field(nullable=True)


def sold(id: str | None, big: int | None, seq: int, op: str | None = "u", born: date = FIRST) -> Row:
    """A record as the source gives it; without an operation the field is not there."""
    return {"id": id, "big": big, "seq": seq, "born": born} | ({"op": op} if op else {})


def plain(id: str, big: int, seq: int, born: date = FIRST) -> Row:
    """A record of a source that has no operations."""
    return sold(id, big, seq, None, born)


Rows = set[tuple[Any, ...]]
KEYED = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'")
LOADED = {
    D1: [sold("a", 10, 1), sold("b", 20, 1), sold("c", 30, 1)],
    D2: [sold("a", 11, 2), sold("b", None, 2, "d"), sold("e", -5, 2, born=SECOND)],
    D3: [sold("c", 29, 0), sold("d", 40, 3, born=THIRD), sold("a", 12, 3)],
}
"""An update, a delete, a rejected row (e) and a late one (c, older than what is there)."""
EVENTS = {
    D1: [plain("a", 10, 1), plain("b", 20, 1), plain("c", 30, 1)],
    D2: [plain("f", 11, 2), plain("e", -5, 2, born=SECOND)],
    D3: [plain("d", 40, 3, born=THIRD), plain("g", 12, 3)],
}
"""Each key once."""
EXTRACTS = {
    D1: [plain("a", 10, 1), plain("b", 20, 1), plain("c", 30, 1)],
    D2: [plain("a", 11, 2), plain("c", 30, 1), plain("e", -5, 2)],
    D3: [plain("a", 12, 3), plain("c", 30, 1), plain("d", 40, 3)],
}


@dataclass(frozen=True)
class Kind:
    """A table, what its source holds, and what it has to hold after each question.

    Args:
        name: For the test's name.
        held: The table after all loads.
        undone: The same, after an undo of the third window.
        accepted: After the loads, and the rejected row accepted.
        write: As declared.
        changes: As declared.
        rows: What the source holds, by window; the rejected row is in the second.
        columns: Of the rows above.
        source: The source.
        key: The key of a row whose trace is asked for.
        fates: What became of the changes of this row, oldest first.
        rejected: Number of rejected rows.
        answers: Commands that answer otherwise than for most kinds: exit code, and what they say.
        derived: Whether the table is made of another one, which the source is read into.
    """

    name: str
    held: Rows
    undone: Rows
    accepted: Rows
    write: Write = field(default=Merge())
    changes: Changes = KEYED
    rows: Mapping[str, Sequence[Row]] = field(default_factory=lambda: LOADED)
    columns: Sequence[str] = ("id", "big", "seq")
    source: type[Case] = JsonFiles
    key: Sequence[str] = ("id=a",)
    fates: Sequence[str] = ("superseded", "superseded", "in effect")
    rejected: int = 1
    answers: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    derived: bool = False

    def assets(self, source: Source) -> list[dg.AssetsDefinition]:
        """The table ``items``, after those upstream of it."""
        some: dict[str, Any] = {"partitions_def": DAYS, "quarantine": Quarantine(max_share=1.0), "code_version": "1"}
        some["subject"] = Subject("customer", by="id")
        declared: Callable[..., Any] = incremental_asset
        options: dict[str, Any] = {"source": source, "changes": self.changes, "write": self.write}
        if not self.derived:
            return [declared(name=ITEMS, contract=Sold, **options, **some)(_unchanged)]
        events = declared(name="events", contract=Summed, **options | {"write": Merge(partition_by="born")}, **some)(
            _unchanged
        )
        of = {"events": Upstream(events, partition="born")}
        return [events, derived_asset(name=ITEMS, of=of, contract=Sold, write=self.write, **some)(_per_day)]


def _unchanged(changes: DataFrame) -> DataFrame:
    """What was sold."""
    return changes


def _per_day(events: DataFrame) -> DataFrame:
    """What was sold on each day."""
    sums = events.groupBy("born").agg(F.sum("big").alias("big"), F.max("seq").alias("seq"))
    return sums.withColumn("id", F.col("born").cast("string"))


PLAIN_HELD: Rows = {("a", 12, 3), ("c", 30, 1), ("d", 40, 3)}
PLAIN_UNDONE: Rows = {("a", 11, 2), ("c", 30, 1)}
PLAIN_ACCEPTED: Rows = PLAIN_HELD | {("e", -5, 2)}
APPENDED: Rows = {("a", 10, 1), ("b", 20, 1), ("c", 30, 1), ("f", 11, 2), ("d", 40, 3), ("g", 12, 3)}
APPENDED_UNDONE: Rows = {("a", 10, 1), ("b", 20, 1), ("c", 30, 1), ("f", 11, 2)}


def merged(name: str, **options: Any) -> Kind:
    """A kind whose table has the newest change of each key."""
    return Kind(name, **{"held": PLAIN_HELD, "undone": PLAIN_UNDONE, "accepted": PLAIN_ACCEPTED} | options)


def appended(name: str, **options: Any) -> Kind:
    """A kind whose table has every event."""
    usual: dict[str, Any] = {
        "held": APPENDED,
        "undone": APPENDED_UNDONE,
        "accepted": APPENDED | {("e", -5, 2)},
        "write": Append(),
        "rows": EVENTS,
        "fates": ("in effect",),
    }
    return Kind(name, **usual | options)


def unreadable(why: str) -> dict[str, tuple[int, str]]:
    """Answers where the source cannot parse payloads of the log, so that rejected rows are corrected at the source."""
    return {"replay": (1, why), "fill items": (1, why)}


UNREADABLE = unreadable("cannot parse the payloads that its rejected rows keep")
OF_PARQUET = "the payload of a Parquet, ORC or Avro record does not keep the types of its values"
OTHER_COLUMNS = {"contract unknown items": (2, "unknown field")}
"""The source has columns that the contract does not name."""
NOT_ADOPTED = {"adopt items --dry-run": (1, "cannot be adopted")}
"""Tables whose rows do not say which changes made them."""
OF_THREE_ROWS = {"trace items KEY": (0, "items KEY: the table has 3 rows, by change 1, 2, 3")}
"""Tables that keep what came before."""
OF_VERSIONS = OF_THREE_ROWS | {"as-of items": (0, "items: 7 rows")}
"""Tables that keep when it was in effect."""
FOLLOWED = {"changes items --since 0": (0, "items: versions 0 to ")}
"""Tables with a change feed."""

OF_WRITES = [
    merged("merge"),
    merged("merge in buckets", write=Merge(buckets=3, change_feed=True), answers=FOLLOWED),
    merged("merge by partition", write=Merge(partition_by="born")),
    merged(
        "merge with soft deletes",
        write=Merge(soft_delete="is_deleted"),
        columns=("id", "big", "seq", "is_deleted"),
        held={("a", 12, 3, False), ("b", 20, 2, True), ("c", 30, 1, False), ("d", 40, 3, False)},
        undone={("a", 11, 2, False), ("b", 20, 2, True), ("c", 30, 1, False)},
        accepted={
            ("a", 12, 3, False),
            ("b", 20, 2, True),
            ("c", 30, 1, False),
            ("d", 40, 3, False),
            ("e", -5, 2, False),
        },
    ),
    merged(
        "merge of partial changes",
        fates=("superseded", "in effect", "in effect"),
        write=Merge(partial=True),
        rows=LOADED | {D3: [{"id": "a", "big": 12, "seq": 3, "op": "u"}, *LOADED[D3][:2]]},
        columns=("id", "big", "seq", "born"),
        held={("a", 12, 3, FIRST), ("c", 30, 1, FIRST), ("d", 40, 3, THIRD)},
        undone={("a", 11, 2, FIRST), ("c", 30, 1, FIRST)},
        accepted={("a", 12, 3, FIRST), ("c", 30, 1, FIRST), ("d", 40, 3, THIRD), ("e", -5, 2, SECOND)},
    ),
    merged(
        "merge with truncates",
        fates=("superseded", "stale", "superseded", "in effect"),
        changes=Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'", truncate_when="op = 't'"),
        rows=LOADED | {D3: [{"seq": 2, "op": "t"}, *LOADED[D3]]},
        held={("a", 12, 3), ("d", 40, 3)},
        accepted={("a", 12, 3), ("d", 40, 3), ("e", -5, 2)},
    ),
    merged(
        "merge with extracts",
        fates=("superseded", "superseded", "superseded", "in effect"),
        changes=Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'", snapshot_when="op = 's'"),
        rows=LOADED | {D3: [sold("a", 12, 3, "s"), sold("d", 40, 3, "s", THIRD), sold("c", 29, 0)]},
        held={("a", 12, 3), ("d", 40, 3)},
        accepted={("a", 12, 3), ("d", 40, 3)},
    ),
    Kind(
        "history",
        fates=("in effect", "in effect", "in effect"),
        write=History(),
        answers=NOT_ADOPTED | OF_VERSIONS,
        columns=("id", "big", "valid_from", "valid_to", "is_current"),
        held={
            ("a", 10, 1, 2, False),
            ("a", 11, 2, 3, False),
            ("a", 12, 3, None, True),
            ("b", 20, 1, 2, False),
            ("c", 29, 0, 1, False),
            ("c", 30, 1, None, True),
            ("d", 40, 3, None, True),
        },
        undone={
            ("a", 10, 1, 2, False),
            ("a", 11, 2, None, True),
            ("b", 20, 1, 2, False),
            ("c", 30, 1, None, True),
        },
        accepted={
            ("a", 10, 1, 2, False),
            ("a", 11, 2, 3, False),
            ("a", 12, 3, None, True),
            ("b", 20, 1, 2, False),
            ("c", 29, 0, 1, False),
            ("c", 30, 1, None, True),
            ("d", 40, 3, None, True),
            ("e", -5, 2, None, True),
        },
    ),
    Kind(
        "history of partial changes",
        fates=("in effect", "in effect", "in effect"),
        write=History(partial=True),
        answers=NOT_ADOPTED | OF_VERSIONS,
        rows=LOADED | {D3: [{"id": "a", "big": 12, "seq": 3, "op": "u"}, *LOADED[D3][:2]]},
        columns=("id", "big", "born", "valid_from", "valid_to"),
        held={
            ("a", 10, FIRST, 1, 2),
            ("a", 11, FIRST, 2, 3),
            ("a", 12, FIRST, 3, None),
            ("b", 20, FIRST, 1, 2),
            ("c", 29, FIRST, 0, 1),
            ("c", 30, FIRST, 1, None),
            ("d", 40, THIRD, 3, None),
        },
        undone={
            ("a", 10, FIRST, 1, 2),
            ("a", 11, FIRST, 2, None),
            ("b", 20, FIRST, 1, 2),
            ("c", 30, FIRST, 1, None),
        },
        accepted={
            ("a", 10, FIRST, 1, 2),
            ("a", 11, FIRST, 2, 3),
            ("a", 12, FIRST, 3, None),
            ("b", 20, FIRST, 1, 2),
            ("c", 29, FIRST, 0, 1),
            ("c", 30, FIRST, 1, None),
            ("d", 40, THIRD, 3, None),
            ("e", -5, SECOND, 2, None),
        },
    ),
    merged(
        "snapshot",
        write=Snapshot(),
        changes=Changes(keys=["id"]),
        rows=EXTRACTS,
        accepted=PLAIN_HELD,
        answers=NOT_ADOPTED,
    ),
    merged(
        "full reload",
        write=FullReload(),
        changes=Changes(),
        rows=EXTRACTS,
        accepted=PLAIN_HELD,
        answers=NOT_ADOPTED,
    ),
    Kind(
        "overwrite",
        write=Overwrite(partition_by="born", change_feed=True),
        changes=Changes(),
        rows={
            D1: [plain("a", 10, 1), plain("b", 20, 1)],
            D2: [plain("a", 11, 2, born=SECOND), plain("e", -5, 2, born=SECOND)],
            D3: [plain("a", 12, 3, born=THIRD)],
        },
        held={("a", 10, 1), ("b", 20, 1), ("a", 11, 2), ("a", 12, 3)},
        undone={("a", 10, 1), ("b", 20, 1), ("a", 11, 2)},
        accepted={("a", 10, 1), ("b", 20, 1), ("a", 11, 2), ("a", 12, 3), ("e", -5, 2)},
        fates=("in effect", "in effect", "in effect"),
        answers=OF_THREE_ROWS | FOLLOWED,
    ),
    merged(
        "delete and insert",
        write=DeleteInsert(by=["id"]),
        changes=Changes(sequence_by=["seq"], delete_when="op = 'd'"),
        rows=LOADED | {D2: [*LOADED[D2], sold("e", 6, 2, born=SECOND)]},
        accepted=PLAIN_HELD | {("e", -5, 2), ("e", 6, 2)},
        rejected=2,
    ),
    appended("append by key", changes=Changes(keys=["id"], sequence_by=["seq"])),
    appended("append by content", changes=Changes()),
    Kind(
        "fold",
        write=Fold(sums=["big"]),
        answers=NOT_ADOPTED,
        changes=Changes(keys=["id"], sequence_by=["seq"]),
        rows={
            D1: [plain("a", 10, 1), plain("b", 20, 1), plain("c", 30, 1)],
            D2: [plain("a", 1, 2), plain("e", -5, 2)],
            D3: [plain("c", 2, 0), plain("d", 40, 3), plain("a", 1, 3)],
        },
        held={("a", 12, 3), ("b", 20, 1), ("c", 32, 1), ("d", 40, 3)},
        undone={("a", 11, 2), ("b", 20, 1), ("c", 30, 1)},
        accepted={("a", 12, 3), ("b", 20, 1), ("c", 32, 1), ("d", 40, 3), ("e", -5, 2)},
        fates=("in effect", "in effect", "in effect"),
    ),
]
OF_SOURCES = [
    merged("postgres by time", source=PostgresByTime, answers=UNREADABLE | OTHER_COLUMNS),
    appended("postgres by id", source=PostgresById, changes=Changes(keys=["id"]), answers=UNREADABLE | OTHER_COLUMNS),
    merged("kafka", source=KafkaTopic),
    merged("rows within records", source=UnwrappedFiles),
    merged("debezium", source=DebeziumFiles, answers={"fill items": (1, "does not give every value as a text")}),
    merged("several sources", source=SeveralFiles, answers=OTHER_COLUMNS | unreadable(OF_PARQUET)),
    Kind(
        "derived table",
        derived=True,
        write=Overwrite(partition_by="born"),
        held={(D1, 42, 3), (D3, 40, 3)},
        undone={(D1, 42, 3)},
        accepted={(D1, 42, 3), (D2, -5, 2), (D3, 40, 3)},
        key=(f"id={D1}",),
        fates=("in effect",),
        answers=UNREADABLE,
    ),
]
SOURCES: Mapping[type, str] = {
    Files: "merge",
    QueryByTime: "postgres by time",
    QueryById: "postgres by id",
    Kafka: "kafka",
    Debezium: "debezium",
    Unwrapped: "rows within records",
    Several: "several sources",
}
"""By the kind of source, the name of a kind of table that has it."""
TRIED_BY_TESTS_OF_THEIR_OWN: frozenset[type] = frozenset({ReplicationSlot})
"""A source that Debezium's events are read by, which needs a slot of a server."""
