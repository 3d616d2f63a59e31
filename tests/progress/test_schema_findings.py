"""Fields outside the contract and refused types are told with the line that declares them, and without a value."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pandera.pyspark as pandera
import pyarrow as pa
import pyspark.sql.types as T
import pytest
from deltalake import write_deltalake

from incload_assets.assets.incremental import table_of
from incload_assets.change_log import source_schema
from incload_assets.change_log.source_schema import size_of
from incload_assets.contract.wider_types import widened
from incload_assets.declaration.evolution import Evolution
from incload_assets.declaration.table import Table
from incload_assets.platform.lake import Lake
from incload_assets.progress.schema_findings import keep_schemas, known_schemas, look_at_schema, wider_type
from incload_assets.writes.merge import Merge
from tests.support.tables import Item, day, declared


class Counted(Item):
    """An item with numbers."""

    count: T.IntegerType = pandera.Field(nullable=True)
    share: T.DecimalType(4, 2) = pandera.Field(nullable=True)  # type: ignore[valid-type]


def of(contract: type = Item, evolution: Evolution = Evolution()) -> Table:  # noqa: B008 - immutable
    found = table_of(declared(contract=contract, evolution=evolution))
    assert found is not None
    return found


@pytest.fixture
def table() -> Table:
    return of()


def log(lake: Lake, *rows: tuple[int, str, str | None, Sequence[str]], mode: str = "error") -> None:
    """Rows of the log: day, kind, rescued fields, reasons."""
    names = ("_window", "_kind", "_rescued", "_reasons")
    schema = pa.schema([*((name, pa.string()) for name in names[:3]), (names[3], pa.list_(pa.string()))])
    made = [dict(zip(names, (day(number), *rest), strict=True)) for number, *rest in rows]
    write_deltalake(
        lake.log_uri(["items"]),
        pa.Table.from_pylist(made, schema),
        partition_by=["_window", "_kind"],
        mode=mode,  # type: ignore[arg-type]
    )


def rescued(lake: Lake, *rows: tuple[int, str | None], mode: str = "error") -> None:
    log(lake, *((number, "upsert", text, ()) for number, text in rows), mode=mode)


def test_each_field_is_told_with_its_rows_its_windows_and_the_type_that_all_its_values_have(
    table: Table, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path))
    assert look_at_schema(table, lake).findings == []
    rescued(
        lake,
        (2, '{"count": "7", "share": 1, "a b": true, "at": "2026-01-02T10:00:00Z", "value": [{"x": 1}]}'),
        (1, '{"count": 12, "share": 0.5, "when": "2026-01-02", "id no": "007", "at": ""}'),
        (3, '{"count": null, "note": {"secret": "kept"}, "when": "soon"}'),
        (3, None),
    )
    found = look_at_schema(table, lake).findings
    assert [(one.name, one.what, one.rows, one.first, one.last) for one in found[:1]] == [
        ("count", "unknown field", 3, day(1), day(3))
    ]
    assert {(one.what, one.line) for one in found} == {
        ("unknown field", "count: T.LongType = pa.Field(nullable=True)"),
        ("unknown field", "share: T.DoubleType = pa.Field(nullable=True)"),
        ("unknown field", "a_b: T.BooleanType = pa.Field(nullable=True, alias='a b')"),
        ("unknown field", "at: T.TimestampType = pa.Field(nullable=True)"),
        ("unknown field", "when: T.StringType = pa.Field(nullable=True)"),
        ("unknown field", "id_no: T.StringType = pa.Field(nullable=True, alias='id no')"),
        ("unknown field", "note: T.StringType = pa.Field(nullable=True)"),
        ("declared since", "value is declared; incload fill items fills it"),
    }
    assert "kept" not in str(found)


def test_of_values_that_are_not_kept_the_type_is_text(table: Table, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    rescued(lake, (1, '{"hobby": "***"}'))
    assert [one.line for one in look_at_schema(table, lake).findings] == [
        "hobby: T.StringType = pa.Field(nullable=True)"
    ]


def test_fields_that_the_declaration_ignores_are_not_told(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    rescued(lake, (1, '{"utm_source": "x", "debug": 1, "hobby": "chess"}'))
    table = of(evolution=Evolution(ignore=("utm_*", "debug")))
    assert [one.name for one in look_at_schema(table, lake).findings] == ["hobby"]


@pytest.mark.parametrize(
    ("kind", "values", "wider"),
    [
        (T.DecimalType(6, 2), ["12345.67"], T.DecimalType(7, 2)),
        (T.DecimalType(6, 2), ["12345.670", "-1e5", ""], T.DecimalType(8, 2)),
        (T.DecimalType(6, 2), ["0.125", "12345.67"], None),
        (T.DecimalType(6, 2), ["12345.67", "soon"], None),
        (T.DecimalType(6, 2), ["1234.5"], None),
        (T.DecimalType(38, 2), ["1e36"], None),
        (T.DecimalType(36, 0), ["1" + 36 * "0"], T.DecimalType(37, 0)),
        (T.ByteType(), ["200"], T.ShortType()),
        (T.ByteType(), ["200", "-32769"], T.IntegerType()),
        (T.IntegerType(), ["2147483648"], T.LongType()),
        (T.LongType(), ["9223372036854775808"], T.DecimalType(19, 0)),
        (T.IntegerType(), ["1e20"], T.DecimalType(21, 0)),
        (T.IntegerType(), ["7.5"], None),
        (T.IntegerType(), ["1e999999999999999999999"], None),
        (T.FloatType(), ["1e300"], None),
        (T.DateType(), ["2026-01-05T10:00:00Z"], None),
        (T.LongType(), ["***"], None),
    ],
)
def test_the_smallest_wider_type_is_proposed_that_a_load_widens_to(
    kind: T.DataType, values: list[str], wider: T.DataType | None
) -> None:
    assert wider_type(kind, {size_of(value) for value in values}) == wider
    assert wider is None or widened(kind, wider) == wider


def test_of_a_column_that_places_rows_no_wider_type_is_proposed(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    log(lake, (1, "rejected", None, ["count: '3000000000' is not int", "share: '123.45' is not decimal(4,2)"]))
    table = table_of(declared(contract=Counted, write=Merge(partition_by="count")))
    assert table is not None
    count, share = look_at_schema(table, lake).findings
    assert count.line.startswith("none: count stays int;")
    assert share.line == (
        'share: T.DecimalType = pa.Field(nullable=True, dtype_kwargs={"precision": 5, "scale": 2}), '
        'with evolution=Evolution(widen="apply")'
    )


def test_values_that_a_type_refuses_are_told_with_the_wider_type_if_a_load_can_widen_to_it(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    log(
        lake,
        (1, "rejected", None, ["count: '3000000000' is not int", "share: '0.125' is not decimal(4,2)"]),
        (2, "rejected", None, ["count: '4000000000' is not int", "value: 'x' not in [y]"]),
        (2, "rejected", None, ["count: '7.5' is not smallint", "id: NULL is not allowed"]),
        (2, "skipped", '{"other": 1}', ["count: '5000000000' is not int"]),
    )
    count, share = look_at_schema(of(Counted), lake).findings
    assert (count.name, count.what, count.rows, count.windows) == ("count", "refused type", 2, (day(1), day(2)))
    assert count.line == 'count: T.LongType = pa.Field(nullable=True), with evolution=Evolution(widen="apply")'
    assert share.line == (
        "none: share stays decimal(4,2); have the source send that, or the new type under another name"
    )
    [widens, _] = look_at_schema(of(Counted, Evolution(widen="apply")), lake).findings
    assert widens.line == "count: T.LongType = pa.Field(nullable=True)"
    assert "3000000000" not in str((count, share))


def test_a_later_look_reads_only_windows_whose_rows_are_other_ones(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    real = source_schema.schemas_of
    monkeypatch.setattr(
        "incload_assets.progress.schema_findings.schemas_of",
        lambda log, windows, columns: asked.append([*windows]) or real(log, windows, columns),
    )
    lake = Lake(str(tmp_path))
    rescued(lake, (1, '{"a": 1}'), (2, None), (3, '{"b": 1}'))
    with dg.DagsterInstance.ephemeral() as instance:
        assert known_schemas(instance, table) == {}
        first = look_at_schema(table, lake, known_schemas(instance, table))
        keep_schemas(instance, table, first.known)
        assert known_schemas(instance, table) == first.known
        rescued(lake, (2, '{"a": "x"}'), mode="append")
        second = look_at_schema(table, lake, known_schemas(instance, table))
        assert asked == [[day(3), day(2), day(1)], [day(2)]]
        assert second.findings == look_at_schema(table, lake).findings
        assert [(one.name, one.rows, one.windows) for one in second.findings] == [
            ("a", 2, (day(1), day(2))), ("b", 1, (day(3),))
        ]  # fmt: skip
        instance.daemon_cursor_storage.set_cursor_values({"incload/schema with sizes of items": "[1]"})
        assert known_schemas(instance, table) == {}


def test_one_look_reads_a_bounded_number_of_windows_and_rows_and_the_next_goes_on(table: Table, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    rescued(lake, *((number, '{"a": 1}') for number in (1, 2, 3, 3)))
    first = look_at_schema(table, lake, most_windows=2)
    assert (first.left, [*first.known]) == (1, [day(3), day(2)])
    rest = look_at_schema(table, lake, first.known, most_windows=2)
    assert (rest.left, {*rest.known}) == (0, {day(1), day(2), day(3)})
    large = look_at_schema(table, lake, most_rows=1)
    assert (large.left, [*large.known]) == (2, [day(3)]), "one window is read, whatever its size"
    assert look_at_schema(table, lake, most_rows=3).left == 1


def test_what_a_window_does_not_hold_any_more_is_not_told(table: Table, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    rescued(lake, (1, '{"a": 1}'), (2, '{"b": 1}'))
    known = look_at_schema(table, lake).known
    rescued(lake, (2, '{"b": 1}'), mode="overwrite")
    assert [one.name for one in look_at_schema(replace(table), lake, known).findings] == ["b"]
