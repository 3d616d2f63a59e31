"""Tables of every kind whose persons are tokenized and whose values are encrypted: in clear they equal a plain twin."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Debezium, Files, Quarantine, Subject, Upstream, derived_asset, incremental_asset
from incload_assets.assets.incremental import table_of
from incload_assets.contract.protection import Encrypted, Tokenized
from incload_assets.declaration.changes import Changes
from incload_assets.erasure.erase import Eraser
from incload_assets.erasure.erasure import fingerprints_of
from incload_assets.load.replay import replay_window
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.platform.lake import Lake
from incload_assets.protection.reveal import revealed
from incload_assets.what_if.shadow import drop, shadow
from incload_assets.writes.fold import Fold
from incload_assets.writes.merge import Merge
from incload_assets.writes.overwrite import Overwrite
from tests.erasure.test_erase import (
    ANNA,
    BERT,
    CONTENT,
    LATE,
    MARK,
    WRITES,
    Declare,
    Order,
    declared,
    erase,
    key,
    loaded,
    order,
    remains,
    stays_erased,
    without_anna,
    write,
)
from tests.erasure.test_erase_derived import placed as placed_by_key
from tests.erasure.test_erase_kinds import Placed, Tally, counted, each, without_deletes
from tests.sources.debezium.test_debezium import MARKER as UNAVAILABLE
from tests.sources.debezium.test_debezium import event
from tests.sources.debezium.test_debezium import files as event_files
from tests.sources.debezium.test_debezium import write as write_events
from tests.support.tables import DAYS, Loaded, day, make

__all__ = ["declared", "key"]

TOKEN, BOX = {"personal": Tokenized(key="crm")}, {"personal": Encrypted(key="crm")}


class Sealed(Order):
    """An order whose person and value nobody reads without the keys."""

    person: T.StringType = pa.Field(nullable=True, metadata=TOKEN)
    value: T.StringType = pa.Field(nullable=True, metadata=BOX)


class SealedTally(Tally):
    """An order that counts, and whose person and value nobody reads without the keys."""

    person: T.StringType = pa.Field(nullable=True, metadata=TOKEN)
    value: T.StringType = pa.Field(nullable=True, metadata=BOX)


class SealedPlaced(Placed):
    """An order of a day, whose person and value nobody reads without the keys."""

    person: T.StringType = pa.Field(nullable=True, metadata=TOKEN)
    value: T.StringType = pa.Field(nullable=True, metadata=BOX)


@pytest.fixture(autouse=True)
def crm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_KEY_CRM", "c" * 40)


class InClear(Loaded):
    """A table under test, whose rows are read with the keys."""

    def rows(self, *columns: str) -> set[tuple[Any, ...]]:
        kept = self.spark.read.format("delta").load(self.uri)
        found = [
            tuple(row)
            for row in revealed(kept, self.table, self.lake).select(*(columns or self.table.columns)).collect()
        ]
        assert len(found) == len(set(found)), f"rows stand twice in the table: {found}"
        return set(found)


Record = dict[str, Any]


def by_key(row: Record, _: int) -> Record:
    """The row with a day, which is the key's for ever."""
    return row | {"day": f"2026-02-{ord(row['id']) - ord('a') + 1:02d}"}


def by_window(row: Record, number: int) -> Record:
    """The row with the day of its window."""
    return row | {"day": day(number)}


PLAIN: dict[str, Any] = {"contract": Order, "sealed": Sealed, "record": lambda row, _: row}
KINDS: dict[str, dict[str, Any]] = {name: PLAIN | options for name, options in WRITES.items()} | {
    # of rows with the same key one is kept by its content, so the keys of windows differ
    "append": PLAIN | WRITES["append"] | {"record": lambda row, number: row | {"id": f"{row['id']}{number}"}},
    "fold": PLAIN
    | {
        "contract": Tally,
        "sealed": SealedTally,
        "record": lambda row, _: counted(row),
        "changes": Changes(keys=["id"], sequence_by=["seq"]),
        "write": Fold(sums=["amount"]),
    },
    "another column partitions": PLAIN
    | {"contract": Placed, "sealed": SealedPlaced, "record": by_key, "write": Merge(partition_by="day")},
    "overwrite": PLAIN
    | {
        "contract": Placed,
        "sealed": SealedPlaced,
        "record": by_window,
        "changes": Changes(),
        "write": Overwrite(partition_by="day"),
    },
}


class Twins:
    """An encrypted table, one of the same content in clear, and one that never had the person who is erased."""

    def __init__(self, name: str, folder: Path, declared: Declare) -> None:
        options, self.folder = dict(KINDS[name]), folder
        contract, sealed, self._record = (options.pop(each) for each in ("contract", "sealed", "record"))
        # the deletes have values without a person, which are rejected where they are no deletes
        self._deletes = "changes" not in options or options["changes"].delete_when is not None
        self.content = {number: self.content_of(rows, number) for number, rows in CONTENT.items()}
        self.right = {number: self.content_of(without_anna(rows), number) for number, rows in CONTENT.items()}
        corrected = self.content_of([order("g", BERT, 15, f"corrected {MARK}")], 2)
        before = self.content | {1: self.content[1][:3], 2: [*self.content[2], *corrected]}
        for area, of in (("all", before), ("twin", before), ("oracle", self.right)):
            write(folder / area, of)
        self.table = InClear(**vars(declared("all", contract=sealed, **options)))
        self.twin, self.oracle = (declared(area, contract=contract, **options) for area in ("twin", "oracle"))

    def content_of(self, rows: list[Any], number: int) -> list[Any]:
        return each(rows if self._deletes else without_deletes(rows), lambda row: self._record(row, number))

    def load(self) -> None:
        """All windows are loaded, and those that had other content before once more."""
        loaded(self.table, *self.content), loaded(self.twin, *self.content)
        self.are_equal()
        for area in ("all", "twin"):
            write(self.folder / area, self.content)
        loaded(self.table, 1, 2), loaded(self.twin, 1, 2)
        self.are_equal()

    def are_equal(self) -> None:
        assert self.table.rows() == self.twin.rows()
        assert remains(self.table.lake.root) == []


@pytest.mark.parametrize("name", KINDS)
def test_an_encrypted_table_is_its_twin_in_clear_for_whoever_has_the_keys(
    name: str, tmp_path: Path, declared: Declare
) -> None:
    twins = Twins(name, tmp_path, declared)
    twins.load()
    window = twins.table.table.window_of(day(2))
    for one in (twins.table, twins.twin):
        undo_window(one.context(), window, Undo(actor="somebody"))
    twins.are_equal()
    for one in (twins.table, twins.twin):
        one.load(2, if_held="release")
    assert not replay_window(twins.table.context(), window).ingested
    twins.are_equal()


@pytest.mark.parametrize("name", ["merge", "partial", "history", "fold", "another column partitions"])
def test_a_shadow_of_an_encrypted_table_is_equal_and_an_erased_person_stays_erased(
    name: str, tmp_path: Path, declared: Declare
) -> None:
    twins = Twins(name, tmp_path, declared)
    twins.load()
    loaded(twins.oracle, *twins.content)
    context = twins.table.context()
    made = shadow(context)
    assert made.comparison.equal, [*made.lines("items")]
    drop(context)
    assert erase(twins.table).is_proven
    late = twins.content_of([*LATE], 1)
    stays_erased(twins.table, twins.oracle, tmp_path, twins.content, twins.right, late=late, erased=3)


def test_values_that_change_events_do_not_carry_stay_encrypted_for_their_person(
    spark: SparkSession, tmp_path: Path
) -> None:
    class Plain(pa.DataFrameModel):
        id: T.LongType = pa.Field(nullable=False)
        person: T.StringType = pa.Field(nullable=True)
        body: T.StringType = pa.Field(nullable=True)
        cdc_sequence: T.StringType = pa.Field(nullable=False)

    class Boxed(Plain):
        person: T.StringType = pa.Field(nullable=True, metadata=TOKEN)
        body: T.StringType = pa.Field(nullable=True, metadata=BOX)

    def row(id: int, person: str | None = None, body: str | None = None) -> dict[str, Any]:
        return {"id": id, "person": person, "body": body}

    days = {
        1: [event("c", row(1, ANNA, f"one {MARK}"), 110), event("c", row(5, ANNA, f"five {MARK}"), 111)],
        2: [
            event("d", row(1), 120),  # the row gets the key 2
            event("c", row(2, ANNA, UNAVAILABLE), 120),
            event("u", row(5, ANNA, UNAVAILABLE), 121),
            event("c", row(7, BERT, "seven"), 122),
            event("u", row(7, BERT, UNAVAILABLE), 123),
        ],
        3: [event("u", row(2, BERT, f"taken over {MARK}"), 130)],
    }
    for number, events in days.items():
        write_events(tmp_path, number, *events)
    source = Debezium(event_files(tmp_path), table="public.orders", keys=["id"], keys_change=True)
    usual: dict[str, Any] = {
        "source": source,
        "changes": source.changes(),
        "subject": Subject("person", by="person"),
        "quarantine": Quarantine(max_share=0.9),
    }
    plain = make(spark, tmp_path / "plain", contract=Plain, **usual)
    boxed = InClear(**vars(make(spark, tmp_path / "lake", contract=Boxed, **usual)))
    for number in (3, 2, 1):
        for table in (plain, boxed):
            table.load(number)
    assert boxed.rows() == plain.rows()
    names = ("id", "person", "body")
    left = {(2, BERT, f"taken over {MARK}"), (7, BERT, "seven")}
    assert boxed.rows(*names) == left | {(5, ANNA, f"five {MARK}")}
    assert remains(boxed.lake.root) == []
    assert erase(boxed).is_proven
    for number in (1, 2, 3):
        boxed.load(number)
    assert boxed.rows(*names) == left


def test_a_table_derived_from_an_encrypted_one_has_its_values_and_an_erasure_reaches_both(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tables(area: str, contract: type) -> list[Loaded]:
        @incremental_asset(
            partitions_def=DAYS,
            source=Files(str(tmp_path / area / "{window:%Y-%m-%d}.json")),
            contract=contract,
            changes=Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'"),
            write=Merge(partition_by="day"),
            quarantine=Quarantine(max_share=0.9),
            subject=Subject("person", by="person"),
        )
        def orders(changes: DataFrame) -> DataFrame:
            return changes

        @derived_asset(
            partitions_def=DAYS,
            of={"orders": Upstream(orders, partition="day")},
            contract=contract,
            write=Overwrite(partition_by="day"),
            keys=["id"],
            absent="empty",
            subject=Subject("person", by="person"),
        )
        def newest(orders: DataFrame) -> DataFrame:
            return orders.withColumn("seq", F.col("seq") + 1)

        lake = Lake(str(tmp_path / f"lake-{area}"))
        found = [table_of(each) for each in (orders, newest)]
        kind = Loaded if contract is Placed else InClear
        return [kind(spark, each, lake, {}) for each in found if each is not None]

    def load(loads: Sequence[Loaded]) -> list[set[tuple[Any, ...]]]:
        monkeypatch.setenv("INCLOAD_LAKE", loads[0].lake.root)
        for one in loads:
            for number in (1, 2):
                one.load(number)
        return [one.rows() for one in loads]

    rows = {number: placed_by_key(CONTENT[number]) for number in (1, 2)}
    write(tmp_path / "all", rows), write(tmp_path / "twin", rows)
    write(tmp_path / "oracle", {number: without_anna(each) for number, each in rows.items()})
    boxed, twin, oracle = tables("all", SealedPlaced), tables("twin", Placed), tables("oracle", Placed)
    found = load(boxed)
    assert all(found) and found == load(twin)
    assert remains(boxed[0].lake.root) == []
    monkeypatch.setenv("INCLOAD_LAKE", boxed[0].lake.root)
    prints = fingerprints_of([each.table for each in boxed], "person", ANNA)
    with dg.instance_for_test() as instance:
        done = Eraser(spark, boxed[0].lake, [each.table for each in boxed], "person", prints).erase(instance)
    assert done.is_proven and done.tables["newest"].rows
    assert load(boxed) == load(oracle)
