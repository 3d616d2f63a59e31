"""What stands between a declaration and a table that exists: brought together, or refused before any write."""

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, Merge
from incload_assets.change_log.context import LoadContext
from incload_assets.contract.adaptation import Stored
from incload_assets.declaration.write import Write
from incload_assets.delta.tables import ensure_table
from incload_assets.load.tables import ensure_log, ensure_tables
from incload_assets.platform.errors import SchemaMismatch
from incload_assets.platform.lake import Lake, data_files
from tests.support.tables import day, item, make

WINDOWS = "incload.windows 0 0 * * * UTC %Y-%m-%d"
OF_A_LOG = {f"delta.{what}RetentionDuration": "interval 2 days" for what in ("log", "deletedFile")} | dict(
    [WINDOWS.split(" ", 1), ("delta.checkpointInterval", "10")]
)


@pytest.mark.parametrize(
    ("write", "changes", "was", "declared"),
    [
        (Merge(), Changes(keys=["id", "value"], sequence_by=["seq"]), "incload.keys id", "incload.keys id, value"),
        (Append(), Changes(keys=["id"]), "incload.write Merge", "incload.write Append"),
        (Append(), Changes(), "incload.write Merge, incload.keys id", "incload.write Append, incload.keys "),
    ],
)
def test_other_keys_or_another_way_of_writing_are_refused_before_any_write(
    spark: SparkSession, tmp_path: Path, write: Write, changes: Changes, was: str, declared: str
) -> None:
    first = make(spark, tmp_path)
    ensure_tables(LoadContext(spark, first.table, first.lake))
    other = make(spark, tmp_path, write=write, changes=changes)
    with pytest.raises(SchemaMismatch) as refused:
        ensure_tables(LoadContext(spark, other.table, other.lake))
    assert str(refused.value) == (
        f"items: {tmp_path}/items has {was}, declared is {declared}. "
        "Rule: what identifies the rows of an existing table, and how they are written, cannot be changed in place. "
        "Remedy: restore the declaration, or give the table another name and load it again."
    )
    assert first.lake.version(first.uri) == 0


def test_another_partitioning_is_refused_before_any_write(spark: SparkSession, tmp_path: Path) -> None:
    lake, uri, schema = Lake(str(tmp_path)), f"{tmp_path}/items", T.StructType.fromDDL("id string, day date")
    ensure_table(spark, lake, uri, Stored(schema, ("day",)), "items")
    with pytest.raises(SchemaMismatch, match=r"is partitioned by \['day'\], declared is \[\]\. Rule: .* Remedy: "):
        ensure_table(spark, lake, uri, Stored(schema), "items")
    assert lake.version(uri) == 0


def test_a_table_is_created_where_another_creation_was_killed_or_has_just_begun(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(spark, tmp_path, {day(1): [item("a", "1", 1)]})
    for uri in (table.uri, table.lake.log_uri(table.table.key.path)):
        Path(uri, "_delta_log").mkdir(parents=True)
        Path(uri, "_delta_log", ".00000000000000000000.json.0a.tmp").write_text('{"commitInfo":')
    table.load(1)
    assert table.rows() == {("a", "1", 1)}
    other = make(spark, tmp_path / "other", {day(1): [item("a", "1", 1)]})
    other.load(1)
    for left, right in zip(
        *((each.uri, each.lake.log_uri(each.table.key.path)) for each in (table, other)), strict=True
    ):
        created, as_usual = table.lake.delta(left), other.lake.delta(right)
        assert created is not None
        assert as_usual is not None
        assert created.schema() == as_usual.schema()
        assert created.metadata().configuration == as_usual.metadata().configuration
        assert created.metadata().partition_columns == as_usual.metadata().partition_columns


def test_a_folder_that_holds_something_else_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path, {day(1): [item("a", "1", 1)]})
    Path(table.uri).mkdir(parents=True)
    Path(table.uri, "export.csv").write_text("kept for years")
    with pytest.raises(
        SchemaMismatch, match=r"items: .*/items is no Delta table, but holds 'export\.csv'\. Rule: .*vacuum"
    ):
        table.load(1)
    assert os.listdir(table.uri) == ["export.csv"]


def test_tables_that_several_writers_create_at_once_are_created_once(spark: SparkSession, tmp_path: Path) -> None:
    lake, schema = Lake(str(tmp_path)), T.StructType.fromDDL("id string, day date")
    properties = {"incload.keys": "id", "delta.checkpointInterval": "10"}

    def create(number: int) -> None:
        ensure_table(spark, lake, f"{tmp_path}/{number}", Stored(schema, ("day",), properties), "items")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, [number // 4 for number in range(40)]))
    for number in range(10):
        made = lake.delta(f"{tmp_path}/{number}")
        assert made is not None
        assert made.metadata().configuration == properties


def test_a_table_that_does_not_say_what_its_rows_are_is_told_so_once(spark: SparkSession, tmp_path: Path) -> None:
    lake, uri, schema = Lake(str(tmp_path)), f"{tmp_path}/items", T.StructType.fromDDL("id string")
    ensure_table(spark, lake, uri, Stored(schema), "items")
    for _ in range(2):
        ensure_table(spark, lake, uri, Stored(schema, (), {"incload.write": "Merge", "incload.keys": "it's"}), "items")
    delta = lake.delta(uri)
    assert delta is not None
    assert delta.metadata().configuration == {"incload.write": "Merge", "incload.keys": "it's"}
    assert delta.version() == 1


def test_columns_are_added_whatever_they_and_their_members_are_called_and_those_taken_out_stay(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, uri = Lake(str(tmp_path)), f"{tmp_path}/items"
    ensure_table(spark, lake, uri, Stored(T.StructType.fromDDL("`order` string, gone int"), ("order",)), "items")
    inner = T.StructType([T.StructField("a-b", T.IntegerType()), T.StructField("it`s", T.DecimalType(38, 18))])
    deep = T.MapType(T.StringType(), T.ArrayType(inner))
    added = T.StructField("select", deep, True, {"comment": "it's \\ new"})
    wider = T.StructType([T.StructField("order", T.StringType()), added])
    for _ in range(2):
        ensure_table(spark, lake, uri, Stored(wider, ("order",)), "items")
    assert lake.version(uri) == 1
    rows = spark.read.format("delta").load(uri)
    assert rows.schema.names == ["order", "gone", "select"]
    assert rows.schema["select"] == added


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("ID int", "column 'id' of .* is declared as 'ID'. Rule: Delta does not distinguish .*declare it as 'id'"),
        (
            "id bigint",
            "column 'id' of .* is int, declared is bigint. Rule: a load does not change the type of an existing",
        ),
        ("id smallint", "column 'id' of .* is int, declared is smallint"),
        ("id int, part struct<b: int>", r"'part.a' of .* is int, and the declaration lacks it. Rule: a load does not"),
    ],
)
def test_a_column_of_another_type_or_spelling_is_refused(
    spark: SparkSession, tmp_path: Path, declared: str, message: str
) -> None:
    lake, uri = Lake(str(tmp_path)), f"{tmp_path}/items"
    ensure_table(spark, lake, uri, Stored(T.StructType.fromDDL("id int, part struct<a: int>")), "items")
    with pytest.raises(SchemaMismatch, match=message):
        ensure_table(spark, lake, uri, Stored(T.StructType.fromDDL(declared)), "items")
    assert lake.version(uri) == 0


class Odd(pa.DataFrameModel):
    """Names and types of all kinds."""

    key: T.BinaryType = pa.Field(nullable=False, alias="the.`key`")
    number: T.DecimalType(20, 2) = pa.Field(nullable=False, alias="no.1")  # type: ignore[valid-type]
    flag: T.BooleanType = pa.Field(nullable=True)


def test_delta_keeps_ranges_of_what_the_log_is_filtered_by_also_where_the_log_is_older(
    spark: SparkSession, tmp_path: Path
) -> None:
    changes = Changes(keys=["the.`key`", "no.1"], sequence_by=["flag"])
    odd = make(spark, tmp_path, contract=Odd, changes=changes)
    log = LoadContext(spark, odd.table, odd.lake).log
    ensure_table(spark, odd.lake, log.uri, Stored(log.schema, ("_window", "_kind")), "items")
    for _ in range(2):
        ensure_log(LoadContext(spark, odd.table, odd.lake))
    assert log.open().metadata().configuration == OF_A_LOG | {"delta.dataSkippingStatsColumns": "`no.1`"}
    assert log.version() == 1


def test_a_log_that_is_filtered_by_nothing_with_a_range_has_none(spark: SparkSession, tmp_path: Path) -> None:
    kept = make(spark, tmp_path, contract=Odd, changes=Changes(keys=["the.`key`"], sequence_by=["flag"]))
    ensure_log(context := LoadContext(spark, kept.table, kept.lake))
    properties = context.log.open().metadata().configuration
    assert properties == OF_A_LOG | {"delta.dataSkippingNumIndexedCols": "0"}


def test_old_commits_of_the_log_go_and_what_they_told_stays(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(n): [item("a", f"value {n}", n), item(f"b{n}", "x", n)] for n in range(1, 6)}
    kept = make(spark, tmp_path, content)
    for number in (1, 2, 3):
        kept.load(number)
    log = LoadContext(spark, kept.table, kept.lake).log
    commits = sorted(tmp_path.glob("_changes/items/_delta_log/*.json"))
    old = (datetime.now(UTC) - timedelta(days=4)).timestamp()
    for commit in commits:
        os.utime(commit, (old, old))
    before = kept.log("upsert", "_window", "id", "value")
    spark.sql(f"ALTER TABLE {kept.lake.sql_name(log.uri)} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")

    loads = [kept.load(number) for number in (4, 5, 1)]

    assert not any(commit.exists() for commit in commits)
    assert [report.ingested for report in loads] == [True, True, False]
    assert loads[-1].record.landing == 1, "it is remembered, and needs only a fence"
    assert set(before) < set(kept.log("upsert", "_window", "id", "value"))
    assert kept.rows("id", "value") == {("a", "value 5"), *((f"b{n}", "x") for n in range(1, 6))}


def test_files_of_the_log_tell_the_ranges_of_keys_sequence_and_place_alone(spark: SparkSession, tmp_path: Path) -> None:
    kept = make(spark, tmp_path, {day(1): [item("a", "x", 1), item("b", "y", 2)]})
    kept.load(1)
    files = data_files(LoadContext(spark, kept.table, kept.lake).log.open())
    assert [name for name in files.column_names if name.startswith("max.")] == ["max.id", "max.seq"]
    assert max(filter(None, files["max.seq"].to_pylist())) == 2


def test_spark_keeps_no_checksums_beside_commits_and_those_of_others_do_not_outlive_what_they_are_of(
    spark: SparkSession, tmp_path: Path
) -> None:
    loaded = make(spark, tmp_path, {day(1): [item("1", "a", 1)]})
    loaded.load(1)
    commits = [Path(loaded.uri) / "_delta_log", Path(f"{tmp_path}/_changes/items/_delta_log")]
    assert [note.name for folder in commits for note in folder.glob(".*.json.crc")] == []
    for folder in commits:
        (folder / "._last_checkpoint.crc").write_bytes(b"crc of a pointer that has moved")
    loaded.load(1)
    assert [note.name for folder in commits for note in folder.glob("._last_checkpoint.crc")] == []
