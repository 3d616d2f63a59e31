"""Cases evaluated by the oracle: one of each write strategy that it has, and what it leaves to Spark."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame

from incload_assets.assets import (
    Append,
    Changes,
    DeleteInsert,
    FullReload,
    Hashed,
    History,
    Merge,
    Overwrite,
    Quarantine,
    QueryByTime,
)
from incload_assets.declaration.write import Write
from incload_assets.trial.outcome import Difference
from incload_assets.trial.values import NeedsSpark
from incload_assets.trial.without_spark import evaluate
from tests.support.tables import DatedItem, Item
from tests.trial.made import REASONS, Odd, case, table, wrong

DELETES = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'")
PLAIN = Changes(keys=["id"], sequence_by=["seq"])

LATE = """
windows:
  - window: 2026-01-02
    rows: |
      id,value,seq,op
      a,new,3,u
      b,,2,d
      c,kept,,u
  - window: 2026-01-01
    rows: |
      id,value,seq,op
      a,old,1,u
      b,older,1,u
expected: |
  id,value,seq
  a,new,3
  c,kept,
"""
HISTORY = """
windows:
  - window: 2026-01-02
    rows:
      - {id: a, value: new, seq: 3, op: u}
      - {id: a, value: new, seq: 4, op: u}
      - {id: b, seq: 9, op: d}
  - window: 2026-01-01
    rows:
      - {id: a, value: old, seq: 1, op: u}
      - {id: b, value: only, seq: 5, op: u}
expected:
  - {id: a, value: old, seq: 1, valid_from: 1, valid_to: 3, is_current: false}
  - {id: a, value: new, seq: 4, valid_from: 3, valid_to: null, is_current: true}
  - {id: b, value: only, seq: 5, valid_from: 5, valid_to: 9, is_current: false}
"""
EVENTS = """
windows:
  - window: 2026-01-02
    rows:
      - {id: a, value: second, seq: 2}
      - {id: gone, value: x, seq: 1}
  - window: 2026-01-01
    rows: [{id: a, value: first, seq: 1}]
  - window: 2026-01-02
    rows: [{id: a, value: second, seq: 2}]
expected: [{id: a, value: first, seq: 1}]
"""
OVERWRITTEN = """
windows:
  - window: 2026-01-01
    rows: |
      id,value,day
      a,x,2026-01-01
      a,x,2026-01-01
      b,y,2026-01-02
  - window: 2026-01-02
    rows: []
  - window: 2026-01-01
    rows: |
      id,value,day
      c,z,2026-01-01
      c,z,2026-01-01
      b,y,2026-01-02
expected: |
  id,value,day
  c,z,2026-01-01
  c,z,2026-01-01
rejected:
  - {id: b, _reason: "day: '2026-01-02' does not lie in the window 2026-01-01"}
"""
RELOADED = """
windows:
  - {window: 2026-01-02, rows: [{id: a}, {id: a}]}
  - {window: 2026-01-01, rows: [{id: b}, {id: c}]}
expected: [{id: a}, {id: a}]
"""


@pytest.mark.parametrize(
    ("write", "changes", "contract", "text"),
    [
        (Merge(), DELETES, Item, LATE),
        (History(), DELETES, Item, HISTORY),
        (Append(), PLAIN, Item, EVENTS),
        (Overwrite(partition_by="day"), Changes(), DatedItem, OVERWRITTEN),
        (FullReload(max_shrink=1.0), Changes(), Item, RELOADED),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Write) else "",
)
def test_late_deleted_rewritten_and_rejected_rows_make_what_the_strategy_promises(
    tmp_path: Path, write: Write, changes: Changes, contract: type, text: str
) -> None:
    of = case(tmp_path, table(write=write, changes=changes, contract=contract), text)
    assert wrong(of, evaluate(of)) == []


def test_a_difference_pairs_rows_by_their_key_and_names_the_cells(tmp_path: Path) -> None:
    text = LATE.replace("a,new,3\n  c,kept,\n", "a,old,3\n  d,more,\n")
    of = case(tmp_path, table(changes=DELETES, contract=Item), text)
    [cell, lacking, more] = [*wrong(of, evaluate(of))]
    assert isinstance(cell, Difference) and isinstance(lacking, Difference) and isinstance(more, Difference)
    assert cell.columns == {"value"}
    assert cell.found == {"id": "a", "value": "new", "seq": "3"}
    assert (lacking.expected, lacking.found) == ({"id": "d", "value": "more", "seq": None}, None)
    assert (more.expected, more.found) == (None, {"id": "c", "value": "kept", "seq": None})


def test_rows_are_rejected_for_their_types_nulls_and_checks_in_the_words_of_a_load(tmp_path: Path) -> None:
    of = case(tmp_path, table(contract=Odd), REASONS)
    assert wrong(of, evaluate(of)) == []


def test_a_rejected_row_is_expected_by_some_of_its_values_and_one_that_nobody_expects_is_a_difference(
    tmp_path: Path,
) -> None:
    begin, _, _ = REASONS.partition("rejected:")
    of = case(tmp_path, table(contract=Odd), f"{begin}rejected:\n  - {{id: null}}\n  - {{seq: word}}\n  - {{id: 9}}\n")
    assert wrong(of, evaluate(of)) == [
        Difference("rejected rows", {"id": "9"}, None),
        Difference(
            "rejected rows",
            None,
            {
                "id": "2",
                "seq": "1",
                "_reason": "day: '2026-02-30' is not date (no time of day, year 1 to 9999); amount: '100.50' not < 100",
            },
        ),
    ]


def test_a_window_with_too_many_rejected_rows_stops_and_keeps_what_it_had(tmp_path: Path) -> None:
    text = """
windows:
  - {window: 2026-01-01, rows: [{id: a, value: kept, seq: 1}]}
  - {window: 2026-01-01, rows: [{id: a, value: lost, seq: 2}, {id: null, seq: 3}], stops: true}
  - {window: 2026-01-02, rows: [{id: b, seq: word}]}
expected: [{id: a, value: kept}]
"""
    of = case(tmp_path, table(contract=Item, quarantine=Quarantine(max_share=0.4)), text)
    assert wrong(of, evaluate(of)) == [
        "case.yaml:5: the load of 2026-01-02 stopped: 1 of 1 row are rejected, more than items tolerates (40 %): "
        "seq: 'word' is not bigint"
    ]


TIED = """
windows: [{window: 2026-01-01, rows: [{id: a, value: x, seq: 1}, {id: a, value: y, seq: 1}]}]
expected: []
"""
ONCE = "windows: [{window: 2026-01-01, rows: [{id: a, value: x, seq: '1'}]}]\nexpected: [{id: a}]"
TWICE = """
windows: [{window: 2026-01-01, rows: [{id: a, seq: 1}]}, {window: 2026-01-01, rows: [{id: b, seq: 1}]}]
expected: []
"""


class Protected(Item):
    """Items whose value is hashed."""

    value: T.StringType = pa.Field(nullable=True, metadata={"personal": Hashed("crm")})


class Measured(Item):
    """Items with a type that Python does not convert."""

    value: T.BinaryType = pa.Field(nullable=True)


class Unique(Item):
    """Items whose value is unique."""

    class Config:
        """The form in which pandera has it."""

        unique = ["value"]  # noqa: RUF012 - pandera's own form


@pytest.mark.parametrize(
    ("options", "text", "why"),
    [
        ({"changes": PLAIN}, TIED, "a hash of their content decides"),
        ({"write": DeleteInsert(by=["id"]), "changes": Changes(sequence_by=["seq"])}, ONCE, "DeleteInsert"),
        ({"write": Merge(partial=True)}, ONCE, "set some columns"),
        ({"write": History(partial=True)}, ONCE, "set some columns"),
        ({"write": Merge(soft_delete="gone"), "changes": DELETES}, ONCE, "marked as deleted"),
        ({"changes": Changes(keys=["id"], sequence_by=["seq"], delete_when="seq % 2 = 1")}, ONCE, "'seq % 2 = 1'"),
        ({"contract": Measured}, ONCE, "'x' is binary"),
        ({"contract": Unique}, ONCE, "unique columns"),
        ({"contract": Protected}, ONCE, "protects columns"),
        ({"source": QueryByTime("shop", "public.items", modified="at")}, TWICE, "no longer shows"),
        ({}, ONCE.replace("'1'", "1e0"), "'1e0' is an integer"),
    ],
)
def test_what_python_cannot_decide_exactly_is_left_to_spark(
    tmp_path: Path, options: dict[str, Any], text: str, why: str
) -> None:
    of = case(tmp_path, table(**{"contract": Item} | options), text)
    with pytest.raises(NeedsSpark, match=f".*{why}"):
        evaluate(of)


def test_a_function_that_does_more_than_return_its_rows_is_left_to_spark(tmp_path: Path) -> None:
    def same(changes: DataFrame) -> DataFrame:
        """Rows as they are."""
        return changes

    def other(changes: DataFrame) -> DataFrame:
        return changes.filter("true")

    of = table(contract=Item)
    assert replace(of, function=same).passes_rows_on
    changed = case(tmp_path, replace(of, function=other), ONCE)
    with pytest.raises(NeedsSpark, match="its function changes rows"):
        evaluate(changed)
