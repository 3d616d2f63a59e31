"""Declarations inferred from real kinds of data: each is a module that loads, and its table is looked at."""

import importlib.util
import json
import re
import textwrap
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets.incremental import table_of
from incload_assets.component.inferred import attributes_of
from incload_assets.inference.files import names_of
from incload_assets.inference.infer import infer
from incload_assets.inference.places import place_of
from incload_assets.inference.render import module_of
from incload_assets.platform.lake import Lake
from tests.component.files import table_in, written
from tests.servers.kafka import KafkaServer
from tests.servers.mariadb import MariadbServer
from tests.servers.postgres import PostgresServer
from tests.servers.s3 import S3Server
from tests.support.tables import Loaded

TAXIS = """pickup,dropoff,passengers,distance,fare,tip,tolls,total,color,payment,pickup_zone
2019-03-23 20:21:09,2019-03-23 20:27:24,1,1.6,7.0,2.15,0.0,12.95,yellow,credit card,Lenox Hill West
2019-03-23 11:48:50,2019-03-23 12:06:14,1,3.63,15.0,1.0,0.0,19.3,yellow,credit card,East Harlem South
2019-03-23 01:33:54,2019-03-23 01:34:54,0,0.0,2.5,0.0,0.0,3.8,green,,
"""
"""From the trip records of New York's taxis, as in the data sets of seaborn."""
NESTED = pa.schema(
    [
        ("order_id", pa.string()),
        ("customer", pa.struct([("email", pa.string()), ("since", pa.date32())])),
        (
            "lines",
            pa.list_(pa.struct([("sku", pa.string()), ("price", pa.decimal128(10, 2)), ("quantity", pa.int32())])),
        ),
        ("attributes", pa.map_(pa.string(), pa.string())),
        ("total", pa.float64()),
        ("updated_at", pa.timestamp("us")),
    ]
)
ODD = '''CREATE TABLE "Order Lines" (
  "OrderNo" integer, "line-no" smallint, "customer's""name""" text, "Amount€" numeric(10,2) NOT NULL, class text,
  tags text[], _hidden text, "Unit Price" numeric, "updatedAt" timestamptz NOT NULL,
  PRIMARY KEY ("OrderNo", "line-no"))'''


def declared(spark: SparkSession, folder: Path, table: str, place: str) -> tuple[str, Loaded]:
    """The module that is inferred from a place, and its table, with an empty lake. In YAML it is the same table."""
    found = infer(spark, table, place_of(place, folder))
    text = module_of(found)
    file = folder / f"{table}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(f"inferred_{table}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = table_of(getattr(module, table))
    assert made is not None
    (folder / "in_yaml").mkdir()
    head = "type: incload_assets.IncrementalTable\n\nattributes:\n"
    other = table_in(written(folder / "in_yaml", head + textwrap.indent(attributes_of(found), "  ")))
    for part in ("name", "partitions_def", "source", "schema", "changes", "write"):
        assert getattr(other, part) == getattr(made, part), part
    assert other.contract.personal == made.contract.personal
    return text, Loaded(spark, made, Lake(str(folder / "lake")), {})


def line_of(text: str, begin: str) -> str:
    """The line of a module that begins so, without indentation."""
    return next(line.strip() for line in text.splitlines() if line.strip().startswith(begin))


def test_a_public_csv_of_taxi_trips(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "taxis").mkdir()
    (tmp_path / "taxis" / "trips_2019-03-23.csv").write_text(TAXIS)
    text, loaded = declared(spark, tmp_path, "taxis", "taxis")

    report = loaded.load("2019-03-23")

    assert f'Files("{tmp_path}/taxis/trips_{{window:%Y-%m-%d}}.csv")' in text
    assert "# fare: all 3 values have at most 1 digit after the point and 2 before it" in text
    assert '"precision": 12, "scale": 2' in line_of(text, "total: T.DecimalType")
    assert "3 values have no offset and are read as UTC" in text
    assert report.evidence.bins["quarantined"] == 0
    assert loaded.rows("pickup", "passengers", "total", "payment") == {
        (datetime(2019, 3, 23, 20, 21, 9, tzinfo=UTC), 1, Decimal("12.95"), "credit card"),
        (datetime(2019, 3, 23, 11, 48, 50, tzinfo=UTC), 1, Decimal("19.30"), "credit card"),
        (datetime(2019, 3, 23, 1, 33, 54, tzinfo=UTC), 0, Decimal("3.80"), None),
    }


@pytest.mark.parametrize(("kind", "written"), [("parquet", pq.write_table), ("orc", orc.write_table)])
def test_parquet_and_orc_with_nested_types(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    written: Callable[[pa.Table, Path], None],
) -> None:
    def order(number: int, day: int, total: float) -> dict[str, Any]:
        lines = [{"sku": "0815", "price": Decimal("4.50"), "quantity": number}]
        customer = {"email": f"c{number}@example.com", "since": date(2025, 1, number)}
        at = datetime(2026, 1, day, 9, number)
        return {"order_id": f"00{number}", "customer": customer, "lines": lines, "attributes": [("gift", "no")],
                "total": total, "updated_at": at}  # fmt: skip

    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    for day, orders in {5: [order(1, 5, 4.5), order(2, 5, 9.25)], 6: [order(2, 6, 9.75)]}.items():
        folder = tmp_path / "landing" / "orders" / f"date=2026-01-0{day}"
        folder.mkdir(parents=True)
        written(pa.Table.from_pylist(orders, NESTED), folder / f"part-0.{kind}")
    text, loaded = declared(spark, tmp_path, "orders", f"landing/orders/date=2026-01-05/part-0.{kind}")

    for day in ("2026-01-05", "2026-01-06"):
        assert loaded.load(day).evidence.bins["quarantined"] == 0

    assert f'Files("{{landing}}/orders/date={{window:%Y-%m-%d}}/part-0.{kind}")' in text
    assert 'changes=Changes(keys=["order_id"], sequence_by=["updated_at"]),' in text
    assert "2 keys in 3 rows, and each once per value of updated_at: several versions of a key" in text
    assert "order_id: T.StringType = pa.Field(nullable=False)" in text
    assert '"precision": 12, "scale": 2' in line_of(text, "total: T.DecimalType")
    assert "personal by its member 'email' (email)" in text
    assert loaded.rows("order_id", "total") == {("001", Decimal("4.50")), ("002", Decimal("9.75"))}


def test_avro_with_the_types_of_its_schema(spark: SparkSession, tmp_path: Path) -> None:
    instant = {"type": "long", "logicalType": "timestamp-micros"}
    fields = {"order_id": "string", "quantity": "int", "updated_at": instant, "clock": "long"}
    members = [{"name": name, "type": kind} for name, kind in fields.items()]
    schema = fastavro.parse_schema({"type": "record", "name": "Order", "fields": members})
    (tmp_path / "orders").mkdir()
    for day in (5, 6):
        at = datetime(2026, 1, day, 9, tzinfo=UTC)
        rows = [{"order_id": f"00{day}", "quantity": day, "updated_at": at, "clock": 2**40}]
        with (tmp_path / "orders" / f"2026-01-0{day}.avro").open("wb") as file:
            fastavro.writer(file, schema, rows)
    text, loaded = declared(spark, tmp_path, "orders", "orders")
    assert loaded.load("2026-01-05").evidence.bins["quarantined"] == 0
    assert f'Files("{tmp_path}/orders/{{window:%Y-%m-%d}}.avro")' in text
    assert "updated_at: T.TimestampType" in text
    assert loaded.rows("order_id", "quantity") == {("005", 5)}


def test_the_names_of_files_on_s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    s3_server.put("inferred", {f"codes/2026-01-0{day}.csv": b"code;rate\n01;1,5\n" for day in (5, 6)})
    for place in ("s3://inferred/codes/", "s3://inferred/codes/2026-01-05.csv"):
        assert names_of("codes", place).path == "s3://inferred/codes/{window:%Y-%m-%d}.csv"
        assert names_of("codes", place).windows == (datetime(2026, 1, 5), datetime(2026, 1, 6))


def test_a_table_of_postgresql_with_odd_names(
    spark: SparkSession, tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = datetime.now(UTC) - timedelta(minutes=3)
    rows = f"""INSERT INTO "Order Lines" VALUES (7, 1, 'Ada', 10.50, 'A', '{{x,y}}', 'h', 5.25, '{at.isoformat()}')"""
    url = postgres.database("odd", ODD, rows)
    for name in ("URL", "USER", "PASSWORD"):
        monkeypatch.setenv(f"INCLOAD_DATABASE_ODD_{name}", "")
    address = url.replace("//", f"//{postgres.user}:{postgres.password}@")
    text, loaded = declared(spark, tmp_path, "lines", f"{address}/public.Order Lines")

    report = loaded.load(f"{at:%Y-%m-%d}")

    assert postgres.password not in text
    assert 'QueryByTime("odd", "public.Order Lines", modified="updatedAt")' in text
    assert 'changes=Changes(keys=["OrderNo", "line-no"], sequence_by=["updatedAt"])' in text
    assert "# key: OrderNo, line-no: the primary key in the database" in text
    assert "order: updatedAt: never NULL, newest 3 min ago" in text
    assert "# Amount€: numeric(10,2) in the database; NOT NULL at the source, never NULL in 1 rows" in text
    assert 'class_: T.StringType = pa.Field(nullable=True, alias="class")' in text
    assert "'Unit Price' is left out: Delta accepts no ' ' in names" in text
    assert "'_hidden' is left out: names that begin with _ are reserved" in text
    assert report.evidence.bins["quarantined"] == 0
    assert loaded.rows("OrderNo", "line-no", "Amount€", 'customer\'s"name"', "tags") == {
        (7, 1, Decimal("10.50"), "Ada", '["x","y"]')
    }


def test_a_table_of_mariadb(
    spark: SparkSession, tmp_path: Path, mariadb: MariadbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = datetime.now(UTC) - timedelta(minutes=3)
    url = mariadb.database(
        "lines",
        """CREATE TABLE `Order Lines` (OrderNo int unsigned, `line``no` smallint, amount decimal(10,2) NOT NULL,
          paid tinyint(1), total bigint unsigned, day date, kind enum('a', 'b'), data varbinary(9),
          updated_at datetime(6) NOT NULL, PRIMARY KEY (OrderNo, `line``no`))""",
        f"""INSERT INTO `Order Lines` VALUES (7, 1, 10.5, 1, 18446744073709551615, '2026-01-05', 'b', x'ff',
          '{at:%Y-%m-%d %H:%M:%S.%f}')""",
    )
    for name in ("URL", "USER", "PASSWORD"):
        monkeypatch.setenv(f"INCLOAD_DATABASE_LINES_{name}", "")
    address = url.replace("//", f"//{mariadb.user}:{mariadb.password}@")
    text, loaded = declared(spark, tmp_path, "lines", f"{address}/Order Lines")

    report = loaded.load(f"{at:%Y-%m-%d}")

    assert mariadb.password not in text
    assert 'QueryByTime("lines", "Order Lines", modified="updated_at")' in text
    assert 'changes=Changes(keys=["OrderNo", "line`no"], sequence_by=["updated_at"])' in text
    assert "# amount: decimal(10,2) in the database; NOT NULL at the source, never NULL in 1 rows" in text
    assert "'updated_at' has no index" in text or "which has no index of its own" in text
    assert report.evidence.bins["quarantined"] == 0
    assert loaded.rows("OrderNo", "line`no", "amount", "paid", "total", "day", "kind", "data") == {
        (7, 1, Decimal("10.50"), 1, Decimal(2**64 - 1), date(2026, 1, 5), "b", b"\xff")
    }


@pytest.mark.parametrize(
    ("connector", "of", "more"),
    [
        ("postgresql", "public", ""),
        ("mariadb", "shop", ', connector="mariadb", logs=["shop/mysql-bin/1"]'),
    ],
)
def test_a_topic_of_debezium(
    spark: SparkSession, tmp_path: Path, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch,
    connector: str, of: str, more: str,
) -> None:  # fmt: skip
    topic, at = f"odd.{of}.orders", datetime.now(UTC)
    kafka.create(topic)
    row = {"id": 2, "placed": 20459, "total": "AfQ=", "status": "new"}
    deleted = {"id": 2, "placed": 0, "total": "", "status": None} if connector == "postgresql" else row
    events = [
        event("c", None, {"id": 1, "placed": 20458, "total": "BBo=", "status": "new"}, 100, connector),
        event("u", None, {"id": 1, "placed": 20458, "total": "BBo=", "status": "paid"}, 110, connector),
        event("c", None, row, 120, connector),
        event("d", deleted, None, 130, connector),
    ]
    key = {"schema": {"type": "struct"}, "payload": {"id": 1}}
    keys = [json.dumps({**key, "payload": {"id": number}}) for number in (1, 1, 2, 2)]
    stamp = int(at.timestamp() * 1000)
    kafka.send(topic, [(0, k, json.dumps(e), stamp) for k, e in zip(keys, events, strict=True)])
    monkeypatch.setenv("INCLOAD_KAFKA_ODD_SERVERS", kafka.servers)
    text, loaded = declared(spark, tmp_path, "orders", f"odd.{topic}")

    report = loaded.load(f"{at:%Y-%m-%d}")

    declaration = f'Debezium(Kafka("odd", "odd.{of}.orders"), table="{of}.orders", keys=["id"]{more})'
    assert f"events = {declaration}" in re.sub(r"\s+", " ", text).replace("( ", "(").replace(", )", ")")
    assert "# key: id: the key of the messages" in text
    assert f"4 events of {of}.orders, with the operations c, d, u, with schemas" in text
    assert re.search(r'total: T.DecimalType = .*"precision": 12, "scale": 2', text)
    assert "placed: T.DateType = pa.Field(nullable=True)" in text
    assert "cdc_sequence: T.StringType = pa.Field(nullable=False)" in text
    assert report.evidence.bins["quarantined"] == 0
    assert loaded.rows("id", "placed", "total", "status") == {(1, date(2026, 1, 5), Decimal("10.50"), "paid")}


def test_a_topic_of_messages_whose_last_one_of_a_key_counts(
    spark: SparkSession, tmp_path: Path, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, at = "odd.visits", datetime.now(UTC)
    kafka.create(topic)
    messages = [
        {"visit_id": "a1", "page": {"path": "/", "seconds": 1.5}, "phone": "+49 30 123456"},
        {"visit_id": "a1", "page": {"path": "/cart", "seconds": 20}, "phone": "+49 30 123456"},
    ]
    kafka.send(topic, [(0, None, json.dumps(message), int(at.timestamp() * 1000)) for message in messages])
    monkeypatch.setenv("INCLOAD_KAFKA_ODD_SERVERS", "")
    text, loaded = declared(spark, tmp_path, "visits", f"kafka://{kafka.servers}/{topic}")

    assert loaded.load(f"{at:%Y-%m-%d}").evidence.bins["quarantined"] == 0

    assert 'source=Kafka("odd", "odd.visits"),' in text
    assert "# key: visit_id: by its name; 1 key in 2 messages" in text
    assert 'changes=Changes(keys=["visit_id"], sequence_by=["kafka_offset"]),' in text
    assert "personal by its name (phone)" in text
    assert loaded.rows("visit_id", "kafka_offset") == {("a1", 1)}


def event(
    op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, lsn: int, connector: str
) -> dict[str, Any]:
    """An event with its schema, as the connectors for PostgreSQL and MariaDB write it."""
    columns = [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "placed", "type": "int32", "optional": True, "name": "io.debezium.time.Date"},
        {"field": "total", "type": "bytes", "optional": True, "name": "org.apache.kafka.connect.data.Decimal",
         "parameters": {"scale": "2", "connect.decimal.precision": "12"}},
        {"field": "status", "type": "string", "optional": True},
    ]  # fmt: skip
    images = [{"field": name, "type": "struct", "optional": True, "fields": columns} for name in ("before", "after")]
    source = {"connector": connector, "name": "shop", "ts_ms": 1767225600123, "snapshot": "false", "db": "shop",
              "table": "orders"}  # fmt: skip
    source |= (
        {"sequence": json.dumps([str(lsn - 1), str(lsn)]), "schema": "public", "txId": lsn, "lsn": lsn}
        if connector == "postgresql"
        else {"server_id": 1, "gtid": f"0-1-{lsn}", "file": "mysql-bin.000001", "pos": lsn, "row": 0}
    )
    payload = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1767225600500}
    return {"schema": {"type": "struct", "fields": images}, "payload": payload}
