"""What a landing writes is seen by nobody before its commit, and is gone where there is none."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Quarantine
from incload_assets.change_log.staged import FOLDER
from incload_assets.ingest import ingest as landing
from incload_assets.ingest.facts import Facts
from incload_assets.platform.errors import ContractViolation
from tests.support.tables import DatedItem, GoodItem, Loaded, day, item, make


def landed_files(table: Loaded) -> set[Path]:
    return set((Path(table.lake.log_uri(table.table.key.path)) / FOLDER).rglob("*.parquet"))


def named_files(table: Loaded) -> set[Path]:
    delta = table.lake.delta(table.lake.log_uri(table.table.key.path))
    assert delta is not None
    return {Path(uri) for uri in delta.file_uris()}


def test_a_landing_that_the_contract_stops_leaves_no_file_behind(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("1", "good", 1), item("2", "bad", 1)]}
    table = make(spark, tmp_path, content, contract=GoodItem, quarantine=Quarantine(max_share=0))
    with pytest.raises(ContractViolation):
        table.load(1)
    assert landed_files(table) == set()
    table.content[day(1)] = [item("1", "good", 1)]
    table.load(1)
    assert landed_files(table) == named_files(table)


def test_a_window_that_is_landed_again_has_its_rows_and_those_that_it_takes_away_in_one_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(spark, tmp_path, {day(1): [item("1", "a", 5), item("2", "a", 5), item("3", "a", 5)]})
    table.load(1)
    version = table.lake.version(table.lake.log_uri(["items"]))
    table.content[day(1)] = [item("1", "newer", 6), item("2", "older", 4)]
    table.load(1)
    assert table.rows() == {("1", "newer", 6), ("2", "older", 4)}
    assert table.log("replaced", "id") == [("2",), ("3",)], "a newer change of the window needs no marker"
    assert table.lake.version(table.lake.log_uri(["items"])) == (version or 0) + 1


def test_facts_that_a_repeated_task_has_counted_twice_are_counted_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    believed: list[dict[str, Facts]] = []
    facts = landing._facts

    def doubled(staged: Any, table: Any, of: Any, seen: Any) -> dict[str, Facts]:
        twice = {name: 2 * value if isinstance(value, int) else value for name, value in seen.get.items()}
        believed.append(facts(staged, table, of, SimpleNamespace(get=twice)))
        return believed[-1]

    monkeypatch.setattr(landing, "_facts", doubled)
    content = {day(1): [item("1", "good", 1), item("2", "bad", 1)]}
    make(spark, tmp_path, content, contract=GoodItem, quarantine=Quarantine(max_share=1)).load(1)
    assert (believed[0][day(1)].rows, believed[0][day(1)].rejected) == (2, 1)


def test_observed_facts_are_those_that_are_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both: list[tuple[dict[str, Facts], dict[str, Facts]]] = []
    facts = landing._facts

    def compared(staged: Any, table: Any, of: Any, seen: Any) -> dict[str, Facts]:
        both.append((facts(staged, table, of, seen), facts(staged, table, of, SimpleNamespace(get={}))))
        return both[-1][0]

    monkeypatch.setattr(landing, "_facts", compared)
    content = {
        day(1): [item("1", "a", 10, day=day(1)), item("2", "b", 9, day=day(2)), item("3", None, 8, "d", day=day(1))],
        day(2): [item("1", "b", None, day=day(1))],
        day(3): [],
    }
    table = make(spark, tmp_path, content, contract=DatedItem)
    for number in (1, 2, 3):
        table.load(number)
    assert all(observed == counted for observed, counted in both)
    assert [observed[day(n)].first_sequence for n, (observed, _) in enumerate(both, 1)] == ["8", None, None]
