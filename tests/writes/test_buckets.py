"""Hash buckets: a load reads and rewrites only those that its changes fall into."""

from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, History, Merge
from incload_assets.declaration.write import BUCKET, Write
from incload_assets.platform.errors import DeclarationError, SchemaMismatch
from incload_assets.sources.upstream.references import rows_at
from incload_assets.sources.upstream.state import UpstreamTable
from tests.support.tables import Loaded, day, item, make

KEYS = [f"key {n}" for n in range(12)]
TRUNCATED = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'", truncate_when="op = 't'")
WAYS = {
    "merge": Merge(buckets=8),
    "soft delete": Merge(buckets=8, soft_delete="is_deleted"),
    "partial": Merge(buckets=8, partial=True),
    "history": History(buckets=8),
    "partial history": History(buckets=8, partial=True),
}


class Measured(pa.DataFrameModel):
    """A key of two columns, one of them a float."""

    id: T.StringType = pa.Field(nullable=False)
    size: T.DoubleType = pa.Field(nullable=False)
    seq: T.LongType = pa.Field(nullable=True)


def bucket_of(table: Loaded) -> dict[str, int]:
    """By key."""
    found = {row[:2] for row in table.rows("id", BUCKET, "seq")}
    assert len(found) == len(dict(found)), "every version of a key is in its bucket"
    return dict(found)


def in_bucket(table: Loaded, number: int) -> set[str]:
    return {file for file in table.files() if f"{BUCKET}={number}/" in file}


@pytest.mark.parametrize("write", WAYS.values(), ids=WAYS)
def test_a_load_reads_and_rewrites_only_the_buckets_of_its_keys(
    spark: SparkSession, tmp_path: Path, write: Write
) -> None:
    """Files that are gone cannot be read: so the load that succeeds has not tried."""
    table = make(spark, tmp_path, {day(1): [item(key, "old", 1) for key in KEYS]}, write=write)
    table.load(1)
    placed = bucket_of(table)
    assert len(set(placed.values())) > 2
    assert all(0 <= bucket < 8 for bucket in placed.values())
    touched = placed[KEYS[0]]
    others = {file for number in set(placed.values()) - {touched} for file in in_bucket(table, number)}
    assert others == table.files() - in_bucket(table, touched)
    for file in others:
        Path(file).rename(f"{file}.gone")
    table.content[day(2)] = [item(KEYS[0], "new", 2), item(KEYS[0], "between", 1)]
    report = table.load(2)
    for file in others:
        Path(f"{file}.gone").rename(file)
    assert report.record.partitions == [str(touched)]
    assert others < table.files()
    table.content[day(3)] = [item(KEYS[0], None, 3, "d"), *(item(key, "newer", 3) for key in KEYS[6:])]
    table.load(3)
    assert bucket_of(table).items() <= placed.items(), "a key stays in its bucket"
    assert table.rows("id", "value") >= {(key, "newer") for key in KEYS[6:]}


def test_a_truncate_and_its_taking_back_concern_every_bucket(spark: SparkSession, tmp_path: Path) -> None:
    rows = [item(key, "old", 1) for key in KEYS]
    table = make(spark, tmp_path, {day(1): rows}, write=Merge(buckets=4), changes=TRUNCATED)
    table.load(1)
    before = table.rows()
    table.content[day(2)] = [item(None, None, 2, "t"), item(KEYS[0], "new", 3)]
    assert table.load(2).record.partitions is None
    assert table.rows("id", "value") == {(KEYS[0], "new")}
    table.content[day(2)] = []
    assert table.load(2).record.partitions is None
    assert table.rows() == before


def test_a_snapshot_concerns_every_bucket(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item(key, "old", 1) for key in KEYS], day(2): [item(KEYS[0], "new", 2, "s")]}
    taken = Changes(keys=["id"], sequence_by=["seq"], snapshot_when="op = 's'")
    table = make(spark, tmp_path, content, write=Merge(buckets=4, max_shrink=1.0), changes=taken)
    table.load(1)
    table.load(2)
    assert table.rows("id", "value") == {(KEYS[0], "new")}


def test_a_window_that_brings_nothing_touches_no_bucket(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path, {day(1): [item("1", "a", 1)], day(2): []}, write=History(buckets=2))
    table.load(1)
    report = table.load(2)
    assert (report.record.partitions, report.evidence.keys) == ([], 0)
    assert table.rows("id", "value") == {("1", "a")}


def test_the_number_of_buckets_of_a_table_stays(spark: SparkSession, tmp_path: Path) -> None:
    """Rows would be looked for where they are not."""
    content = {day(1): [item("1", "a", 1)]}
    make(spark, tmp_path, content, write=Merge(buckets=2)).load(1)
    with pytest.raises(SchemaMismatch, match=r"has .*incload.buckets 2, declared is .*incload.buckets 3"):
        make(spark, tmp_path, content, write=Merge(buckets=3)).load(1)
    with pytest.raises(SchemaMismatch, match=r"is partitioned by \['_bucket'\], declared is \[\]"):
        make(spark, tmp_path, content, write=Merge()).load(1)


def test_the_number_of_buckets_does_not_make_rows_be_validated_again() -> None:
    assert repr(Merge(buckets=2)) == repr(Merge())


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"write": Append(buckets=2)}, "write.buckets is 2, but Append has none"),
        ({"write": Merge(buckets=1)}, "write.buckets is 1. .*from 2 to 1000"),
        ({"write": History(buckets=True)}, "write.buckets is True. "),
        ({"write": Merge(buckets=2, partition_by="value")}, "write.buckets is 2 and write.partition_by is 'value'"),
        (
            {"write": Merge(buckets=2), "contract": Measured, "keys": ["id", "size"]},
            "write.buckets is 2, and the key 'size' is of type double",
        ),
    ],
)
def test_buckets_that_cannot_be_are_refused(tmp_path: Path, declared: dict[str, Any], problem: str) -> None:
    with pytest.raises(DeclarationError, match=f"^items: {problem}"):
        make(None, tmp_path, **declared)  # type: ignore[arg-type]


def test_what_is_derived_from_a_table_sees_no_buckets(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path, {day(1): [item("a", "v", 1)]}, write=Merge(buckets=8))
    table.load(1)
    upstream = UpstreamTable(name="items", path=tuple(table.table.key.path))
    assert rows_at(spark, table.lake, upstream, table.lake.version(table.uri) or 0).columns == ["id", "value", "seq"]
