"""Types that get wider: table and log are rewritten once, and go on as if they had always had the wider type."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Evolution, Files, Merge, Quarantine
from incload_assets.change_log.context import LoadContext
from incload_assets.contract.adaptation import Stored
from incload_assets.declaration.contract_of import adaptation_of, stored_as
from incload_assets.declaration.window import window_of
from incload_assets.delta import tables
from incload_assets.delta.tables import ensure_table
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.platform.errors import ConcurrentLoad, ContractViolation, SchemaMismatch
from incload_assets.trial.literal_source import Record
from tests.support.tables import Item, Loaded, day, item, make
from tests.writes.case import SEED, Case, crowds, hashes_of
from tests.writes.cases import CASES
from tests.writes.test_conformance import light

WIDEN = Evolution(widen="apply")


def narrowed(contract: type) -> type:
    """The same contract with a narrower sequence."""
    field = pa.Field(nullable=True)
    return type("Narrow", (contract,), {"__annotations__": {"seq": T.IntegerType}, "seq": field})


NarrowItem = narrowed(Item)


def types_of(table: Loaded) -> set[str]:
    found = set()
    for uri in (table.uri, table.lake.log_uri(table.table.key.path)):
        delta = table.lake.delta(uri)
        assert delta is not None
        found |= {str(field.type.type) for field in delta.schema().fields if field.name == "seq"}
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@seed(SEED)
@light
@given(data=st.data())
def test_a_table_whose_sequence_becomes_wider_is_what_its_changes_make(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, case: Case, data: st.DataObject
) -> None:
    contents = crowds() if case.contents is None else case.contents
    held, rewritten = data.draw(contents), data.draw(contents)
    first, second, *others = data.draw(st.permutations(sorted(held)))
    content: dict[str, list[Record]] = dict(held)
    options: dict[str, Any] = case.declared | {"quarantine": Quarantine(max_share=1.0), "evolution": WIDEN}
    folder = tmp_path_factory.mktemp("widened")
    narrow = make(spark, folder, content, **options | {"contract": narrowed(case.contract)})
    for window in (first, second):
        narrow.load(window)
    assert types_of(narrow) == {"integer"}
    wide, loaded = make(spark, folder, content, **options), {key: held[key] for key in (first, second)}
    for window, records in [(others[0], held[others[0]]), (first, rewritten[first])]:
        content[window] = records
        wide.load(window)
        loaded[window] = records
        assert case.held(wide) == case.right(wide, loaded, hashes_of(wide))
    assert types_of(wide) == {"long"}
    with pytest.raises(SchemaMismatch, match="a load does not change the type"):
        narrow.load(others[1])


def test_what_was_before_can_be_undone_and_is_reconciled_in_the_wider_type(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("a", "x", 1), item("b", "x", 1)]}
    narrow = make(spark, tmp_path, content, contract=NarrowItem, write=Merge())
    narrow.load(1)
    content[day(1)] = [item("a", "y", 2)]
    narrow.load(1)
    wide = make(spark, tmp_path, content, evolution=WIDEN)
    content[day(2)] = [item("c", "z", 5_000_000_000)]
    wide.load(2)
    assert wide.rows() == {("a", "y", 2), ("c", "z", 5_000_000_000)}
    undo_window(
        LoadContext(spark, wide.table, wide.lake),
        window_of(wide.table.partitions_def, day(1)),
        Undo("2", because="a test"),
    )
    assert wide.rows() == {("a", "x", 1), ("b", "x", 1), ("c", "z", 5_000_000_000)}
    assert wide.load(2).evidence.pending == 0


def test_a_load_that_was_killed_between_table_and_log_is_completed_by_the_next_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [item("a", "x", 1)], day(2): [item("b", "x", 2)]}
    make(spark, tmp_path, content, contract=NarrowItem).load(1)
    wide = make(spark, tmp_path, content, evolution=WIDEN)
    stored, adaptation = stored_as(wide.table), adaptation_of(wide.table)
    ensure_table(
        spark, wide.lake, wide.uri, Stored(stored.columns, stored.partitioned_by), "items", adaptation=adaptation
    )
    assert types_of(wide) == {"integer", "long"}
    assert wide.load(2).evidence.pending == 0
    assert (types_of(wide), wide.rows("id")) == ({"long"}, {("a",), ("b",)})


def test_rows_that_others_write_while_a_table_is_widened_are_neither_lost_nor_doubled(
    spark: SparkSession, tmp_path: Path
) -> None:
    make(spark, tmp_path, {day(1): [item(str(n), "x", n) for n in range(50)]}, contract=NarrowItem).load(1)
    wide = make(spark, tmp_path, evolution=WIDEN)
    stored, adaptation = stored_as(wide.table), adaptation_of(wide.table)
    rows = T.StructType.fromJson(stored.columns.jsonValue())
    rows["seq"].dataType = T.IntegerType()

    def append(number: int) -> None:
        frame = spark.createDataFrame([(f"other {number}", "x", number)], rows)
        frame.write.format("delta").mode("append").option("mergeSchema", "false").save(wide.uri)

    def widen() -> bool:
        try:
            ensure_table(spark, wide.lake, wide.uri, Stored(stored.columns), "items", adaptation=adaptation)
        except ConcurrentLoad:
            return False
        return True

    with ThreadPoolExecutor(3) as pool:
        appended = [pool.submit(append, number) for number in range(12)]
        assert any(pool.submit(widen).result() for _ in range(10))
        written = {number for number, one in enumerate(appended) if one.exception() is None}
    assert wide.rows("id") == {(str(n),) for n in range(50)} | {(f"other {number}",) for number in written}
    assert types_of(wide) == {"integer", "long"}  # the log is not widened here


def test_a_row_that_comes_between_the_look_at_a_table_and_its_rewrite_stays(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = make(spark, tmp_path, {day(1): [item("a", "x", 1)]}, contract=NarrowItem)
    narrow.load(1)
    wide = make(spark, tmp_path, evolution=WIDEN)
    stored = stored_as(wide.table)
    check = tables.check_table

    def check_late(*arguments: Any, **options: Any) -> None:
        check(*arguments, **options)
        frame = spark.createDataFrame([("late", "x", 2)], narrow.table.schema)
        frame.write.format("delta").mode("append").save(wide.uri)

    monkeypatch.setattr(tables, "check_table", check_late)
    ensure_table(spark, wide.lake, wide.uri, Stored(stored.columns), "items", adaptation=adaptation_of(wide.table))
    assert wide.rows("id") == {("a",), ("late",)}


def test_fields_outside_the_contract_stop_a_load_where_that_is_declared(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path))
    (tmp_path / f"{day(1)}.json").write_text('{"id": "a", "seq": 1, "extra": "v"}\n{"id": "b", "seq": 1}\n')
    (tmp_path / f"{day(2)}.json").write_text('{"id": "c", "seq": 1}\n')
    source, changes = Files("{landing}/{window:%Y-%m-%d}.json"), Changes(keys=["id"], sequence_by=["seq"])
    table = make(spark, tmp_path / "lake", source=source, changes=changes, evolution=Evolution(unknown="stop"))
    told = r"Item does not declare: 'extra' in 1 row \(first in 2026-01-01\)\. Rule:"
    with pytest.raises(ContractViolation, match=told):
        table.load(1)
    table.load(2)
    assert table.rows("id") == {("c",)}


def test_ignored_fields_stop_no_load(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path))
    file = tmp_path / f"{day(1)}.json"
    file.write_text('{"id": "a", "seq": 1, "utm_a": "v"}\n{"id": "b", "seq": 1, "extra": 1}\n')
    source, changes = Files("{landing}/{window:%Y-%m-%d}.json"), Changes(keys=["id"], sequence_by=["seq"])
    evolution = Evolution(unknown="stop", ignore=["utm_*"])
    table = make(spark, tmp_path / "lake", source=source, changes=changes, evolution=evolution)
    with pytest.raises(ContractViolation, match=r"does not declare: 'extra' in 1 row \(first in 2026-01-01\)\. Rule:"):
        table.load(1)
    file.write_text('{"id": "a", "seq": 1, "utm_a": "v"}\n')
    table.load(1)
    assert table.log("upsert", "_rescued") == [('{"utm_a":"v"}',)]
