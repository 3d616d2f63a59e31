"""PostgreSQL, Debezium, Kafka Connect's converter to Avro, and a registry as they are: the table is the database's."""

import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from time import monotonic, sleep

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from incload_assets.assets import Debezium, Kafka
from incload_assets.platform import schema_registry
from tests.servers.connect import ConnectServer
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer
from tests.servers.registry import Registry
from tests.support.tables import make

pytestmark = pytest.mark.integration

TABLE = """
CREATE TABLE orders (id bigint PRIMARY KEY, status text, amount numeric(12,2), free numeric, ratio double precision,
single real, flag boolean, due date, placed timestamp(3), changed timestamp, seen timestamptz, clock time, data bytea,
doc jsonb, code uuid, tags text[])
"""


class Order(pa.DataFrameModel):
    """As in the database."""

    id: T.LongType = pa.Field(nullable=False)
    status: T.StringType = pa.Field(nullable=True)
    amount: T.DecimalType(12, 2) = pa.Field(nullable=True)  # type: ignore[valid-type]
    free: T.DecimalType(30, 10) = pa.Field(nullable=True)  # type: ignore[valid-type]
    ratio: T.DoubleType = pa.Field(nullable=True)
    single: T.FloatType = pa.Field(nullable=True)
    flag: T.BooleanType = pa.Field(nullable=True)
    due: T.DateType = pa.Field(nullable=True)
    placed: T.TimestampType = pa.Field(nullable=True)
    changed: T.TimestampType = pa.Field(nullable=True)
    seen: T.TimestampType = pa.Field(nullable=True)
    clock: T.StringType = pa.Field(nullable=True)
    data: T.BinaryType = pa.Field(nullable=True)
    doc: T.StringType = pa.Field(nullable=True)
    code: T.StringType = pa.Field(nullable=True)
    tags: T.ArrayType(T.StringType()) = pa.Field(nullable=True)  # type: ignore[valid-type]
    cdc_sequence: T.StringType = pa.Field(nullable=False)


def avro(registry: Registry) -> Mapping[str, str]:
    """The options of a connector that writes Avro by ids as Confluent's converter does."""
    options = {
        "": "io.apicurio.registry.utils.converter.AvroConverter",
        ".apicurio.registry.url": f"http://127.0.0.1:{registry.port}/apis/registry/v2",
        ".apicurio.registry.auto-register": "true",
        ".apicurio.registry.find-latest": "true",
        ".apicurio.registry.headers.enabled": "false",
        ".apicurio.registry.as-confluent": "true",
        ".apicurio.registry.use-id": "contentId",
    }
    return {f"{part}.converter{name}": value for part in ("key", "value") for name, value in options.items()}


def wait_for_events(kafka: KafkaServer, topic: str, number: int, connect: ConnectServer, connector: str) -> None:
    """Wait until so many events are in the topic, which the first one makes."""
    deadline, found = monotonic() + 240, 0
    while found < number:
        assert monotonic() < deadline, f"{found} of {number} events have come: {connect.status(connector)}"
        sleep(0.1)
        with suppress(KafkaException):
            found = kafka.end(topic, 0)
    assert found == number


def test_a_table_kept_from_events_in_avro_is_the_databases_also_after_a_new_column(
    spark: SparkSession,
    kafka: KafkaServer,
    postgres: PostgresServer,
    connect: ConnectServer,
    registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", kafka.servers)
    monkeypatch.setenv("INCLOAD_REGISTRY_MAIN_URL", registry.url)
    schema_registry.forget()
    name = f"avro_{uuid.uuid4().hex[:8]}"
    topic = f"{name}.public.orders"
    postgres.database(name, TABLE)
    instant = "2026-01-02 03:04:05.678901"
    full = (
        f"'new', 1234567890.12, 12345678901234567890.0123456789, 0.1, 0.1, true, '1500-01-02', '{instant}', "
        f"'{instant}', '{instant}+00', '12:34:56.123456', '\\x00ff', '{{\"a\": 1.10}}', "
        "'6ba7b810-9dad-11d1-80b4-00c04fd430c8', ARRAY['x', NULL]"
    )
    postgres.run(name, f"INSERT INTO orders VALUES (1, {full})", "INSERT INTO orders (id) VALUES (2)")
    with connect.debezium(postgres, name, name, "public.orders", **avro(registry)):
        wait_for_events(kafka, topic, 2, connect, name)  # else the snapshot would also have what follows
        postgres.run(
            name,
            f"INSERT INTO orders VALUES (9223372036854775807, {full})",
            "UPDATE orders SET status = 'paid', amount = -0.01 WHERE id = 1",
            "DELETE FROM orders WHERE id = 2",
            "ALTER TABLE orders ADD COLUMN extra int",
            "INSERT INTO orders (id, extra) VALUES (3, 7)",
        )
        wait_for_events(kafka, topic, 7, connect, name)  # with the tombstone of the delete
    source = Debezium(Kafka("shop", topic, format="avro", registry="main"), table="public.orders", keys=["id"])
    years = dg.TimeWindowPartitionsDefinition(start="2020", fmt="%Y", cron_schedule="0 0 1 1 *", end_offset=1)
    orders = make(spark, tmp_path, source=source, contract=Order, changes=source.changes(), partitions_def=years)
    report = orders.load(f"{datetime.now(UTC):%Y}")
    assert (report.record.rejected, report.evidence.waiting) == (0, 0)
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    values = (
        Decimal("12345678901234567890.0123456789"), 0.1, pytest.approx(0.1), True, date(1500, 1, 2),
        at.replace(microsecond=679000), at, at, "12:34:56.123456", b"\x00\xff", '{"a": 1.10}',
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8", ["x", None],
    )  # fmt: skip
    columns = [column for column in Order.to_schema().columns if column != "cdc_sequence"]
    delta = orders.lake.delta(orders.uri)
    assert delta is not None
    rows = delta.to_pyarrow_table(columns=columns).to_pylist()
    found = {row["id"]: tuple(row[column] for column in columns[1:]) for row in rows}
    assert found == {
        1: ("paid", Decimal("-0.01"), *values),
        2**63 - 1: ("new", Decimal("1234567890.12"), *values),
        3: (None,) * 15,
    }
    assert [rescued for id, rescued in orders.log("upsert", "id", "_rescued") if id == 3] == ['{"extra":7}']
