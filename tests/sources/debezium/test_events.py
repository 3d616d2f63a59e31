"""Which events are of the table: a wrong name, another connector, or no events at all never make an empty table."""

from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, Debezium, Files, History, Merge, Several
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.table import Quarantine
from incload_assets.declaration.window import window_of
from incload_assets.load.ranges import load_first_windows
from incload_assets.platform.errors import ContractViolation, DeclarationError, SourceUnreadable
from tests.sources.debezium.test_debezium import MARKER, Order, bins, event, files, order, table, validated, write
from tests.support.tables import day, make


def of_other_connector(connector: str, **source: Any) -> dict[str, Any]:
    """An event with what another connector tells of its source."""
    return {"op": "c", "before": None, "after": order(1), "source": {"connector": connector, "ts_ms": 1, **source}}


MYSQL = of_other_connector("mysql", db="shop", table="orders", file="binlog.1", pos=4)
OTHERS = [
    MYSQL,
    of_other_connector("sqlserver", db="shop", schema="public", table="orders", change_lsn="1:2:3"),
    of_other_connector("mongodb", db="shop", collection="orders"),
    {"source": {"connector": "mysql", "db": "shop"}, "databaseName": "shop", "ddl": "CREATE TABLE orders (id int)"},
]
NO_EVENTS = [
    order(1),
    {**order(1), "__op": "c", "__table": "orders", "__deleted": "false"},
    {"op": "m", "id": 1, "source": "web"},
    {"op": "c", "id": 1, "source": "web"},
    {"id": 1, "status": "END"},
    {"ts_ms": 1, "id": 1},
    {**event("c", order(1), 110), "source": {"lsn": 110, "table": "orders", "sequence": None}},
    {**event("c", order(1), 110), "source": {"lsn": 110, "schema": "public", "sequence": None}},
]
BETWEEN = [
    None,
    {"ts_ms": 1795666438164},
    {"status": "BEGIN", "id": "827:29302560", "event_count": None, "data_collections": None, "ts_ms": 1795666444859},
    {
        "status": "END", "id": "827:29303648", "event_count": 1, "ts_ms": 1795666444859,
        "data_collections": [{"data_collection": "public.orders", "event_count": 1}],
    },
    event("m", None, 140, table=""),
]  # fmt: skip


def test_events_of_other_connectors_and_what_is_no_event_are_quarantined_and_what_lies_between_is_skipped(
    spark: SparkSession, tmp_path: Path
) -> None:
    wrapped = [{"schema": {"type": "struct", "fields": []}, "payload": event} for event in BETWEEN[1:]]
    write(tmp_path, 1, *OTHERS, *NO_EVENTS, *BETWEEN, *wrapped)
    found = validated(table(spark, tmp_path), "_kind", "_reasons", "_payload")
    reasons = [reason for kind, [reason], _ in found if kind == "rejected"]
    assert [reason.partition(",")[0] for reason in reasons[:4]] == [
        f"an event of Debezium's connector '{name}'" for name in ("mysql", "sqlserver", "mongodb", "mysql")
    ]
    missing, nameless = "not an event of Debezium: op or source is missing", "source has no schema or no table"
    assert [reason.partition(",")[0] for reason in reasons[4:]] == [
        missing, missing, nameless, nameless, missing, missing, nameless, nameless
    ]  # fmt: skip
    told = ["a heartbeat", *["the begin or end of a transaction"] * 2, "a message in the log"]
    assert [why for kind, [why], _ in found if kind == "skipped"] == ["a tombstone", *told, *told]


@pytest.mark.parametrize(
    "name", ["public.order", "public.Orders", "Public.orders", "shop.orders", "public.public.orders"]
)
def test_a_window_whose_events_are_all_of_other_tables_fails_and_names_them(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    write(tmp_path, 1, event("c", order(1), 110), event("t", None, 120, table="customers"), *BETWEEN)
    loaded = table(spark, tmp_path, table=name)
    with pytest.raises(SourceUnreadable) as failed:
        loaded.load(1)
    assert f"events of 'public.customers', 'public.orders', and no valid one of '{name}'" in str(failed.value)
    assert "other_tables=['public.customers', 'public.orders']" in str(failed.value)


def test_a_mysql_topic_fails_by_the_connectors_name(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, 1, MYSQL)
    source = Debezium(files(tmp_path), table="shop.orders", keys=["id"])
    loaded = make(spark, tmp_path, source=source, contract=Order, changes=source.changes(), write=Merge())
    with pytest.raises(ContractViolation, match="connector is 'postgresql': declare connector='mysql'"):
        loaded.load(1)


def test_windows_of_other_tables_alone_are_empty_where_these_are_declared(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, 1, event("c", order(1), 110, table="customers"), None)
    write(tmp_path, 2, event("c", order(2), 120), event("c", order(1), 130, table="signals"))
    write(tmp_path, 3, None)
    loaded = table(spark, tmp_path, other_tables=["public.customers"])
    assert [bins(loaded.load(window).evidence) for window in (1, 2, 3)] == [
        {"skipped": 2},
        {"applied": 1, "skipped": 1},
        {"skipped": 1},
    ]
    assert loaded.rows("id") == {(2,)}
    write(tmp_path, 4, event("c", order(1), 140, table="signals"))
    with pytest.raises(SourceUnreadable, match=r"events of 'public.signals', and no valid one of 'public.orders'"):
        loaded.load(4)


def test_a_range_leaves_a_window_of_other_tables_to_a_load_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    for window, of in enumerate(["orders", "customers", "orders"], 1):
        write(tmp_path, window, event("c", order(window), 100 + window, table=of))
    loaded = table(spark, tmp_path)
    windows = [window_of(loaded.table.partitions_def, day(window)) for window in (1, 2, 3)]
    context = LoadContext(spark, loaded.table, loaded.lake)
    reports = load_first_windows(context, windows, lambda asked: {w.key for w in asked})
    assert [report.window.key for some in reports for report in some] == [day(1), day(3)]


def test_each_of_several_sources_is_looked_at_by_itself(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, 1, event("c", order(1), 110))
    other = tmp_path / "other" / day(1) / "rows.json"
    other.parent.mkdir(parents=True)
    other.write_text('{"id": 7, "status": "new", "body": "text", "cdc_sequence": "0"}\n')
    events = Debezium(files(tmp_path), table="public.order", keys=["id"])
    source = Several({"full": Files(f"{tmp_path}/other/{{window:%Y-%m-%d}}/*.json"), "events": events})
    loaded = make(spark, tmp_path, source=source, contract=Order, changes=events.changes(), write=Merge())
    with pytest.raises(SourceUnreadable, match=r"@events 2026-01-01: .*'public.orders', and no valid one of 'pub"):
        loaded.load(1)


def test_a_history_is_refused_in_one_message_whose_remedies_work(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, 1, event("c", order(1, body="long"), 110), event("u", order(1, "paid", MARKER), 120))

    def declared(lake: str, *, truncates: bool = True, **options: Any) -> Any:
        events = Debezium(files(tmp_path), table="public.orders", keys=["id"], **options)
        return make(
            spark, tmp_path / lake, source=events, contract=Order, changes=events.changes(truncates=truncates),
            write=History(), quarantine=Quarantine(max_share=1),
        )  # fmt: skip

    full = r"changes=events.changes\(truncates=False\) of Debezium\(..., replica_identity=\"full\"\)"
    fixed = r"changes=events.changes\(truncates=False\) of Debezium\(..., keys_change=False\), if no row gets a new key"
    with pytest.raises(DeclarationError, match=rf"History does not support rows that get a new.*{fixed}.*{full}"):
        declared("refused")
    loaded = declared("fixed", truncates=False, keys_change=False)
    loaded.load(1)
    assert loaded.rows("id", "status", "body", "is_current") == {(1, "new", "long", False), (1, "paid", "long", True)}
    loaded = declared("full", truncates=False, replica_identity="full")
    loaded.load(1)
    assert loaded.rows("id", "body", "is_current") == {(1, "long", True)}
    assert loaded.log("rejected", "_reasons") == [
        (["body: not in this event, which creates a row or changes its key; use REPLICA IDENTITY FULL"],)
    ]


@pytest.mark.parametrize(
    ("write_as", "changes"),
    [
        (History(), Changes(keys=["id"], sequence_by=["cdc_sequence"], delete_when="cdc_op = 'd'")),
        (Append(), Changes()),
    ],
)
def test_events_with_unavailable_values_are_quarantined_where_the_table_does_not_know_them(
    spark: SparkSession, tmp_path: Path, write_as: Any, changes: Changes
) -> None:
    write(tmp_path, 1, event("c", order(1), 110), event("u", order(1, MARKER, MARKER), 120))
    source = Debezium(files(tmp_path), table="public.orders", keys=["id"])
    loaded = make(
        spark, tmp_path, source=source, contract=Order, changes=changes, write=write_as,
        quarantine=Quarantine(max_share=1),
    )  # fmt: skip
    assert sorted(validated(loaded, "_kind", "_reasons")) == [
        (
            "rejected",
            [
                "status, body: not in this event, and the table's changes do not declare unavailable; "
                "use REPLICA IDENTITY FULL"
            ],
        ),
        ("upsert", []),
    ]


def test_a_row_under_a_new_key_lacks_values_where_the_changes_do_not_say_where_they_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, 1, event("d", order(1, None, None), 110), event("c", order(2, body=MARKER), 110))
    source = Debezium(files(tmp_path), table="public.orders", keys=["id"])
    changes = Changes(keys="id", sequence_by="cdc_sequence", delete_when="cdc_op = 'd'", unavailable=MARKER)
    loaded = make(
        spark, tmp_path, source=source, contract=Order, changes=changes, write=Merge(),
        quarantine=Quarantine(max_share=1),
    )  # fmt: skip
    assert sorted(validated(loaded, "_kind", "id")) == [("delete", 1), ("rejected", 2)]


def test_names_of_tables_and_placeholders_are_looked_at_when_declared(spark: SparkSession, tmp_path: Path) -> None:
    for options, told in (
        ({"table": '"public"."orders"'}, r"table is '\"public\"\.\"orders\"'.*without quotes"),
        ({"other_tables": ["customers"]}, "one of other_tables is 'customers'"),
        ({"other_tables": ["public.orders"]}, "other_tables has 'public.orders', the table itself"),
        ({"unavailable": "hex:5g"}, "unavailable is 'hex:5g'"),
        ({"unavailable": "hex:ff"}, "unavailable is 'hex:ff'"),
        ({"unavailable": ""}, "unavailable is ''"),
    ):
        with pytest.raises(DeclarationError, match=told):
            table(spark, tmp_path, **options)


class Personal(pa.DataFrameModel):
    """A salary is nobody's business."""

    id: T.LongType = pa.Field(nullable=False)
    salary: T.DecimalType(10, 2) = pa.Field(nullable=True, metadata={"personal": True})  # type: ignore[valid-type]
    cdc_sequence: T.StringType = pa.Field(nullable=False)


def test_a_personal_value_that_is_not_of_its_encoding_is_not_shown(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, 1, event("c", {"id": 1, "salary": "5000.00"}, 110))
    [([reason],)] = validated(table(spark, tmp_path, contract=Personal, decimals="precise"), "_reasons")
    assert reason.startswith("salary: *** is not encoded as decimal: ")
