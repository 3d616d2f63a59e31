"""Tables and logs that a changed contract has rewritten: undos, lifetimes and nested types are as before."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, Files, History, Merge, Quarantine
from incload_assets.change_log import rewrite
from incload_assets.change_log.commit import bare_fence
from incload_assets.change_log.payloads import payloads_read_at
from incload_assets.declaration.window import window_of
from incload_assets.history.contract_history import contract_history
from incload_assets.ingest import ingest as module
from incload_assets.load.replay import replay_window
from incload_assets.load.tables import ensure_tables
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.platform.errors import ConcurrentLoad
from tests.load.test_evolution import LONG, TEXT, WIDEN, model
from tests.support.tables import Loaded, day, make

INT = T.IntegerType()
SMALL = model(n=(T.IntegerType, {"lt": 5}))
PARTIAL: dict[str, Any] = {"write": Merge(partial=True)}
REWRITES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "wider type": ({}, {"contract": model(n=LONG), "evolution": WIDEN}),
    "column added to partial changes": (PARTIAL, {"contract": model(n=INT, more=TEXT), **PARTIAL}),
    "column added to a history of partial changes": (
        {"write": History(partial=True)},
        {"contract": model(n=INT, more=TEXT), "write": History(partial=True)},
    ),
}
Rewrite = tuple[dict[str, Any], dict[str, Any]]


class DailyFiles:
    """Tables of files of JSON, one a day."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder

    def deliver(self, number: int, *rows: dict[str, Any]) -> None:
        path = self.folder / "landing" / f"{day(number)}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps({"seq": number, **row}) + "\n" for row in rows))

    def table(self, contract: type, version: str, lake: str = "lake", **options: Any) -> Loaded:
        usual: dict[str, Any] = {
            "source": Files("{landing}/{window:%Y-%m-%d}.json"),
            "quarantine": Quarantine(max_share=0.9),
        }
        made = usual | {"contract": contract, "code_version": version} | options
        return make(self.spark, self.folder / lake, **made)


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DailyFiles:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    return DailyFiles(spark, tmp_path)


def ages(table: Loaded) -> dict[str, datetime]:
    log = table.lake.delta(table.lake.log_uri(["items"]))
    assert log is not None
    return payloads_read_at(log, [day(1)])


@pytest.mark.parametrize("change", REWRITES.values(), ids=REWRITES)
def test_a_landing_that_rows_were_added_to_can_be_undone_after_its_log_is_rewritten(
    files: DailyFiles, change: Rewrite
) -> None:
    was, now = change
    files.deliver(1, {"id": "a", "n": 1}, {"id": "b", "n": 5})
    files.deliver(2, {"id": "c", "n": 5})
    files.table(SMALL, "1", **was).load(1)
    loose = files.table(model(n=INT), "2", **was)
    window = window_of(loose.table.partitions_def, day(1))
    replay_window(loose.context(), window)  # the file of a stays where it is
    assert loose.rows("id") == {("a",), ("b",)}
    after = files.table(version="3", **now)
    after.load(2)
    undo_window(after.context(), window, Undo("2", because="a test"))
    assert after.rows("id") == {("a",), ("c",)}


@pytest.mark.parametrize("change", REWRITES.values(), ids=REWRITES)
def test_a_log_that_is_rewritten_keeps_its_payloads_no_longer(files: DailyFiles, change: Rewrite) -> None:
    was, now = change
    files.deliver(1, {"id": "a", "n": 1}, {"id": "b", "n": "many"})
    before = files.table(SMALL, "1", **was)
    before.load(1)
    read_at, rows = ages(before), before.log("rejected", "id", "_payload")
    after = files.table(version="2", **now)
    ensure_tables(after.context())
    assert ages(after) == read_at
    assert after.log("rejected", "id", "_payload") == rows


def test_a_change_that_leaves_a_new_column_unset_is_not_added_while_the_others_are_marked(
    files: DailyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.deliver(1, {"id": "a", "n": 1})
    files.table(SMALL, "1", **PARTIAL).load(1)
    more = files.table(model(n=INT, more=TEXT), "2", **PARTIAL)
    load, write = more.context(), rewrite.write_parquet

    def write_late(*arguments: Any) -> None:
        write(*arguments)
        bare_fence(load, "another load")

    monkeypatch.setattr(rewrite, "write_parquet", write_late)
    with pytest.raises(ConcurrentLoad, match="while more was marked as a new column"):
        ensure_tables(load)
    monkeypatch.undo()


NARROW = {
    "t": T.ByteType(),
    "whole": INT,
    "cents": T.DecimalType(5, 2),
    "many": T.ArrayType(INT),
    "by": T.MapType(INT, INT),
    "part": T.StructType().add("a", INT).add("b", TEXT),
    "parts": T.ArrayType(T.StructType().add("a", T.DecimalType(5, 2)).add("b", TEXT)),
}
WIDE = {
    "t": INT,
    "whole": T.DecimalType(20, 0),
    "cents": T.DecimalType(22, 2),
    "many": T.ArrayType(LONG),
    "by": T.MapType(LONG, LONG),
    "part": T.StructType().add("a", LONG).add("b", TEXT),
    "parts": T.ArrayType(T.StructType().add("a", T.DecimalType(22, 2)).add("b", TEXT)),
}


def nested(key: str, n: int, **more: Any) -> dict[str, Any]:
    parts = {"part": {"a": n, "b": "x"}, "parts": [{"a": f"{n}.50", "b": "y"}]}
    return {"id": key, "t": n, "whole": n, "cents": f"{n}.25", "many": [n, None], "by": {str(n): n}, **parts, **more}


@pytest.mark.parametrize(
    "options", [{"write": Merge()}, {"write": Append(), "changes": Changes()}], ids=["keys", "no keys"]
)
def test_a_table_whose_nested_types_become_wider_is_what_a_fresh_one_is(
    files: DailyFiles, options: dict[str, Any]
) -> None:
    def content(table: Loaded) -> list[Any]:
        delta = table.lake.delta(table.uri)
        assert delta is not None
        return sorted(delta.to_pyarrow_table(columns=list(table.table.columns)).to_pylist(), key=repr)

    files.deliver(1, nested("a", 1), nested("b", 2), nested("c", 3))
    files.table(model(**NARROW), "1", **options).load(1)
    files.deliver(1, nested("a", 1), nested("b", 3))
    files.deliver(2, nested("b", 2), nested("d", 4))
    wide = files.table(model(**WIDE), "2", evolution=WIDEN, **options)
    fresh = files.table(model(**WIDE), "2", lake="fresh", **options)
    for table in (wide, fresh):
        table.load(2)
        assert table.load(1).evidence.pending == 0
    assert content(wide) == content(fresh)
    assert wide.log("upsert", "id", "_hash", "_window") == fresh.log("upsert", "id", "_hash", "_window")


def test_a_member_is_widened_where_others_are_added_or_declared_in_another_order(files: DailyFiles) -> None:
    def part(*members: tuple[str, T.DataType]) -> T.StructType:
        return T.StructType([T.StructField(name, kind) for name, kind in members])

    files.deliver(1, {"id": "a", "part": {"a": 1, "b": "x"}})
    files.deliver(2, {"id": "b", "part": {"a": 5_000_000_000, "b": "y", "c": "z"}})
    files.table(model(part=part(("a", INT), ("b", TEXT))), "1").load(1)
    wide = files.table(model(part=part(("c", TEXT), ("b", TEXT), ("a", LONG))), "2", evolution=WIDEN)
    wide.load(2)
    rows = wide.spark.read.format("delta").load(wide.uri).selectExpr("id", "part.a", "part.b", "part.c")
    assert {tuple(row) for row in rows.collect()} == {("a", 1, "x", None), ("b", 5_000_000_000, "y", "z")}


def test_code_without_a_column_leaves_it_unset_in_partial_changes(files: DailyFiles) -> None:
    def former() -> Loaded:
        return files.table(model(n=INT), "1", **PARTIAL)

    def present() -> Loaded:
        return files.table(model(n=INT, more=TEXT), "2", **PARTIAL)

    for number in (1, 2, 3):
        files.deliver(number, {"id": "a", "n": number} | ({"more": "m"} if number == 1 else {}))
    present().load(1)
    former().load(2)
    assert present().rows("id", "n", "more") == {("a", 2, "m")}
    present().load(3)
    assert present().rows("id", "n", "more") == {("a", 3, "m")}


def test_partial_changes_that_were_staged_before_a_column_was_added_are_staged_again(
    files: DailyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.deliver(1, {"id": "a", "n": 1, "more": "m"})
    files.deliver(2, {"id": "a", "n": 2})
    files.deliver(3, {"id": "b", "n": 3})
    former = files.table(model(n=INT), "1", **PARTIAL)
    former.load(3)
    present, commit = files.table(model(n=INT, more=TEXT), "2", **PARTIAL), module.commit

    def commit_late(*arguments: Any, **options: Any) -> bool:
        monkeypatch.setattr(module, "commit", commit)
        present.load(1)
        return commit(*arguments, **options)

    monkeypatch.setattr(module, "commit", commit_late)
    former.load(2)
    present.load(3)
    present.load(1)
    assert ("a", "m") in present.rows("id", "more")
    assert present.log("upsert", "id", "n", "_unset") == [("a", 1, []), ("a", 2, ["more"]), ("b", 3, ["more"])]


def test_the_history_of_a_contract_tells_types_that_loads_have_widened(files: DailyFiles) -> None:
    files.deliver(1, {"id": "a", "n": 1})
    narrow, wide = files.table(SMALL, "1"), files.table(model(n=LONG), "2", evolution=WIDEN)
    narrow.load(1)
    ensure_tables(wide.context())
    told = [(one.place, one.what) for one in contract_history(wide.table, wide.lake) if one.did == "WRITE"]
    assert sorted(told) == [(place, "type widened: n int → bigint") for place in ("log", "table")]
