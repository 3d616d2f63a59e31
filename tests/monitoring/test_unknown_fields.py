"""Fields outside the contract are told with the line that declares them, and without a value."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from incload_assets.assets.incremental import table_of
from incload_assets.declaration.table import Table
from incload_assets.monitoring.unknown_fields import UnknownField, unknown_fields
from resources.lake import Lake
from tests.support.tables import Item, day, declared


@pytest.fixture
def table() -> Table:
    found = table_of(declared(contract=Item))
    assert found is not None
    return found


def log(lake: Lake, *rescued: tuple[int, str | None]) -> None:
    rows = [{"_window": day(number), "_kind": "upsert", "_rescued": text} for number, text in rescued]
    schema = pa.schema([(name, pa.string()) for name in ("_window", "_kind", "_rescued")])
    write_deltalake(lake.log_uri(["items"]), pa.Table.from_pylist(rows, schema), partition_by=["_window", "_kind"])


def test_each_field_is_told_with_its_rows_its_windows_and_the_type_that_all_its_values_have(
    table: Table, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path))
    assert unknown_fields(table, lake) == []
    log(
        lake,
        (2, '{"count": "7", "share": 1, "a b": true, "at": "2026-01-02T10:00:00Z", "value": [{"x": 1}]}'),
        (1, '{"count": 12, "share": 0.5, "when": "2026-01-02", "id no": "007", "at": ""}'),
        (3, '{"count": null, "note": {"secret": "kept"}, "when": "soon"}'),
        (3, None),
    )
    found = unknown_fields(table, lake)
    assert found[:1] == [UnknownField("count", 3, day(1), day(3), "count: T.LongType = pa.Field(nullable=True)")]
    assert {one.line for one in found[1:]} == {
        "share: T.DoubleType = pa.Field(nullable=True)",
        "a_b: T.BooleanType = pa.Field(nullable=True, alias='a b')",
        "at: T.TimestampType = pa.Field(nullable=True)",
        "when: T.StringType = pa.Field(nullable=True)",
        "id_no: T.StringType = pa.Field(nullable=True, alias='id no')",
        "note: T.StringType = pa.Field(nullable=True)",
        "value is declared; incload fill items fills it",
    }
    assert "kept" not in str(found)


def test_of_values_that_are_not_kept_the_type_is_text(table: Table, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    log(lake, (1, '{"hobby": "***"}'))
    assert [one.line for one in unknown_fields(table, lake)] == ["hobby: T.StringType = pa.Field(nullable=True)"]
