"""Many columns with names and values that trip loaders, through every way of writing by rows."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pandera.pyspark as pa
import pyarrow
import pyarrow.parquet as pq
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Append, Changes, DeleteInsert, Files, History, Merge, Quarantine
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.write import Write
from incload_assets.maintenance.compact_logs import compact
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.sql import all_of, any_of, combined
from tests.support.sampling import NIGHT
from tests.support.tables import Item, Loaded, day, item, make

WORDS = ["order", "select", "window", "log", "row", "values", "from", "a.b", "a-b", "per`cent`", "naïve", "😀"]
ALIKE = {  # what the statements of the loader call their two sides, with what they look for in them
    "t": T.StructType([T.StructField("seq", T.LongType()), T.StructField("order", T.StringType())]),
    "s": T.StructType([T.StructField("_row", T.StructType([T.StructField("seq", T.LongType())]))]),
}
WIDTH = 300 if NIGHT else 60
NUMBERS = [f"n{i}" for i in range(WIDTH - len(WORDS) - len(ALIKE) - 3)]
BIG = "x" * (10 if NIGHT else 1) * 2**20
COMMON = {
    "order": "'; DROP TABLE t; --",
    "select": "👩‍👩‍👧 🇨🇭",
    "log": BIG,
    "a.b": "",
    "😀": "\\ \" ' ` \n",
    "t": {"seq": 9, "order": "other"},
    "s": {"_row": {"seq": 8}},
}


def wide() -> type[Any]:
    types: dict[str, Any] = {
        **dict.fromkeys(WORDS, T.StringType),
        **ALIKE,
        **dict.fromkeys(NUMBERS, T.IntegerType),
        "seq": T.LongType,
        "exact": Annotated[T.DecimalType, 38, 18],
        "empty": T.StringType,
    }
    names = {f"f{i}": name for i, name in enumerate(types)}
    fields = {field: pa.Field(alias=name, nullable=True) for field, name in names.items()}
    annotations = {field: types[name] for field, name in names.items()}
    return type("Wide", (pa.DataFrameModel,), {"__annotations__": annotations, "__module__": __name__, **fields})


def record(**values: Any) -> dict[str, Any]:
    return COMMON | dict.fromkeys(NUMBERS, 7) | values


KEYED = Changes(keys=["order", "a.b"], sequence_by=["seq"])


WAYS = [
    (Merge(partition_by="order"), KEYED),
    (Append(partition_by="order"), KEYED),
    (Append(), Changes()),
    (DeleteInsert(by=["order", "a.b"], partition_by="order"), Changes(sequence_by=["seq"])),
]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("write", "changes"), WAYS if NIGHT else WAYS[:1])
def test_many_columns_with_odd_names_and_values_arrive_as_they_are(
    spark: SparkSession, tmp_path: Path, write: Write, changes: Changes
) -> None:
    exact = "-12345678901234567890.123456789012345678"
    folder = tmp_path / "landing" / day(1)
    folder.mkdir(parents=True)
    source = Files(f"{tmp_path}/landing/{{window:%Y-%m-%d}}/*.json")
    table = make(spark, tmp_path, source=source, contract=wide(), write=write, changes=changes)
    (folder / "a.json").write_text(json.dumps(record(seq=1, exact=exact)))
    table.load(1)
    (folder / "a.json").write_text(json.dumps(record(seq=2, exact="0.000000000000000001")))
    report = table.load(1)
    evidence = report.evidence
    assert (evidence.applied, evidence.stale, evidence.duplicate, evidence.quarantined) == (1, 0, 0, 0)
    delta = table.lake.delta(table.uri)
    assert delta is not None
    [row] = delta.to_pyarrow_table().to_pylist()
    assert len(row) == WIDTH
    assert {name: value for name, value in row.items() if value is not None} == record(
        seq=2, exact=Decimal("0.000000000000000001")
    )


def plain(width: int) -> type[Any]:
    """Columns that are nothing but many."""
    fields = {f"c{i}": pa.Field(nullable=True, ne="bad") for i in range(width)}
    annotations = dict.fromkeys(fields, T.StringType)
    return type("Plain", (Item,), {"__annotations__": annotations, "__module__": __name__, **fields})


BY_COLUMN = {
    "partial": (Merge(partial=True), {}),
    "unavailable": (Merge(soft_delete="is_deleted"), {"unavailable": "__unavailable", "moved_when": "op = 'c'"}),
    "versions": (History(partial=True), {}),
}


@pytest.mark.parametrize(("write", "more"), BY_COLUMN.values(), ids=BY_COLUMN)
def test_a_row_that_is_made_column_by_column_may_have_many_columns(
    spark: SparkSession, tmp_path: Path, write: Write, more: dict[str, Any]
) -> None:
    changes = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'", **more)
    content = {
        day(1): [item("a", "v", 1, c0="first", c49="first"), item("b", "v", 1, c49="bad")],
        day(2): [item("a", "v", 2, c0="second", c49="__unavailable" if more else "first")],
    }
    keep: dict[str, Any] = {"quarantine": Quarantine(max_share=0.5)}
    if write.compacts:
        keep["log_retention"] = timedelta(days=30)
    table = make(spark, tmp_path, content, contract=plain(50), write=write, changes=changes, **keep)
    table.load(1)
    table.load(2)
    assert ("a", 2, "second", None, "first") in table.rows("id", "seq", "c0", "c1", "c49")
    if not write.compacts:
        return
    context = LoadContext(spark, table.table, table.lake)
    compact(
        context,
        datetime(2026, 1, 3, tzinfo=UTC),
        lambda keys: {key: record.fingerprint for key, record in context.log.records().items() if key in keys},
    )
    assert table.log("upsert", "id", "c0", "c49")[-1] == ("a", "second", None if more else "first")


def test_conditions_are_joined_as_sql_joins_them_and_nest_no_deeper_than_they_must(spark: SparkSession) -> None:
    assert combined("({}{})".format, ["a", "b", "c", "d", "e"]) == "((ab)(c(de)))"
    yes, no, unknown = F.lit(True), F.lit(False), F.lit(None).cast("boolean")
    cases = [
        (any_of([]), False),
        (any_of([no] * 1000), False),
        (any_of([no, unknown, no]), None),
        (any_of([unknown, no, yes]), True),
        (all_of([]), True),
        (all_of([yes] * 1000), True),
        (all_of([yes, unknown, yes]), None),
        (all_of([unknown, yes, no]), False),
    ]
    [row] = spark.range(1).select(*(condition for condition, _ in cases)).head(1)
    assert [*row] == [held for _, held in cases]


class Twins(Item):
    """Two columns that differ only by case."""

    Value: T.StringType = pa.Field(nullable=True)


@pytest.mark.parametrize("name", ["_window", "_action", "_row"])
def test_names_of_the_loader_itself_are_refused(spark: SparkSession, tmp_path: Path, name: str) -> None:
    fields = {"__annotations__": {"field": T.StringType}, "field": pa.Field(alias=name), "__module__": __name__}
    with pytest.raises(DeclarationError, match="names that begin with an underscore are reserved for the loader"):
        make(spark, tmp_path, contract=type("Own", (Item,), fields))


def test_names_that_differ_only_by_case_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"fields value and Value differ only by case.*Remedy: rename one"):
        make(spark, tmp_path, contract=Twins)


def test_a_member_with_a_name_that_delta_cannot_hold_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    inner = T.ArrayType(T.StructType([T.StructField("a b", T.StringType())]))
    fields = {"__annotations__": {"more": inner}, "__module__": __name__}
    with pytest.raises(DeclarationError, match="a column 'a b', with ' ' in its name"):
        make(spark, tmp_path, contract=type("Nested", (Item,), fields))


ADDRESS = T.StructType([T.StructField("city", T.StringType())])


class Customer(Item):
    """With a struct of which the contract keeps a part."""

    address: ADDRESS = pa.Field(nullable=True)  # type: ignore[valid-type]


def test_members_that_the_contract_does_not_declare_are_rescued_whatever_the_format(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "landing" / day(1)
    folder.mkdir(parents=True)
    records = [
        {"id": "1", "seq": 1, "address": {"city": "Bern", "zip": "3011"}, "more": 1.5},
        {"id": "2", "seq": 1, "address": {"city": "Bern", "zip": "3012"}},
        {"id": "3", "seq": 1, "address": {"city": "Bern"}},
    ]
    (folder / "a.json").write_text("\n".join(map(json.dumps, records)))
    columns = {"id": ["4"], "seq": [1], "address": [{"city": "Thun", "floor": 2}]}
    pq.write_table(pyarrow.table(columns), folder / "b.parquet")
    source = Files(f"{tmp_path}/landing/{{window:%Y-%m-%d}}/*")
    table = make(
        spark,
        tmp_path / "lake",
        source=source,
        contract=Customer,
        changes=Changes(keys=["id"], sequence_by=["seq"]),
    )
    table.load(1)
    assert {(row[0], row[1]["city"]) for row in _pairs(table)} == {
        ("1", "Bern"), ("2", "Bern"), ("3", "Bern"), ("4", "Thun"),
    }  # fmt: skip
    rescued = {key: text and json.loads(text) for key, text in table.log("upsert", "id", "_rescued")}
    assert rescued == {
        "1": {"more": 1.5, "address": {"city": "Bern", "zip": "3011"}},
        "2": {"address": {"city": "Bern", "zip": "3012"}},
        "3": None,
        "4": {"address": {"city": "Thun", "floor": 2}},
    }


def _pairs(table: Loaded) -> list[tuple[Any, ...]]:
    delta = table.lake.delta(table.uri)
    assert delta is not None
    return [(row["id"], row["address"]) for row in delta.to_pyarrow_table(columns=["id", "address"]).to_pylist()]


class Measured(Item):
    """Whose values files may hold in several types."""

    whole: T.LongType = pa.Field(nullable=True)
    exact: T.DoubleType = pa.Field(nullable=True)
    flag: T.BooleanType = pa.Field(nullable=True)
    note: T.StringType = pa.Field(nullable=True)
    data: T.BinaryType = pa.Field(nullable=True)


def test_what_a_file_holds_becomes_the_same_whatever_files_are_read_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    of_pandas = {
        "id": ["1", "2", "3"], "whole": [1.0, None, 1.5], "exact": pyarrow.array([0.1, 0.5, 1], pyarrow.float32()),
        "flag": [1, 0, 2], "note": [7, 8, 9], "data": [b"abcd", b"\xff\x00", b"x"],
        "seq": [1, 1, 1],
    }  # fmt: skip
    other = {"id": ["4"], "whole": [2], "exact": [0.1], "flag": [True], "note": ["x"], "data": ["YWI="], "seq": [1]}
    for folder, days in (("together", (1, 1)), ("apart", (1, 2))):
        for number, (content, of_day) in enumerate(zip((of_pandas, other), days, strict=True)):
            file = tmp_path / folder / day(of_day) / f"{number}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pyarrow.table(content), file)
    together, apart = (
        make(
            spark,
            tmp_path / "lake" / folder,
            source=Files(f"{tmp_path}/{folder}/{{window:%Y-%m-%d}}/*"),
            contract=Measured,
            changes=Changes(keys=["id"], sequence_by=["seq"]),
            quarantine=Quarantine(max_share=1),
        )
        for folder in ("together", "apart")
    )
    together.load(1)
    apart.load(1)
    apart.load(2)
    assert together.rows() == apart.rows()
    assert together.log("rejected", "_reasons") == apart.log("rejected", "_reasons")
    assert {(row[0], row[-1]) for row in apart.rows("id", "data")} == {("1", b"abcd"), ("2", b"\xff\x00"), ("4", b"ab")}
