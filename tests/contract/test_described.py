"""Contracts as JSON: nothing is lost on the way, and what is no such file is refused."""

import json
from dataclasses import replace

import pyspark.sql.types as T
import pytest

from incload_assets.assets import Append, Changes, History, Merge
from incload_assets.assets.incremental import table_of
from incload_assets.contract.described import as_json, data_type, from_json, plain_type
from incload_assets.contract.differences import differences
from incload_assets.declaration.contract_of import contract_of
from incload_assets.declaration.write import Write
from incload_assets.platform.errors import IncrementalLoadError
from tests.support.tables import declared

DEEP = T.StructType(
    [
        T.StructField(
            "a-b", T.ArrayType(T.MapType(T.StringType(), T.StructType([T.StructField("x", T.DecimalType(38, 18))])))
        )
    ]
)


@pytest.mark.parametrize(
    "write", [Merge(partition_by="day"), Merge(buckets=8, partial=True), History(partial=True), Append()]
)
def test_a_contract_that_was_written_and_read_is_the_declared_one(write: Write) -> None:
    changes = Changes() if isinstance(write, Append) else Changes(keys=["id"], sequence_by=["seq"])
    table = table_of(declared(write=write, changes=changes))
    assert table is not None
    there = contract_of(table)
    back = from_json(as_json({"items": there}), "a file")["items"]
    assert replace(back, stored=there.stored) == there
    assert differences(there, back) == differences(back, there) == []
    assert as_json({"items": back}) == as_json({"items": there})


@pytest.mark.parametrize(
    "kind", [T.DecimalType(12, 2), T.ByteType(), T.TimestampType(), T.BinaryType(), DEEP, T.ArrayType(DEEP)]
)
def test_every_type_is_read_as_it_was_written(kind: T.DataType) -> None:
    plain = plain_type(kind)
    assert data_type(json.loads(json.dumps(plain))).simpleString() == kind.simpleString()


def test_a_file_lists_tables_by_name_and_columns_in_their_order_and_ends_in_a_line_end() -> None:
    table = table_of(declared())
    assert table is not None
    text = as_json({"b": contract_of(table), "a": contract_of(table)})
    assert text.endswith("}\n")
    tables = json.loads(text)["tables"]
    assert [*tables] == ["a", "b"]
    assert [column["name"] for column in tables["a"]["columns"]] == [*table.columns]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: orders", "is no file of contracts"),
        ("[]", "is no file of contracts"),
        ('{"tables": {}}', "is no file of contracts"),
        ('{"format": 2}', "has the format 2"),
        (
            '{"format": 1, "tables": {"orders": {"columns": [{"name": "id", "type": "int8", "nullable": true}]}}}',
            "int8",
        ),
    ],
)
def test_another_file_is_refused_with_the_command_that_writes_one(text: str, problem: str) -> None:
    with pytest.raises(IncrementalLoadError, match=rf"golden.json.*{problem}.*incload contract show --out"):
        from_json(text, "golden.json")
