"""Tables of every kind whose persons are tokenized and whose values are encrypted: in clear they equal a plain twin."""

from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest

from incload_assets.change_log.context import LoadContext
from incload_assets.contract.protection import Encrypted, Tokenized
from incload_assets.declaration.changes import Changes
from incload_assets.load.replay import replay_window
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.monitoring.rows.reveal import revealed
from incload_assets.recovery.shadow import drop, shadow
from incload_assets.writes.fold import Fold
from incload_assets.writes.merge import Merge
from incload_assets.writes.overwrite import Overwrite
from tests.recovery.test_erase import (
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
from tests.recovery.test_erase_kinds import Placed, Tally, counted, each, without_deletes
from tests.support.tables import Loaded, day

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


def placed(row: dict[str, Any]) -> dict[str, Any]:
    """The row with a day, which is the key's for ever."""
    return row | {"day": f"2026-02-{ord(row['id']) - ord('a') + 1:02d}"}


def as_it_is(row: dict[str, Any]) -> dict[str, Any]:
    return row


PLAIN: dict[str, Any] = {"contract": Order, "sealed": Sealed, "record": as_it_is, "deletes": True}
KINDS: dict[str, dict[str, Any]] = {name: PLAIN | options for name, options in WRITES.items()} | {
    "fold": PLAIN
    | {
        "contract": Tally,
        "sealed": SealedTally,
        "record": counted,
        "deletes": False,
        "changes": Changes(keys=["id"], sequence_by=["seq"]),
        "write": Fold(sums=["amount"]),
    },
    "another column partitions": PLAIN
    | {"contract": Placed, "sealed": SealedPlaced, "record": placed, "write": Merge(partition_by="day")},
    "overwrite": PLAIN
    | {
        "contract": Placed,
        "sealed": SealedPlaced,
        "record": placed,
        "deletes": False,
        "changes": Changes(),
        "write": Overwrite(partition_by="day"),
    },
}


@pytest.mark.parametrize("name", KINDS)
def test_an_encrypted_table_is_its_plain_twin_for_whoever_has_the_keys_and_loses_a_person_for_ever(
    name: str, tmp_path: Path, declared: Declare
) -> None:
    options = dict(KINDS[name])
    contract, sealed, record = (options.pop(each) for each in ("contract", "sealed", "record"))
    has_deletes = options.pop("deletes")

    def content_of(rows: list[Any]) -> list[Any]:
        return each(rows if has_deletes else without_deletes(rows), record)

    content = {number: content_of(rows) for number, rows in CONTENT.items()}
    right = {number: content_of(without_anna(rows)) for number, rows in CONTENT.items()}
    before = content | {1: content[1][:3], 2: [*content[2], *content_of([order("g", BERT, 15, f"corrected {MARK}")])]}
    for area, of in (("all", before), ("twin", before), ("oracle", right)):
        write(tmp_path / area, of)
    table = InClear(**vars(loaded(declared("all", contract=sealed, **options), *content)))
    twin, oracle = (loaded(declared(area, contract=contract, **options), *content) for area in ("twin", "oracle"))

    def is_right() -> None:
        assert table.rows() == twin.rows()
        assert remains(table.lake.root) == []

    is_right()
    for area in ("all", "twin"):
        write(tmp_path / area, content)
    loaded(table, 1, 2), loaded(twin, 1, 2)
    is_right()
    window = table.table.window_of(day(2))
    for one in (table, twin):
        undo_window(one.spark, one.table, one.lake, window, Undo(actor="somebody"))
    is_right()
    for one in (table, twin):
        one.load(2, if_held="release")
    assert not replay_window(table.spark, table.table, table.lake, window).ingested
    is_right()
    context = LoadContext(table.spark, table.table, table.lake)
    made = shadow(context)
    assert made.comparison.equal, [*made.lines("items")]
    drop(context)

    assert erase(table).is_proven
    late = content_of([*LATE])
    stays_erased(table, oracle, tmp_path, content, right, late=late, erased=3)
