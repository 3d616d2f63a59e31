"""A proof holds as long as Delta's logs say that nobody has touched what it is about."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, History, Merge
from incload_assets.declaration.write import Write
from incload_assets.load.load import LoadReport
from incload_assets.load.proven import Proof
from incload_assets.platform.errors import ReconciliationFailed
from incload_assets.writes.merge_into import bare_merge_fence
from tests.support.tables import DatedItem, Loaded, by_hand, day, item, make

SHOWN = {
    "keys": 1, "pending": 0, "present": 1, "log_hash": "0x1", "table_hash": "0xffffffffffffffff",
    "table": [1, "a"], "log": [1, "b"],
}  # fmt: skip
"""What metadata shows of a proof."""


def table_of_two_days(spark: SparkSession, folder: Path, write: Merge | None = None) -> Loaded:
    content = {day(n): [item(f"{n}a", "x", n, day=day(n)), item(f"{n}b", "y", n, day=day(n))] for n in (1, 2)}
    write = Merge(partition_by="day") if write is None else write
    table = make(spark, folder, content, contract=DatedItem, write=write)
    table.load(2)
    return table


def was_compared(report: LoadReport) -> bool:
    """A load that compares has a plan, which counts as part of its merge."""
    return "merge" in report.seconds


def others_load(table: Loaded) -> None:
    table.content[day(2)] += [item("2c", "z", 3, day=day(2))]
    table.load(2)


def is_optimized(table: Loaded) -> None:
    table.spark.sql(f"OPTIMIZE {table.lake.sql_name(table.uri)}")


def fence_moves(table: Loaded) -> None:
    bare_merge_fence(table.context(), "items/range 1")


def nothing_happens(_: Loaded) -> None:
    pass


@pytest.mark.parametrize("what", [nothing_happens, others_load, is_optimized, fence_moves])
def test_a_window_that_nobody_touched_since_its_proof_is_not_compared_again(
    spark: SparkSession, tmp_path: Path, what: Callable[[Loaded], None]
) -> None:
    table = table_of_two_days(spark, tmp_path)
    first = table.load(1)
    table.content[day(1)] += [item("1c", "z", 2, day=day(1)), item("1a", "old", 0, day=day(1))]
    second = table.load(1)
    what(table)
    third = table.replay(second)
    assert was_compared(first) and was_compared(second) and not was_compared(third)
    assert third.evidence == second.evidence and third.evidence.rows_read == 4
    assert (third.ingested, third.committed) == (False, False)
    assert third.table_version == table.versions()[table.uri]
    others_load(table)
    assert not was_compared(table.replay(third)), "the proof is renewed with each look"


def same_partition_is_loaded(table: Loaded) -> None:
    table.content[day(3)] = [item("1d", "late", 3, day=day(1))]
    table.load(3)


def table_is_altered(table: Loaded) -> None:
    table.spark.sql(f"ALTER TABLE {table.lake.sql_name(table.uri)} SET TBLPROPERTIES ('a' = 'b')")


def copy_takes_its_place(table: Loaded) -> None:
    """A copy of before the load, which others have loaded since, so that its versions have the same numbers."""
    shutil.rmtree(table.uri)
    shutil.copytree(f"{table.uri}_copy", table.uri)
    others_load(table)


TOUCHED = {
    "a row is deleted": by_hand("DELETE FROM {} WHERE id = '1a'"),
    "a row is changed": by_hand("UPDATE {} SET value = 'edited' WHERE id = '1a'"),
    "a row of another partition is deleted": by_hand("DELETE FROM {} WHERE id = '2a'"),
    "the same partition is loaded": same_partition_is_loaded,
    "the table is altered": table_is_altered,
    "a copy takes its place": copy_takes_its_place,
}


@pytest.mark.parametrize("what", TOUCHED)
def test_a_window_that_somebody_may_have_touched_is_compared_and_repaired(
    spark: SparkSession, tmp_path: Path, what: str
) -> None:
    table = table_of_two_days(spark, tmp_path)
    shutil.copytree(table.uri, f"{table.uri}_copy")
    report = table.load(1)
    expected = table.rows()
    TOUCHED[what](table)
    again = table.replay(report)
    assert was_compared(again)
    left_out = {row for row in expected if row[0] == "2a" and "another" in what}
    assert table.rows() >= expected - left_out
    assert not was_compared(table.replay(again))


def test_a_window_that_lacks_a_row_of_its_log_is_compared(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of_two_days(spark, tmp_path)
    report = table.load(1)
    by_hand("DELETE FROM {} WHERE id = '1a' AND _kind = 'upsert'", of_log=True)(table)
    with pytest.raises(ReconciliationFailed, match="each row read falls in exactly one bin"):
        table.replay(report)


@pytest.mark.parametrize(("damage", "told"), [(Path.unlink, "PATH_NOT_FOUND"), (Path.touch, "Parquet|Footer|READ")])
def test_a_window_whose_data_file_is_gone_or_damaged_is_compared(
    spark: SparkSession, tmp_path: Path, damage: Callable[[Path], None], told: str
) -> None:
    table = table_of_two_days(spark, tmp_path)
    report = table.load(1)
    for file in Path(table.uri).glob("day=2026-01-01/*.parquet"):
        file.unlink()
        file.touch()
        damage(file)
    with pytest.raises(PySparkException, match=told):
        table.replay(report)


@pytest.mark.parametrize(
    "write", [History(), Merge(buckets=16), Append(partition_by="day")], ids=["history", "many buckets", "append"]
)
def test_the_proof_of_any_kind_of_table_holds(spark: SparkSession, tmp_path: Path, write: Write) -> None:
    content = {day(1): [item(str(n), "x", n, day=day(1)) for n in range(60)]}
    changes = Changes(keys=["id"], sequence_by=["seq"])
    table = make(spark, tmp_path, content, contract=DatedItem, write=write, changes=changes)
    report = table.load(1)
    assert was_compared(report)
    again = table.replay(report)
    assert not was_compared(again) and again.evidence == report.evidence


@pytest.mark.parametrize(
    "proof", [None, "all is well", ["keys"], {}, {**SHOWN, "table": None}, {**SHOWN, "log_hash": "none"}]
)
def test_what_is_no_proof_of_a_load_is_none(proof: object) -> None:
    assert Proof.shown_in({"rows_read": 1, "proof": SHOWN}) is not None
    assert Proof.shown_in({"rows_read": 1, "proof": proof}) is None
    assert Proof.shown_in({"rows_read": None, "proof": SHOWN}) is None


@pytest.mark.parametrize("write", [Merge(), Merge(buckets=4)], ids=["no buckets", "buckets"])
def test_a_table_by_key_is_compared_once_another_load_has_touched_the_same_place(
    spark: SparkSession, tmp_path: Path, write: Merge
) -> None:
    table = table_of_two_days(spark, tmp_path, write)
    report = table.load(1)
    assert not was_compared(table.replay(report))
    others_load(table)
    fence_moves(table)
    if write.buckets is None:
        assert was_compared(table.replay(report))
    table.spark.sql(f"DELETE FROM {table.lake.sql_name(table.uri)} WHERE id LIKE '1%'")
    assert was_compared(table.replay(report))
    assert {row[0] for row in table.rows()} == {"1a", "1b", "2a", "2b", "2c"}
