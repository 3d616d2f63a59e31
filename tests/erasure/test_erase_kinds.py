"""A person is erased from tables of every kind: folded, partitioned, protected, adopted, compacted ones."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest

from incload_assets.contract.protection import Hashed
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.eras import Era
from incload_assets.maintenance.compact_logs import compact
from incload_assets.protection.protect import token
from incload_assets.restore.adopt import adopt
from incload_assets.sources.files.files import Files
from incload_assets.writes.fold import Fold
from incload_assets.writes.history import History
from incload_assets.writes.merge import Merge
from incload_assets.writes.overwrite import Overwrite
from tests.erasure.test_erase import (
    ANNA,
    BERT,
    CONTENT,
    LATE,
    MARK,
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
from tests.restore.test_adopt import context, frame
from tests.restore.test_adopt import write as write_table
from tests.support.tables import DAYS, Loaded, day

__all__ = ["declared", "key"]

NUMBER = 471147114711
HOURS = dg.HourlyPartitionsDefinition("2026-01-03-00:00")
CRM = Hashed(key="crm")


class Tally(Order):
    """An order that counts."""

    amount: T.LongType = pa.Field(nullable=True)


class Numbered(pa.DataFrameModel):
    """An order of a person with a number, of a day."""

    id: T.StringType = pa.Field(nullable=False)
    value: T.StringType = pa.Field(nullable=True)
    seq: T.LongType = pa.Field(nullable=True)
    person: T.LongType = pa.Field(nullable=True)
    state: T.StringType = pa.Field(nullable=True, isin=["open", "paid"])
    day: T.DateType = pa.Field(nullable=False)


class Known(Order):
    """An order of a person whom only a token names."""

    person: T.StringType = pa.Field(nullable=True, metadata={"personal": CRM})


class Placed(Order):
    """An order of a day."""

    day: T.DateType = pa.Field(nullable=False)


Rows = list[Any]


def each(rows: Rows, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Rows:
    """The records, changed; a text that is none stays."""
    return [row if isinstance(row, str) else change(row) for row in rows]


def both(content: Mapping[Any, Rows], change: Callable[[dict[str, Any]], dict[str, Any]]) -> tuple[Any, Any]:
    """What windows hold with the person, and as if the person had never been."""
    right = {name: each(without_anna(rows), change) for name, rows in content.items()}
    return {name: each(rows, change) for name, rows in content.items()}, right


def without_deletes(rows: Rows) -> Rows:
    return [row for row in rows if isinstance(row, str) or row.get("op") != "d"]


def counted(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"amount": row["seq"] * 10}


def numbered(row: dict[str, Any]) -> dict[str, Any]:
    """The row with numbers instead of names, and a day that is the key's for ever."""
    number = {"person": {ANNA: NUMBER, BERT: 815}[row["person"]]} if "person" in row else {}
    return row | number | {"day": f"2026-02-{ord(row['id']) - ord('a') + 1:02d}"}


def as_it_is(row: dict[str, Any]) -> dict[str, Any]:
    return row


def prepared(declared: Declare, folder: Path, content: Any, right: Any, **options: Any) -> tuple[Loaded, Loaded]:
    """A table with the person, of whose first window former landings are kept, and one that never had the person."""
    write(folder / "all", content | {1: content[1][:2]})
    write(folder / "oracle", right)
    table, oracle = declared("all", **options), declared("oracle", **options)
    loaded(table, *content), loaded(oracle, *content)
    write(folder / "all", content)
    return loaded(table, 1), oracle


def test_a_fold_sums_up_what_is_left(tmp_path: Path, declared: Declare) -> None:
    content, right = both({name: without_deletes(rows) for name, rows in CONTENT.items()}, counted)
    changes = Changes(keys=["id"], sequence_by=["seq"])
    table, oracle = prepared(
        declared, tmp_path, content, right, contract=Tally, changes=changes, write=Fold(sums=["amount"])
    )
    assert ("c", 160) in table.rows("id", "amount")
    assert erase(table).is_proven
    assert ("c", 30) in table.rows("id", "amount")
    stays_erased(table, oracle, tmp_path, content, right, late=each([*LATE], counted))


def test_a_person_is_gone_from_all_that_a_history_believed(tmp_path: Path, declared: Declare) -> None:
    content, right = both(CONTENT, as_it_is)
    table, oracle = prepared(declared, tmp_path, content, right, write=History(known=True))
    told = ("id", "person", "value", "valid_from", "valid_to", "is_current", "is_known", "known_from")

    def rows(of: Loaded, *, held: bool) -> set[Any]:
        return {row[:6] for row in of.rows(*told) if row[6] == held}

    before = {row for row in rows(table, held=False) if row[1] == BERT}
    assert before and any(row[1] == ANNA for row in rows(table, held=False))
    assert erase(table).is_proven
    assert remains(table.lake.root) == []
    assert rows(table, held=True) == rows(oracle, held=True)
    assert before <= rows(table, held=False)
    assert all(row[1] == BERT for row in rows(table, held=False))
    write(tmp_path / "all", {1: [*content[1], *LATE]})
    write(tmp_path / "oracle", {1: [*right[1], LATE[1]]})
    assert rows(loaded(table, 1), held=True) == rows(loaded(oracle, 1), held=True)
    assert remains(table.lake.root) == []


def test_a_person_with_a_number_is_gone_from_a_table_that_another_column_partitions(
    tmp_path: Path, declared: Declare
) -> None:
    content, right = both(CONTENT, numbered)
    content[1] = [row.replace(ANNA, str(NUMBER)) if isinstance(row, str) else row for row in content[1]]
    table, oracle = prepared(declared, tmp_path, content, right, contract=Numbered, write=Merge(partition_by="day"))
    assert erase(table, str(NUMBER)).is_proven
    stays_erased(
        table,
        oracle,
        tmp_path,
        content,
        right,
        value=str(NUMBER),
        marks=(MARK, str(NUMBER)),
        late=each([*LATE], numbered),
    )


def test_a_person_whom_only_a_token_names_is_found_by_the_identifier(
    tmp_path: Path, declared: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_KEY_CRM", "c" * 40)
    content, right = both(CONTENT, as_it_is)
    table, oracle = prepared(declared, tmp_path, content, right, contract=Known)
    assert remains(table.lake.root, token(CRM, ANNA)) and not remains(table.lake.root, ANNA)
    assert erase(table).is_proven
    stays_erased(table, oracle, tmp_path, content, right, marks=(MARK, token(CRM, ANNA)), erased=3)


def test_a_person_is_gone_from_windows_of_former_partitions(tmp_path: Path, declared: Declare) -> None:
    def hourly(area: str) -> Loaded:
        era = Era(DAYS, "2026-01-03T00:00Z", source=Files(str(tmp_path / area / "{window:%Y-%m-%d}.json")))
        source = Files(str(tmp_path / area / "{window:%Y-%m-%d-%H}*.json"))
        return declared(area, partitions_def=HOURS, former_partitions=[era], source=source)

    content, right = both({name: CONTENT[name] for name in (1, 2)}, as_it_is)
    later, later_right = both({"2026-01-03-00:00": CONTENT[3], "2026-01-03-01:00": [*LATE]}, as_it_is)
    prepared(declared, tmp_path, content, right)
    for area, of in (("all", later), ("oracle", later_right)):
        write(tmp_path / area, of)
    table, oracle = loaded(hourly("all"), *later), loaded(hourly("oracle"), *later)
    assert erase(table).tables["items"].windows == 4
    stays_erased(table, oracle, tmp_path, later, later_right, again="2026-01-03-01:00", erased=2)


def test_a_person_is_gone_from_a_compacted_log(tmp_path: Path, declared: Declare) -> None:
    content, right = both(CONTENT, as_it_is)
    options = {"log_retention": timedelta(days=30)}
    table, oracle = prepared(declared, tmp_path, content, right, **options)

    def compacted(until: int) -> int:
        load = table.context()
        at = datetime(2026, 1, until, tzinfo=UTC)
        return compact(load, at, lambda keys: {one: r.fingerprint for one, r in load.log.records().items()}).removed

    assert compacted(3) > 0
    erased = erase(table)
    assert erased.is_proven, [*erased.lines()]
    assert table.rows() == {row for row in oracle.rows() if row[0] != "c"}
    write(tmp_path / "all", {3: [*content[3], order("c", BERT, 41), LATE[0]]})
    write(tmp_path / "oracle", {3: [*right[3], order("c", BERT, 41)]})
    assert compacted(3) >= 0
    assert loaded(oracle, 3) and table.load(3).evidence.erased == 2
    assert compacted(4) >= 0
    assert erase(table).is_proven
    for number in (1, 2, 3):
        table.load(number)
    assert table.rows() == oracle.rows()
    assert remains(table.lake.root) == []
    write(tmp_path / "all", {1: [*content[1], *LATE]})
    write(tmp_path / "oracle", {1: [*right[1], LATE[1]]})
    loaded(oracle, 1)
    table.load(1, rewrite_compacted=True)
    assert table.rows() == oracle.rows()
    assert remains(table.lake.root) == []


BASE = [order("a", ANNA, 1, MARK), order("b", BERT, 2), order("c", ANNA, 3, MARK), order("f", BERT, 4)]


def adopted(table: Loaded, rows: Rows) -> Loaded:
    write_table(table, frame(table, rows), files=2)
    adopt(context(table))
    return table


def test_a_person_is_gone_from_the_rows_that_an_adopted_table_had(tmp_path: Path, declared: Declare) -> None:
    content, right = both({name: CONTENT[name] for name in (2, 3)}, as_it_is)
    for area, of in (("all", content), ("oracle", right)):
        write(tmp_path / area, of)
    table = loaded(adopted(declared("all"), BASE), 2, 3)
    oracle = loaded(adopted(declared("oracle"), without_anna(BASE)), 2, 3)
    assert erase(table).is_proven
    stays_erased(table, oracle, tmp_path, content, right, again=2, erased=4)


def test_rows_that_no_log_explains_are_gone_from_an_adopted_table_that_was_never_loaded(declared: Declare) -> None:
    table = adopted(declared("all"), BASE)
    table.written_by_another([("b2", f"foreign {MARK}", 9, ANNA, "open"), ("f", f"instead {MARK}", 9, ANNA, "open")])
    table.spark.sql(f"DELETE FROM {table.lake.sql_name(table.uri)} WHERE id = 'f' AND person = '{BERT}'").first()
    assert erase(table).is_proven
    assert table.rows("id", "person") == {("b", BERT), ("f", BERT)}
    assert remains(table.lake.root) == []


def test_a_person_is_gone_from_adopted_partitions_that_no_window_was_loaded_of(
    tmp_path: Path, declared: Declare
) -> None:
    def placed(rows: Rows, number: int) -> Rows:
        return each(rows, lambda row: row | {"day": day(number)})

    options: dict[str, Any] = {"contract": Placed, "write": Overwrite(partition_by="day"), "changes": Changes()}
    base = [*placed(BASE, 1), *placed(BASE, 2)]
    content = {2: placed(without_deletes(CONTENT[2]), 2)}
    right = {2: without_anna(content[2])}
    for area, of in (("all", content), ("oracle", right)):
        write(tmp_path / area, of)
    table = loaded(adopted(declared("all", **options), base), 2)
    oracle = loaded(adopted(declared("oracle", **options), without_anna(base)), 2)
    assert erase(table).is_proven
    stays_erased(table, oracle, tmp_path, content, right, again=2, late=placed([*LATE], 2), erased=4)
