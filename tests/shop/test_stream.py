"""The shop's topic: web events sent as the clock advances, and the tables made of them."""

import importlib
import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from incload_assets.assets.incremental import table_of
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.log import ChangeLog
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import known_windows, window_of
from incload_assets.load.load import load_window
from incload_assets.platform.errors import SourceUnavailable
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.progress.progress import source_state
from incload_assets.shop import Shop
from incload_assets.shop.calendar import PLATFORM_AFTER, Calendar, midnight
from incload_assets.shop.clock import Clock
from incload_assets.shop.definitions import summary
from incload_assets.shop.plan import TradingPlan
from incload_assets.shop.stream import TOPIC, send_web_events
from tests.servers.kafka import KafkaServer
from tests.shop.conftest import MONDAY
from tests.support.detection import detected

Row = dict[str, Any]
PLATFORM = midnight(MONDAY + PLATFORM_AFTER)
CALENDAR = Calendar(MONDAY, seed=20, scale=1.0)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
SEND = """
import sys
from datetime import date, datetime
from incload_assets.shop.calendar import Calendar
from incload_assets.shop.plan import TradingPlan
from incload_assets.shop.stream import send_web_events
from incload_assets.platform.settings import Settings
plan = TradingPlan(Calendar(date.fromisoformat(sys.argv[1]), seed=20, scale=float(sys.argv[2])))
send_web_events(Settings(), plan, datetime.fromisoformat(sys.argv[3]))
"""


@pytest.fixture
def home(tmp_path: Path, _no_kafka: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a shop whose platform opens at once."""
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    monkeypatch.setenv("INCLOAD_SHOP_OPENED", MONDAY.isoformat())
    Clock(Settings()).save(PLATFORM)
    return tmp_path


@pytest.fixture
def broker(home: Path, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> KafkaServer:
    """The cluster that its environment names, without a topic."""
    monkeypatch.setenv("INCLOAD_KAFKA_SAMPLE_SHOP_SERVERS", kafka.servers)
    if TOPIC in kafka.admin.list_topics(timeout=60).topics:
        kafka.delete(TOPIC)
    return kafka


def in_the_topic(kafka: KafkaServer) -> list[str]:
    """The values of all messages; those of a visitor in order."""
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": "tests", "enable.auto.commit": False})
    values = []
    for partition in kafka.admin.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions:
        _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=60)
        consumer.assign([TopicPartition(TOPIC, partition, 0)])
        for _ in range(end):
            message = consumer.poll(30)
            assert message is not None and message.error() is None and message.partition() == partition
            values.append((message.value() or b"").decode())
    consumer.close()
    return values


def planned(shop: Shop) -> list[str]:
    """The messages that the shop is to have sent by its clock."""
    batches = TradingPlan(CALENDAR).due(PLATFORM, shop.now, [TOPIC])
    return [line for batch in batches for line in batch.content().decode().splitlines()]


def the_table(name: str) -> Table:
    # here imported late: importing the sample tables opens the shop of the home folder
    table = table_of(getattr(importlib.import_module(f"incload_assets.tables.retail.{name}"), name))
    assert table is not None
    # its own partitions are those of the shop that was there at its import
    if isinstance(table.partitions_def, dg.HourlyPartitionsDefinition):
        return replace(table, partitions_def=dg.HourlyPartitionsDefinition(f"{PLATFORM:%Y-%m-%d}-00:00"))
    first = datetime.now(UTC) - 2 * HOUR  # a test may begin before midnight
    return replace(table, partitions_def=dg.DailyPartitionsDefinition(f"{first:%Y-%m-%d}", end_offset=1))


def test_the_messages_of_a_calendar_are_the_same_in_any_steps_and_have_the_usual_troubles() -> None:
    until = PLATFORM + 30 * HOUR
    whole = TradingPlan(CALENDAR).due(PLATFORM, until, [TOPIC])
    stepwise, steps = TradingPlan(CALENDAR), [PLATFORM + 2.5 * HOUR * number for number in range(13)]
    halves = [batch for since, to in pairwise(steps) for batch in stepwise.due(since, to, [TOPIC])]
    assert halves == whole
    assert 2 * 60 * 30 < sum(len(batch.records) for batch in whole) < 5 * 60 * 30
    troubles = Counter(record.trouble for batch in whole for record in batch.records if record.trouble)
    assert troubles.keys() == {
        "late", "duplicate", "malformed", "wrong type", "value outside the set", "NULL key"
    }  # fmt: skip
    assert min(troubles["late"], troubles["duplicate"]) > 50
    assert stepwise.due(midnight(MONDAY), PLATFORM, [TOPIC]) == []


def test_advanced_in_steps_and_after_a_crash_before_the_clock_is_saved_every_event_is_sent_once(
    home: Path, broker: KafkaServer
) -> None:
    shop = Shop(Settings())
    advance = shop.advance(minutes=95)
    assert in_the_topic(broker) != []
    assert (advance.rows[TOPIC], advance.kafka_failure) == (len(planned(shop)), None)
    row = next(line for line in summary(advance).splitlines() if line.startswith(f"| {TOPIC} |"))
    assert row.startswith(f"| {TOPIC} | - | {advance.messages} | - | ") and "duplicate" in row

    clock = home / "shop" / "clock.json"
    saved = clock.read_bytes()
    shop.advance(minutes=3)
    shop.advance(minutes=40)
    clock.write_bytes(saved)

    assert shop.advance(minutes=43).messages == 0
    assert Counter(in_the_topic(broker)) == Counter(planned(shop))


def test_killed_while_it_sends_the_shop_sends_the_rest_and_nothing_twice(home: Path, broker: KafkaServer) -> None:
    plan, until = TradingPlan(replace(CALENDAR, scale=3.0)), PLATFORM + 10 * HOUR
    broker.create(TOPIC, 2)
    arguments = [str(MONDAY), "3.0", until.isoformat()]
    sending = subprocess.Popen([sys.executable, "-c", SEND, *arguments])
    try:
        while not broker.end(TOPIC, 0):
            assert sending.poll() is None
    finally:
        sending.kill()
        sending.wait()
    begun = len(in_the_topic(broker))

    rest = send_web_events(Settings(), plan, until)

    lines = [line for batch in plan.due(PLATFORM, until, [TOPIC]) for line in batch.content().decode().splitlines()]
    assert begun > 0 and begun + len(rest) == len(lines)
    assert Counter(in_the_topic(broker)) == Counter(lines)


def test_without_its_kafka_the_shop_trades_on_and_sends_later_what_it_could_not(
    home: Path, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(Settings())
    advance = shop.advance(minutes=30)
    assert (len(advance.files) > 10, advance.messages, shop.now) == (True, 0, PLATFORM + 30 * MINUTE)
    assert "the Kafka that comes with the samples: INCLOAD_KAFKA is false" in str(advance.kafka_failure)
    assert "| web_events | - | 0 | - | Kafka is not available |" in summary(advance)
    with pytest.raises(SourceUnavailable, match="configure your own Kafka by INCLOAD_KAFKA_SAMPLE_SHOP_SERVERS"):
        source_state(the_table(TOPIC), Lake.of(Settings()), datetime.now(UTC))

    monkeypatch.setenv("INCLOAD_KAFKA_SAMPLE_SHOP_SERVERS", kafka.servers)
    if TOPIC in kafka.admin.list_topics(timeout=60).topics:
        kafka.delete(TOPIC)
    assert shop.advance(minutes=30).messages == len(planned(shop)) == len(in_the_topic(kafka))


def test_a_topic_that_somebody_else_writes_to_is_not_written_to(home: Path, broker: KafkaServer) -> None:
    shop = Shop(Settings())
    shop.advance(minutes=30)
    broker.send(TOPIC, [(0, None, "{}", round(time.time() * 1000))])
    advance = shop.advance(minutes=30)
    assert advance.messages == 0
    assert (
        "the last message in partition 0 of topic 'web_events' of the Kafka cluster 'sample_shop' is not the "
        in str(advance.kafka_failure)
    )


@pytest.mark.slow
@pytest.mark.integration
def test_loaded_as_they_come_the_events_and_the_days_made_of_them_are_what_the_shop_did(
    home: Path, broker: KafkaServer, spark: SparkSession
) -> None:
    """Late events of an hour that was loaded ask for that hour again."""
    shop, lake = Shop(Settings()), Lake.of(Settings())
    events, days = the_table(TOPIC), the_table("visitor_days")
    asked: list[set[str]] = []
    for minutes in (65, 65):
        shop.advance(minutes=minutes)
        for window in changed(events, lake, datetime.now(UTC)):
            load_window(LoadContext(spark, events, lake), window_of(events.partitions_def, window))
        asked.append(changed(days, lake, shop.now))
        for window in sorted(asked[-1]):
            load_window(LoadContext(spark, days, lake), window_of(days.partitions_def, window))

    assert asked == [{"2026-01-12-00:00"}, {"2026-01-12-00:00", "2026-01-12-01:00"}]
    loaded = rows_of(events, lake)
    assert {row["event_id"]: row for row in loaded} == {key: row for (key,), row in shop.expected(TOPIC).items()}
    assert len(loaded) == len(shop.expected(TOPIC)) < len(planned(shop))
    log = spark.read.format("delta").load(lake.log_uri([TOPIC]))
    assert log.where("_kind = 'rejected'").count() == sum(shop.quarantined(TOPIC).values()) > 0
    over = [row for row in loaded if row["occurred_at"] < PLATFORM + 2 * HOUR]
    assert sorted(rows_of(days, lake), key=json_key) == sorted(visits(over), key=json_key)


def changed(table: Table, lake: Lake, now: datetime) -> set[str]:
    """The windows that have begun and of which the source holds something, and something else than was landed."""
    landed = ChangeLog(table, lake).ingested
    keys = table.partitions_def.get_partition_keys(current_time=now)
    windows = known_windows(table.partitions_def, keys)
    first = windows[0].start if windows else None
    found = detected(table.source, table.name, windows, landed, first=first, lake=lake)
    marks = {key: position.fingerprint for key, position in landed.items()}
    return {key for key, at in found.items() if at.size and marks.get(key) != at.fingerprint}


def rows_of(table: Table, lake: Lake) -> list[Row]:
    delta = lake.delta(lake.table_uri([table.name]))
    assert delta is not None
    rows = delta.to_pyarrow_dataset().to_table().to_pylist()
    return [{c: v.astimezone(UTC) if isinstance(v := row[c], datetime) else v for c in table.columns} for row in rows]


def visits(events: Iterable[Row]) -> list[Row]:
    """Per visitor and day, in plain Python."""
    of: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for event in sorted(events, key=lambda event: (event["occurred_at"], event["event_id"])):
        of[event["visitor_id"], event["occurred_at"].date()].append(event)
    return [
        {
            "visitor_id": visitor,
            "visit_date": day,
            "views": sum(event["kind"] == "view" for event in did),
            "searches": sum(event["kind"] == "search" for event in did),
            "baskets": sum(event["kind"] == "basket" for event in did),
            "first_seen_at": did[0]["occurred_at"],
            "last_seen_at": did[-1]["occurred_at"],
            "last_event_id": did[-1]["event_id"],
            "last_kind": did[-1]["kind"],
            "last_page": did[-1]["page"],
        }
        for (visitor, day), did in of.items()
    ]


def json_key(row: Row) -> str:
    return json.dumps(row, default=str, sort_keys=True)
