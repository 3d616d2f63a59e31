"""FullReload, sentence by sentence, on literal rows."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, FullReload, Quarantine
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.window import window_of
from incload_assets.platform.errors import ContractViolation, DeclarationError
from incload_assets.writes.merge_into import app_id
from tests.load.test_load import bins
from tests.support.tables import GoodItem, Loaded, day, item, make
from tests.writes.case_full_reload import held


def declared(spark: SparkSession, folder: Path, content: dict[str, Any], **options: Any) -> Loaded:
    return make(spark, folder, content, **({"write": FullReload(), "changes": Changes()} | options))


def test_the_newest_window_is_the_table_and_an_older_one_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(1): [item("1", "a", 1), item("2", None, None)],
        day(2): [item("1", "b", 0), item("1", "b", 0), item(" ", "c", None)],
    }
    table = declared(spark, tmp_path, content)
    report = table.load(2)
    assert bins(report.evidence) == (3, 0, 0, 0)
    files, expected = table.files(), {(("1", "b", 0), 2), ((" ", "c", None), 1)}
    assert held(table) == expected
    assert bins(table.load(1).evidence) == (0, 2, 0, 0)
    assert (table.files(), held(table)) == (files, expected)
    content[day(2)] = [*reversed(content[day(2)])]
    assert table.load(2).ingested
    assert (table.files(), held(table)) == (files, expected)
    content[day(2)] = content[day(2)][:2]
    merged = table.load(2).merged
    assert (merged.inserted, merged.updated, merged.deleted) == (0, 0, 1)
    assert held(table) == {(("1", "b", 0), 1), ((" ", "c", None), 1)}


def test_a_suddenly_small_extract_stops_before_it_replaces_anything(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item(str(n), "a", 1) for n in range(4)], day(2): [item("0", "a", 1)], day(3): []}
    table = declared(spark, tmp_path, content)
    table.load(1)
    full = held(table)
    with pytest.raises(
        ContractViolation,
        match="items 2026-01-02: the extract has 1 acceptable rows, the extract before it, 2026-01-01, had 4. Rule: it "
        r"may lack at most 50% of them \(max_shrink\); nothing was replaced. Remedy: .*FullReload\(max_shrink=1.0\)",
    ):
        table.load(2)
    with pytest.raises(ContractViolation, match=r"2026-01-03: the extract has 0 acceptable rows.*had 4"):
        table.load(3)
    assert held(table) == full
    assert sorted(table.log("control", "_window")) == [(day(1),)]
    content[day(1)] = []
    with pytest.raises(ContractViolation, match="the extract has 0 acceptable rows, the window had 4"):
        table.load(1)
    anything = declared(spark, tmp_path, content, write=FullReload(max_shrink=1.0))
    anything.load(3)
    assert held(anything) == set()


def test_rows_that_are_quarantined_do_not_make_an_extract_large(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(1): [item(str(n), "a", 1) for n in range(4)],
        day(2): [item("0", "a", 1), *(item(str(n), "bad", 1) for n in range(1, 4))],
    }
    table = declared(spark, tmp_path, content, contract=GoodItem, quarantine=Quarantine(max_share=1.0))
    table.load(1)
    with pytest.raises(ContractViolation, match=r"the extract has 1 acceptable rows, .* had 4. Rule: "):
        table.load(2)
    assert len(held(table)) == 4


def test_an_empty_extract_is_fine_as_long_as_there_is_nothing_to_lose(spark: SparkSession, tmp_path: Path) -> None:
    table = declared(spark, tmp_path, {day(1): [], day(2): [item("1", "a", 1)]})
    report = table.load(1)
    assert (held(table), report.committed, bins(report.evidence)) == (set(), True, (0, 0, 0, 0))
    table.load(2)
    assert held(table) == {(("1", "a", 1), 1)}


def test_a_table_that_had_rows_before_its_first_load_is_guarded_too(spark: SparkSession, tmp_path: Path) -> None:
    table = declared(spark, tmp_path, {day(1): []})
    table.written_by_another([("1", "a", 1)])
    with pytest.raises(ContractViolation, match="the extract has 0 acceptable rows, the table had 1"):
        table.load(1)


def test_a_load_of_an_older_window_repairs_what_the_newest_one_says(spark: SparkSession, tmp_path: Path) -> None:
    table = declared(spark, tmp_path, {day(1): [item("1", "old", 1)], day(2): [item("1", "new", 2)]})
    table.load(1)
    table.load(2)
    table.lake.delta(table.uri).delete()  # type: ignore[union-attr]
    table.load(1)
    assert held(table) == {(("1", "new", 2), 1)}


def test_a_forgotten_load_of_an_older_window_cannot_bring_its_rows_back(spark: SparkSession, tmp_path: Path) -> None:
    table = declared(spark, tmp_path, {day(1): [item("1", "old", 1)], day(2): [item("1", "new", 2)]})
    table.load(1)
    context, write = LoadContext(spark, table.table, table.lake), table.table.write
    window = window_of(table.table.partitions_def, day(1))
    table.lake.delta(table.uri).delete()  # type: ignore[union-attr] # so that the load has something to write
    at = context.read_view((window,), app_id(table.table, window))
    forgotten = write.plan(context, at, full=True)
    table.load(2)
    assert write.apply(context, at, forgotten) is None
    assert held(table) == {(("1", "new", 2), 1)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"write": FullReload(max_shrink=1.5)},
            "items: write.max_shrink is 1.5. Rule: .*from 0 to 1. Remedy: write max",
        ),
        ({"changes": Changes(delete_when="op = 'd'")}, "changes.delete_when.*FullReload does not support deletes"),
    ],
)
def test_declarations_that_cannot_work_are_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DeclarationError, match=message):
        declared(spark, tmp_path, {}, **options)
