"""Debezium's events in files, on literal events as its connector for PostgreSQL writes them."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Debezium, Files, Merge, Quarantine
from incload_assets.declaration.source import Source
from incload_assets.declaration.window import window_of
from incload_assets.ingest.validate import validate
from incload_assets.load.reconcile import Evidence
from incload_assets.platform.errors import DeclarationError
from incload_assets.sources.decorator import SourceDecorator
from tests.support.detection import detected
from tests.support.tables import Loaded, day, make

MARKER = "__debezium_unavailable_value"
Row = Mapping[str, Any]


class Order(pa.DataFrameModel):
    """An order with a text that may be large."""

    id: T.LongType = pa.Field(nullable=False)
    status: T.StringType = pa.Field(nullable=True)
    body: T.StringType = pa.Field(nullable=True)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


def event(
    op: str,
    row: Row | None,
    lsn: int | None,
    *,
    before: Row | None = None,
    committed: int | None = None,
    table: str = "orders",
    snapshot: str = "false",
) -> dict[str, Any]:
    """An event; ``row`` is the state after it, of a delete the one before."""
    before, after = (row, None) if op == "d" else (before, row)
    source = {
        "version": "3.6.3.Final", "connector": "postgresql", "name": "shop", "ts_ms": 1767225600123,
        "snapshot": snapshot, "db": "shop", "sequence": json.dumps([n and str(n) for n in (committed, lsn)]),
        "ts_us": 1767225600123456, "ts_ns": 1767225600123456000, "schema": "public", "table": table,
        "txId": None if lsn is None else 700 + lsn, "lsn": lsn, "xmin": None,
    }  # fmt: skip
    envelope = {"before": before, "after": after, "source": source, "transaction": None, "op": op}
    return envelope | {"ts_ms": 1767225600500, "ts_us": 1767225600500123, "ts_ns": 1767225600500123456}


def order(id: int, status: str | None = "new", body: str | None = "text", **more: Any) -> Row:
    return {"id": id, "status": status, "body": body, **more}


def write(folder: Path, window: int, *events: object) -> None:
    path = folder / "landing" / day(window) / "events.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


def files(folder: Path) -> Source:
    return Files(f"{folder}/landing/{{window:%Y-%m-%d}}/*.json")


def table(spark: SparkSession, folder: Path, name: str = "orders", contract: type = Order, **options: Any) -> Loaded:
    source = Debezium(files(folder), **{"table": "public.orders", "keys": ["id"]} | options)
    return make(
        spark, folder, source=source, contract=contract, changes=source.changes(), write=Merge(),
        quarantine=Quarantine(max_share=1), name=name,
    )  # fmt: skip


def validated(loaded: Loaded, *columns: str) -> list[tuple[Any, ...]]:
    """What the rows of the first window are to be, before they are landed."""
    declared = loaded.table
    window = window_of(declared.partitions_def, day(1))
    positions = {window.key: detected(declared.source, declared.name, [window], {})[window.key]}
    fields = (*declared.columns, *declared.control_fields)
    rows = validate(declared.source.extract_windows(loaded.spark, declared.name, positions, fields), declared, [window])
    return [tuple(row.values()) for row in rows.select(*columns).toArrow().to_pylist()]


def bins(evidence: Evidence) -> dict[str, int]:
    return {name: count for name, count in evidence.bins.items() if count}


def test_creates_updates_deletes_and_snapshot_rows_make_the_table_and_every_record_is_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(
        tmp_path,
        1,
        event("r", order(1), 100, snapshot="first"),
        event("r", order(2), 100, snapshot="last"),
        event("c", order(3), 110),
        event("u", order(1, "paid"), 120),
        event("d", order(2, None, ""), 130),
        None,
        event("m", None, 140, table=""),
        event("c", order(9), 150, table="customers"),
        {"status": "BEGIN", "id": "731:42"},
    )
    loaded = table(spark, tmp_path)
    report = loaded.load(1)
    assert loaded.rows("id", "status") == {(1, "paid"), (3, "new")}
    assert bins(report.evidence) == {"applied": 3, "stale": 2, "quarantined": 1, "skipped": 3}
    assert loaded.log("rejected", "_reasons") == [(["not an event of Debezium: op or source is missing"],)]
    files = loaded.files()
    loaded.load(1)
    assert loaded.files() == files


def test_a_replay_changes_nothing_and_goes_not_back_in_time_whatever_the_order_of_windows(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, second, third = (
        event("c", order(1), 110),
        event("u", order(1, "paid"), 120),
        event("u", order(1, "sent"), 130),
    )
    write(tmp_path, 1, first, second)
    write(tmp_path, 2, third, first)
    write(tmp_path, 3, second, third)
    loaded = table(spark, tmp_path)
    assert [bins(loaded.load(window).evidence) for window in (2, 1, 3)] == [
        {"applied": 1, "stale": 1},
        {"stale": 2},
        {"applied": 1, "stale": 1},
    ]
    assert loaded.rows("id", "status") == {(1, "sent")}


def test_rows_of_snapshots_are_older_than_changes_committed_after_them_wherever_those_lie_in_the_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(
        tmp_path,
        1,
        event("r", order(1), 200, snapshot="last"),
        event("c", order(2), 210, committed=205),
        event("u", order(1, "changed while the snapshot was read"), 190, committed=215),
    )
    write(
        tmp_path,
        2,
        event("r", order(2, "as of 300"), None, committed=300, snapshot="incremental"),
        event("r", order(3, "as of 300"), None, committed=300, snapshot="incremental"),
        event("u", order(3, "in flight"), 290, committed=300),
        event("u", order(2, "in flight"), 280, committed=310),
        event("r", order(4), None, snapshot="incremental"),
    )
    loaded = table(spark, tmp_path)
    for window in (2, 1):
        loaded.load(window)
    assert loaded.rows("id", "status") == {
        (1, "changed while the snapshot was read"),
        (2, "in flight"),
        (3, "in flight"),
    }
    reason = "source has neither lsn nor sequence: the order of the event is unknown"
    assert loaded.log("rejected", "id", "_reasons") == [(4, [reason])]


@pytest.mark.parametrize("keys_change", [True, False])
def test_a_new_key_is_a_delete_and_a_create_which_has_the_old_keys_values_or_is_quarantined(
    spark: SparkSession, tmp_path: Path, keys_change: bool
) -> None:
    write(tmp_path, 1, event("c", order(1), 110), event("c", order(5, body="long"), 111))
    write(
        tmp_path,
        2,
        event("d", order(1, None, None), 120),
        None,
        event("c", order(2), 120),
        event("d", order(5, None, None), 121),
        None,
        event("c", order(6, body=MARKER), 121),
    )
    loaded = table(spark, tmp_path, keys_change=keys_change)
    assert loaded.load(2).evidence.waiting == keys_change
    assert loaded.rows("id", "body") == {(2, "text")}
    loaded.load(1)
    assert loaded.rows("id", "body") == ({(2, "text"), (6, "long")} if keys_change else {(2, "text")})
    reason = "body: not in this event, which creates a row or changes its key; use REPLICA IDENTITY FULL"
    assert loaded.log("rejected", "id", "_reasons") == ([] if keys_change else [(6, [reason])])


def test_a_truncate_empties_the_table(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, 1, event("c", order(1), 110), event("c", order(2), 130))
    write(tmp_path, 2, event("t", None, 120), event("t", None, 140, table="customers"))
    loaded = table(spark, tmp_path)
    for window in (2, 1):
        loaded.load(window)
    assert loaded.rows("id") == {(2,)}


class Values(pa.DataFrameModel):
    """A column of each kind."""

    id: T.LongType = pa.Field(nullable=False)
    amount: T.DecimalType(38, 4) = pa.Field(nullable=True)  # type: ignore[valid-type]
    free: T.DecimalType(20, 3) = pa.Field(nullable=True)  # type: ignore[valid-type]
    ratio: T.DoubleType = pa.Field(nullable=True)
    day: T.DateType = pa.Field(nullable=True)
    millis: T.TimestampType = pa.Field(nullable=True)
    micros: T.TimestampType = pa.Field(nullable=True)
    zoned: T.TimestampType = pa.Field(nullable=True)
    clock: T.StringType = pa.Field(nullable=True)
    data: T.BinaryType = pa.Field(nullable=True)
    document: T.StringType = pa.Field(nullable=True)
    numbers: T.ArrayType(T.LongType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    days: T.ArrayType(T.DateType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    labels: T.MapType(T.StringType(), T.StringType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    cdc_sequence: T.StringType = pa.Field(nullable=False)


RAW: Row = {
    "id": 1, "amount": "/////////////////////w==", "free": {"scale": 3, "value": "AeJA"}, "ratio": 0.1, "day": -1,
    "millis": 1767225600123, "micros": -1, "zoned": "2026-01-01T00:00:00.123456Z", "clock": 45296123456,
    "data": "AAE=", "document": '{"a": [1.10]}', "numbers": [1, None, 9007199254740993], "days": [20454, None],
    "labels": '{"a":"1","b":null}',
}  # fmt: skip
READ = (
    1, Decimal("-0.0001"), Decimal("123.456"), 0.1, date(1969, 12, 31),
    datetime(2026, 1, 1, 0, 0, 0, 123000, UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    datetime(2026, 1, 1, 0, 0, 0, 123456, UTC), "12:34:56.123456", b"\0\1", '{"a": [1.10]}',
    [1, None, 9007199254740993], [date(2026, 1, 1), None], [("a", "1"), ("b", None)],
)  # fmt: skip


def test_values_without_schemas_are_read_by_the_contract_and_by_what_is_declared(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, 1, event("c", RAW, 110))
    encodings = {"millis": "timestamp[ms]", "clock": "time[us]"}
    loaded = table(spark, tmp_path, contract=Values, decimals="precise", encodings=encodings)
    assert validated(loaded, "_reasons", *loaded.table.columns[:-1]) == [([], *READ)]


def column(name: str, type: str, semantic: str | None = None, scale: int | None = None, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": type, "optional": True, "field": name, **more}
    if semantic:
        found |= {"name": semantic, "version": 1}
    return found | (
        {"parameters": {"scale": str(scale), "connect.decimal.precision": "38"}} if scale is not None else {}
    )


SCHEMA = [
    column("id", "int64"),
    column("amount", "bytes", "org.apache.kafka.connect.data.Decimal", 6),
    column("free", "struct", "io.debezium.data.VariableScaleDecimal"),
    column("ratio", "double"),
    column("day", "int32", "io.debezium.time.Date"),
    column("millis", "int64", "io.debezium.time.Timestamp"),
    column("micros", "int64", "io.debezium.time.MicroTimestamp"),
    column("zoned", "string", "io.debezium.time.ZonedTimestamp"),
    column("clock", "int64", "io.debezium.time.MicroTime"),
    column("data", "bytes"),
    column("document", "string", "io.debezium.data.Json"),
    column("numbers", "array", items={"type": "int64", "optional": True}),
    column("days", "array", items={"type": "int32", "optional": True, "name": "io.debezium.time.Date", "version": 1}),
    column("labels", "string", "io.debezium.data.Json"),
]


def test_values_with_schemas_are_read_by_these(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"type": "struct", "fields": SCHEMA, "optional": True, "field": name} for name in ("before", "after")]
    schema = {"type": "struct", "fields": rows, "optional": False, "name": "shop.public.orders.Envelope"}
    row = {**RAW, "amount": "nA=="}  # -100, in units of the schema's scale
    write(tmp_path, 1, {"schema": schema, "payload": event("c", row, 110)})
    loaded = table(spark, tmp_path, contract=Values)
    assert validated(loaded, "_reasons", *loaded.table.columns[:-1]) == [([], *READ)]


def test_a_file_that_comes_into_a_window_is_read_beside_what_was_there_unless_it_holds_other_tables_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    orders, said = table(spark, tmp_path), list[str]()
    write(tmp_path, 1, event("c", order(1), 100), event("c", order(2), 101))
    orders.load(1)
    folder = tmp_path / "landing" / day(1)
    (folder / "more.json").write_text(json.dumps(event("u", order(1, "paid"), 102)) + "\n")
    orders.load(1, info=said.append)
    assert "read 1 new rows beside 2 ingested before" in said[0]
    (folder / "others.json").write_text(json.dumps(event("c", {"id": 1}, 103, table="customers")) + "\n")
    said.clear()
    report = orders.load(1, info=said.append)
    assert "read 4 rows" in said[0]
    assert bins(report.evidence) == {"applied": 2, "stale": 1, "skipped": 1}
    assert orders.rows("id", "status") == {(1, "paid"), (2, "new")}


def test_what_cannot_be_told_is_quarantined_with_a_reason(spark: SparkSession, tmp_path: Path) -> None:
    infinite = {"day": -2147472692, "millis": 9223372036825200, "micros": -9223372036832400000, "zoned": "infinity"}
    write(tmp_path, 1, event("c", {"id": 1, "amount": "1234"}, 110), event("c", {"id": 2, **infinite}, 111))
    loaded = table(spark, tmp_path, contract=Values, encodings={"millis": "timestamp[ms]"})
    assert validated(loaded, "_reasons") == [
        (
            [
                "amount: '1234, a decimal without schema: declare decimals='precise', 'string' or 'double'' "
                "is not decimal(38,4)"
            ],
        ),
        (
            [
                "day: 'infinity' is not date",
                "millis: 'infinity' is not timestamp",
                "micros: '-infinity' is not timestamp",
                "zoned: 'infinity' is not timestamp",
            ],
        ),
    ]


def test_an_unavailable_value_of_any_type_keeps_the_old_one(spark: SparkSession, tmp_path: Path) -> None:
    encodings = {"millis": "timestamp[ms]", "clock": "time[us]"}
    unavailable = {
        "data": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
        "document": MARKER,
        "numbers": list(MARKER.encode()),
        "days": [MARKER],
        "labels": {MARKER: MARKER},
    }
    write(tmp_path, 1, event("c", RAW, 110))
    write(tmp_path, 2, event("u", {**RAW, **unavailable, "ratio": 0.5}, 120))
    loaded = table(
        spark, tmp_path, "values", contract=Values, decimals="precise", encodings=encodings
    )  # fmt: skip
    for window in (2, 1):
        loaded.load(window)
    assert loaded.log("rejected", "_reasons") == []
    delta = loaded.lake.delta(loaded.uri)
    assert delta is not None
    [row] = delta.to_pyarrow_table().to_pylist()
    assert tuple(row.values())[:-1] == (*READ[:3], 0.5, *READ[4:])


def test_a_new_column_is_rescued_until_the_contract_has_it(spark: SparkSession, tmp_path: Path) -> None:
    class Wider(Order):
        """The order with its new column."""

        note: T.StringType = pa.Field(nullable=True)

    write(tmp_path, 1, event("c", order(1), 110), event("c", order(2, note="hi"), 120))
    assert validated(table(spark, tmp_path), "id", "_rescued") == [(1, None), (2, '{"note":"hi"}')]
    assert validated(table(spark, tmp_path, contract=Wider), "id", "note", "_rescued") == [
        (1, None, None),
        (2, "hi", None),
    ]


def test_a_delete_is_trusted_beyond_its_key_only_with_full_replica_identity(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, 1, event("d", order(1, "", "default"), 120))
    default, full = table(spark, tmp_path), table(spark, tmp_path, "full", replica_identity="full")
    assert (default.table.changes.unavailable, full.table.changes.unavailable) == (MARKER, None)
    assert validated(default, "_kind", "id", "status", "body") == [("delete", 1, None, None)]
    assert validated(full, "_kind", "id", "status", "body") == [("delete", 1, "", "default")]


def test_declarations_that_cannot_be_kept_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="keys is empty"):
        table(spark, tmp_path, keys=[])
    with pytest.raises(DeclarationError, match="table is 'orders'"):
        table(spark, tmp_path, table="orders")
    with pytest.raises(DeclarationError, match=r"the encoding of 'id' is 'hours'\. Rule: .*Remedy: write plain, date"):
        table(spark, tmp_path, encodings={"id": "hours"})
    with pytest.raises(DeclarationError, match="decimals is 'exact'"):
        table(spark, tmp_path, decimals="exact")


def test_all_but_reading_is_as_the_inner_source_has_it(tmp_path: Path) -> None:
    reading = {"validate", "validate_changes", "for_contract", "asked_for", "requiring"}
    reading |= {"shown", "explained", "divided", "divides"}
    reading |= {"renewed", "staying"}  # the inner source tells parts of its records, not of the rows within them
    verbs = {name for name, value in vars(Source).items() if callable(value) and not name.startswith("_")}
    assert verbs - reading == {name for name in vars(SourceDecorator) if name in verbs}
    inner = Files(f"{tmp_path}/*.json", absent="empty")
    assert Debezium(inner, table="public.orders", keys=["id"]).absent == "empty"
