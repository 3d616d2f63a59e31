"""Events of all connectors: literal ones, as published or as captured, each with its order of positions."""

import random
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Debezium
from incload_assets.platform.errors import DeclarationError, SourceUnreadable
from tests.sources.debezium.test_debezium import bins, column, event, files, order, table, validated, write

Facts = Mapping[str, Any]
LOGS = ["shop/mysql-bin/1", "shop/standby-bin/1,2"]
BINLOG: dict[str, Any] = {"table": "shop.orders", "logs": LOGS}
DECLARED: dict[str, dict[str, Any]] = {
    "postgresql": {},
    "mysql": BINLOG,
    "mariadb": BINLOG,
    "sqlserver": {"table": "shop.dbo.orders"},
    "oracle": {"table": "SHOP.ORDERS"},
    "mongodb": {"table": "shop.orders"},
}
NAMED: dict[str, Facts] = {
    "postgresql": {"schema": "public", "table": "orders"},
    "mysql": {"db": "shop", "table": "orders"},
    "mariadb": {"db": "shop", "table": "orders"},
    "sqlserver": {"db": "shop", "schema": "dbo", "table": "orders"},
    "oracle": {"db": "ORCL", "schema": "SHOP", "table": "ORDERS"},
    "mongodb": {"db": "shop", "collection": "orders", "rs": "rs0"},
}


def binlog(file: str, pos: int, row: int = 0, server: int = 1, **more: Any) -> Facts:
    gtid = f"0-{server}-{pos}" if server else None
    return {"file": file, "pos": pos, "row": row, "server_id": server, "gtid": gtid, **more}


def sqlserver(commit: str | None, change: str | None, number: str | None = None, **more: Any) -> Facts:
    return {"commit_lsn": commit, "change_lsn": change, "event_serial_no": number, **more}


def oracle(commit: str | None, scn: str, place: str | None = None, ssn: int = 0, **more: Any) -> Facts:
    return {"commit_scn": commit, "scn": scn, "rs_id": place, "ssn": ssn, "txId": "6.28.807", **more}


SNAPSHOT = {"snapshot": "true"}
IN_ORDER: dict[str, list[Facts]] = {
    "postgresql": [
        {"lsn": 200, "sequence": '[null,"200"]', **SNAPSHOT},
        {"lsn": 210, "sequence": '["205","210"]'},
        {"lsn": 190, "sequence": '["215","190"]'},
        {"lsn": 2**40, "sequence": '["216","1099511627776"]'},
    ],
    "mysql": [
        binlog("mysql-bin.000002", 2929, server=0, **SNAPSHOT),
        binlog("mysql-bin.000002", 2929),
        binlog("mysql-bin.000002", 7844),
        binlog("mysql-bin.000002", 7844, row=1),
        binlog("mysql-bin.000002", 7844, row=10),
        binlog("mysql-bin.000002", 12072, server=1, snapshot="incremental"),
        binlog("mysql-bin.000002", 12072),
        binlog("mysql-bin.000003", 421),
        binlog("mysql-bin.999999", 5_000_000_000),
        binlog("mysql-bin.1000000", 4),
        binlog("mysql-bin.2147483647", 4),
        binlog("standby-bin.000001", 4, server=1),
        binlog("standby-bin.000001", 300, server=0, **SNAPSHOT),
        binlog("standby-bin.000001", 400, server=2),
    ],
    "sqlserver": [
        sqlserver("00000025:00000d98:00a1", "00000025:00000d98:0003", "1"),
        sqlserver("00000025:00000d98:00a2", None, **SNAPSHOT),
        sqlserver("00000027:00000758:0005", "00000027:00000758:0003", "1"),
        sqlserver("00000027:00000758:0005", "00000027:00000758:0003", "2"),
        sqlserver("00000027:00000758:0005", "00000027:00000758:0004", "1"),
        sqlserver("00000027:00000AC0:0007", "00000027:00000ac0:0002", None),
        sqlserver("00000029:00000760:0005", "00000029:00000760:0005", snapshot="incremental"),
    ],
    "oracle": [
        oracle("999", "998", "0x000036.00000024.0010"),
        oracle(None, "1513700", **SNAPSHOT),
        oracle("1513754", "1513734", "0x000036.00000024.0010", 1),
        oracle("1513754", "1513734", "0x000036.00000024.0010", 12),
        oracle("1513754", "1513734", "0x000036.00000025.0000"),
        oracle("1513755", "1513600", "0x000035.00000024.0010"),
        {"commit_scn": "1513756", "scn": "1513756", "lcr_position": "0000000000171930"},
        oracle("18446744073709551616", "1513756", "0x000036.00000024.0010"),
    ],
    "mongodb": [
        {"ts_ms": 1558965507000, "ord": 31, "snapshot": "true"},
        {"ts_ms": 1558965508000, "ord": 1},
        {"ts_ms": 1558965508000, "ord": 31},
        {"ts_ms": 1558965509000, "ord": 2},
        {"ts_ms": 15589655090000, "ord": 1},
    ],
}
IN_ORDER["mariadb"] = IN_ORDER["mysql"]
UNORDERED: dict[str, dict[str, Facts]] = {
    "postgresql": {"neither lsn nor sequence": {"lsn": None}},
    "mysql": {
        "'shop/other-bin/1', and logs has no such": binlog("other-bin.000001", 4),
        "'shop/mysql-bin/2', and logs has no such": binlog("mysql-bin.000002", 4, server=2),
        "'elsewhere/mysql-bin/1', and logs has": binlog("mysql-bin.000002", 4, name="elsewhere"),
        "'shop/mysql-bin/1', and logs has no such log and server, or the": binlog("mysql-bin.000002", -1),
        "'shop//1', and logs has no such": binlog("mysql-bin", 4),
        "'shop/?/?'": {},
    },
    "sqlserver": {
        "no commit_lsn or no change_lsn": sqlserver("00000027:00000758:0005", None),
        "no commit_lsn or": sqlserver("27:758:5", "00000027:00000758:0003"),
    },
    "oracle": {
        "source has no scn": oracle(None, "1513734", "0x000036.00000024.0010"),
        "neither rs_id nor lcr_position": oracle("1513754", "1513734"),
    },
    "mongodb": {
        "all changes of a transaction have one": {"ts_ms": 1558965508000, "ord": 1, "lsid": "{}", "txnNumber": 1},
        "no ts_ms and ord": {"ts_ms": 1558965508000},
    },
}


def told(connector: str, op: str, row: Mapping[str, Any] | None, facts: Facts) -> dict[str, Any]:
    """An event of a connector; ``row`` is the state after it, of a delete the one before."""
    image: Any = row
    if connector == "mongodb" and row is not None:
        text = ", ".join(f'"{name}": "{value}"' for name, value in row.items() if name != "id")
        image = f'{{"_id": {{"$numberLong": "{row["id"]}"}}, {text}}}'
    source = {"connector": connector, "name": "shop", "snapshot": "false", "ts_ms": 1, **NAMED[connector], **facts}
    return {"before": image if op == "d" else None, "after": None if op == "d" else image, "source": source, "op": op}


@pytest.mark.parametrize("connector", list(IN_ORDER))
def test_sequences_have_the_order_of_positions_and_what_has_none_is_quarantined(
    spark: SparkSession, tmp_path: Path, connector: str
) -> None:
    events = [
        told(connector, "r" if "snapshot" in facts else "c", order(id, f"{id}"), facts)
        for id, facts in enumerate(IN_ORDER[connector])
    ]
    unknown = [told(connector, "c", order(100), facts) for facts in UNORDERED.get(connector, {}).values()]
    write(tmp_path, 1, *random.sample(events, len(events)), *unknown)
    loaded = table(spark, tmp_path, connector=connector, **DECLARED[connector])
    found = validated(loaded, "id", "_reasons", "cdc_sequence")
    known = sorted((sequence, id) for id, reasons, sequence in found if not reasons)
    assert [id for _, id in known] == [*range(len(events))], known
    assert len({sequence for sequence, _ in known}) == len(events)
    reasons = [reason for _, [*some], _ in found for reason in some]
    for part, reason in zip(UNORDERED.get(connector, {}), reasons, strict=True):
        assert part in reason
    [sample] = {len(sequence.split("/")) for sequence, _ in known} if connector != "oracle" else {4}
    assert sample > 1


def test_sequences_of_postgresql_are_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, 1, event("c", order(1), 210, committed=205), event("r", order(2), 300, snapshot="last"))
    assert sorted(validated(table(spark, tmp_path), "cdc_sequence")) == [
        ("00000000000000D2/00000000000000D2",),
        ("000000000000012C/0000000000000000",),
    ]
    events = Debezium(files(tmp_path), table="public.orders", keys=["id"])
    assert "connector" not in repr(events)  # it is part of the code version
    assert "connector='mysql'" in repr(Debezium(files(tmp_path), table="a.b", keys=["id"], connector="mysql"))


MARIADB_BETWEEN = [
    None,
    {"ts_ms": 1795946335000},
    {"status": "BEGIN", "id": "0-11-9", "event_count": None, "data_collections": None, "ts_ms": 1795946319000},
    {
        "source": {"connector": "mariadb", "name": "shop", "db": "shop", "table": "orders", **binlog("m.000003", 421)},
        "ts_ms": 1795946335263, "databaseName": "shop", "schemaName": None,
        "ddl": "ALTER TABLE orders ADD COLUMN extra int, DROP COLUMN note", "tableChanges": [{"type": "ALTER"}],
    },
]  # fmt: skip


@pytest.mark.parametrize("connector", ["mysql", "sqlserver", "oracle", "mongodb"])
def test_a_window_of_former_changes_does_not_take_the_table_back(
    spark: SparkSession, tmp_path: Path, connector: str
) -> None:
    snapshot, *_, before, last = IN_ORDER[connector][connector in ("sqlserver", "oracle") :]
    former = [told(connector, "r", order(id), snapshot) for id in (1, 2)]
    write(tmp_path, 1, *former, told(connector, "u", order(1, "paid"), before))
    write(tmp_path, 2, told(connector, "u", order(1, "sent"), last), told(connector, "d", order(2), last), None)
    loaded = table(spark, tmp_path, connector=connector, **DECLARED[connector])
    for window in (2, 1):
        loaded.load(window)
    assert loaded.rows("id", "status") == {(1, "sent")}
    assert loaded.log("rejected", "_reasons") == []


def test_what_mariadb_writes_between_changes_is_skipped_and_a_truncate_empties_the_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    def at(pos: int, op: str, row: Any, row_number: int = 0, **more: Any) -> Any:
        return told("mariadb", op, row, binlog("mysql-bin.000002", pos, row_number, **more))

    wrapped = [{"schema": {"type": "struct", "fields": []}, "payload": some} for some in MARIADB_BETWEEN[1:]]
    write(tmp_path, 1, at(100, "c", order(1)), at(100, "c", order(2), 1), *MARIADB_BETWEEN, *wrapped)
    write(tmp_path, 2, at(200, "t", None), at(300, "c", order(3)), at(400, "d", order(3)), at(400, "c", order(4)))
    write(tmp_path, 3, at(350, "c", {**order(9), "extra": 7}, table="customers"), *MARIADB_BETWEEN)
    options = {**DECLARED["mariadb"], "connector": "mariadb"}
    loaded = table(spark, tmp_path, other_tables=["shop.customers"], **options)
    assert [bins(loaded.load(window).evidence) for window in (2, 3, 1)] == [
        {"applied": 3, "stale": 1},
        {"skipped": 5},
        {"stale": 2, "skipped": 7},
    ]
    assert loaded.rows("id") == {(4,)}
    alone = table(spark, tmp_path, "alone", **options)
    with pytest.raises(SourceUnreadable, match=r"events of 'shop.customers', and no valid one of 'shop.orders'"):
        alone.load(3)


def test_declarations_name_tables_and_logs_as_the_connector_does(spark: SparkSession, tmp_path: Path) -> None:
    for options, message in (
        ({"connector": "mysql", "table": "shop.orders"}, r"logs is \[\], and connector is 'mysql'.*mysql-bin/1"),
        ({"connector": "sqlserver", "table": "s.d.o", "logs": LOGS}, "connector is 'sqlserver'.*leave logs out"),
        ({"logs": LOGS}, "connector is 'postgresql'.*leave logs out"),
        ({"connector": "mysql", **BINLOG, "logs": ["mysql-bin"]}, "logs names 'mysql-bin'"),
        ({"connector": "mysql", **BINLOG, "logs": ["shop/mysql-bin/a"]}, "logs names 'shop/mysql-bin/a'"),
        ({"connector": "mysql", **BINLOG, "logs": ["a/b/1", "a/b/2"]}, "logs names 'a/b' twice.*new topic prefix"),
        ({"connector": "mysql", **BINLOG, "table": "orders"}, "table is 'orders'.*database and name"),
        ({"connector": "sqlserver", "table": "dbo.orders"}, "table is 'dbo.orders'.*write \"shop.dbo.orders\""),
        ({"connector": "mongodb", "table": "orders"}, "table is 'orders'.*a collection is identified"),
        ({"connector": "db2", "table": "a.b"}, "connector is 'db2'"),
        ({"encodings": {"id": "unsigned"}}, "the encoding of 'id' is 'unsigned'"),
    ):
        with pytest.raises(DeclarationError, match=message):
            table(spark, tmp_path, **options)


class Items(pa.DataFrameModel):
    """A column of each type of MySQL that is not as PostgreSQL has it."""

    id: T.LongType = pa.Field(nullable=False)
    flag: T.IntegerType = pa.Field(nullable=True)
    big: T.DecimalType(20, 0) = pa.Field(nullable=True)  # type: ignore[valid-type]
    price: T.DecimalType(12, 2) = pa.Field(nullable=True)  # type: ignore[valid-type]
    bit: T.BooleanType = pa.Field(nullable=True)
    bits: T.BinaryType = pa.Field(nullable=True)
    year: T.IntegerType = pa.Field(nullable=True)
    day: T.DateType = pa.Field(nullable=True)
    clock: T.StringType = pa.Field(nullable=True)
    at: T.TimestampType = pa.Field(nullable=True)
    fine: T.TimestampType = pa.Field(nullable=True)
    zoned: T.TimestampType = pa.Field(nullable=True)
    doc: T.StringType = pa.Field(nullable=True)
    kind: T.StringType = pa.Field(nullable=True)
    kinds: T.StringType = pa.Field(nullable=True)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


CAPTURED = {
    "id": 1, "flag": 1, "big": -1, "price": "/h3G", "bit": True, "bits": "AQE=", "year": 2026, "day": 20455,
    "clock": -3020398999999, "at": 1767323045000, "fine": 1767323045123456, "zoned": "2026-01-02T03:04:05.123456Z",
    "doc": '{"a": 1.10, "ä": [1,2]}', "kind": "b'c", "kinds": "x,z",
}  # fmt: skip
READ = (
    1, 1, Decimal(2**64 - 1), Decimal("-1234.50"), True, b"\1\1", 2026, date(2026, 1, 2), "-838:59:58.999999",
    datetime(2026, 1, 2, 3, 4, 5, 0, UTC), *[datetime(2026, 1, 2, 3, 4, 5, 123456, UTC)] * 2,
    '{"a": 1.10, "ä": [1,2]}', "b'c", "x,z",
)  # fmt: skip
ZERO = {
    "id": 2, "flag": 0, "big": 2**63 - 1, "price": "AA==", "bit": False, "bits": "AAA=", "year": 1901, "day": None,
    "clock": 3020399000000, "at": None, "fine": None, "zoned": "1970-01-01T00:00:00Z", "doc": "null", "kind": "a",
    "kinds": "",
}  # fmt: skip
READ_ZERO = (
    2, 0, Decimal(2**63 - 1), Decimal("0.00"), False, b"\0\0", 1901, None, "838:59:59.000000", None, None,
    datetime(1970, 1, 1, tzinfo=UTC), "null", "a", "",
)  # fmt: skip
NAMES = {
    "price": ("bytes", "org.apache.kafka.connect.data.Decimal", 2), "day": ("int32", "io.debezium.time.Date", None),
    "bits": ("bytes", "io.debezium.data.Bits", None), "year": ("int32", "io.debezium.time.Year", None),
    "clock": ("int64", "io.debezium.time.MicroTime", None), "at": ("int64", "io.debezium.time.Timestamp", None),
    "fine": ("int64", "io.debezium.time.MicroTimestamp", None), "kind": ("string", "io.debezium.data.Enum", None),
    "zoned": ("string", "io.debezium.time.ZonedTimestamp", None), "doc": ("string", "io.debezium.data.Json", None),
}  # fmt: skip


@pytest.mark.parametrize("with_schema", [False, True])
def test_values_of_mysql_are_read_with_and_without_schemas(
    spark: SparkSession, tmp_path: Path, with_schema: bool
) -> None:
    rows = [{**CAPTURED}, {**ZERO}]
    events: list[Any] = [told("mariadb", "c", row, binlog("mysql-bin.000002", 4, i)) for i, row in enumerate(rows)]
    encodings = {"big": "unsigned"}
    if with_schema:
        fields = [column(name, *NAMES.get(name, ("int64", None, None))) for name in CAPTURED]
        images = [{"type": "struct", "fields": fields, "field": name} for name in ("before", "after")]
        events = [{"schema": {"type": "struct", "fields": images}, "payload": event} for event in events]
    else:
        encodings |= {"clock": "time[us]", "fine": "timestamp[us]"}
    write(tmp_path, 1, *events)
    options: dict[str, Any] = {} if with_schema else {"decimals": "precise"}
    loaded = table(
        spark, tmp_path, contract=Items, connector="mariadb", encodings=encodings, **BINLOG, **options
    )  # fmt: skip
    assert sorted(validated(loaded, "_reasons", *loaded.table.columns[:-1])) == [([], *READ), ([], *READ_ZERO)]


def test_a_value_that_the_default_does_not_fit_is_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    row = {**CAPTURED, "clock": 3_020_400_000_000, "big": 1}  # after the longest time
    write(tmp_path, 1, told("mysql", "c", row, binlog("mysql-bin.000002", 4)))
    options = {**BINLOG, "connector": "mysql", "decimals": "precise", "encodings": {"clock": "time[us]"}}
    loaded = table(spark, tmp_path, contract=Items, **options)
    [(reasons,)] = validated(loaded, "_reasons")
    text = "; ".join(reasons)
    assert "clock: '3020400000000' is not encoded as time[us]" in text


class Document(pa.DataFrameModel):
    """A document of MongoDB."""

    id: T.StringType = pa.Field(nullable=False)
    number: T.LongType = pa.Field(nullable=True)
    price: T.DecimalType(10, 2) = pa.Field(nullable=True)  # type: ignore[valid-type]
    at: T.TimestampType = pa.Field(nullable=True)
    lines: T.StringType = pa.Field(nullable=True)
    text: T.StringType = pa.Field(nullable=True)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


DOCUMENT = (
    r'{"_id": {"$oid": "596e275826f08b2730779e1f"}, "number": {"$numberLong": "9007199254740993"}, '
    r'"price": {"$numberDecimal": "1.10"}, "at": {"$date": 1767323045123}, '
    r'"lines": [{"n": {"$numberLong": "1"}}], "text": "{\"$oid\": \"596e275826f08b2730779e1f\"}"}'
)


def test_documents_of_mongodb_are_rows_and_what_lacks_the_document_is_quarantined(
    spark: SparkSession, tmp_path: Path
) -> None:
    def at(ord: int, op: str, before: str | None, after: str | None, **more: Any) -> Any:
        return {
            **told("mongodb", op, None, {"ts_ms": 1558965508000, "ord": ord}),
            "before": before,
            "after": after,
            **more,
        }

    update = {"removedFields": None, "updatedFields": '{"number": {"$numberLong": "2"}}', "truncatedArrays": None}
    write(
        tmp_path,
        1,
        at(1, "c", None, DOCUMENT),
        at(2, "u", None, None, updateDescription=update),
        at(3, "d", None, None),
        at(4, "c", None, '{"_id": 1, "id": 2}'),
        at(5, "c", None, "[1]"),
        at(6, "u", DOCUMENT, DOCUMENT.replace("9007199254740993", "7"), updateDescription=update),
    )
    loaded = table(
        spark, tmp_path, contract=Document, connector="mongodb", table="shop.orders", decimals="string"
    )  # fmt: skip
    found = validated(loaded, "_reasons", *loaded.table.columns[:-1])
    read = (
        "596e275826f08b2730779e1f", 9007199254740993, Decimal("1.10"),
        datetime(2026, 1, 2, 3, 4, 5, 123000, UTC), '[{"n":1}]', '{"$oid": "596e275826f08b2730779e1f"}',
    )  # fmt: skip
    assert [tuple(row) for row in found if not row[0]] == [([], *read), ([], read[0], 7, *read[2:])]
    capture = "; use capture.mode=change_streams_update_full_with_pre_image"
    assert [row[0] for row in found if row[0]] == [
        [f"op 'u' without after{capture}"],
        [f"op 'd' without before{capture}"],
        ["the document has a field 'id' beside '_id', which is read as 'id'"],
        [f"op 'c' without after{capture}"],
    ]
