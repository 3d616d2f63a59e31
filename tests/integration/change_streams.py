"""The common part of tests of a change stream: a database, its messages, and tables that are kept from them."""

import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from confluent_kafka import Consumer, TopicPartition

from incload_assets.platform.kafka import KafkaCluster
from incload_assets.sources.kafka.topic import TopicMetadata
from incload_assets.sources.window_bounds import WindowBounds
from tests.servers.connect import ConnectServer
from tests.servers.kafka import KafkaServer
from tests.support.tables import Loaded, day
from tests.writes.case import EXAMPLES

THOUSANDS = 2 * EXAMPLES
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
Rows = list[tuple[Any, ...]]
LAST = range(-20, 0)
"""Orders, and regions of the customer "last", that are inserted at the very end: some in each topic partition."""


class Customer(pa.DataFrameModel):
    """A customer as the database has it, in the form that tables keep."""

    name: T.StringType = pa.Field(nullable=False)
    region: T.StringType = pa.Field(nullable=False)
    note: T.StringType = pa.Field(nullable=True)
    credit: T.DecimalType(20, 6) = pa.Field(nullable=True)  # type: ignore[valid-type]
    born: T.DateType = pa.Field(nullable=True)
    clock: T.StringType = pa.Field(nullable=True)
    joined: T.TimestampType = pa.Field(nullable=True)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


@dataclass(frozen=True)
class Stream:
    """A database, and the messages that say what it holds at the end: partition, offset, value, by table.

    ``extract`` has the rows that orders had at some moment, with its position as their sequence.
    """

    database: str
    messages: dict[str, list[tuple[int, int, str | None]]]
    topics: dict[str, str]
    random: random.Random
    extract: Sequence[Mapping[str, Any]] = ()


def wait_for_offsets(
    server: ConnectServer, connectors: Iterable[str], streams: Callable[[Mapping[str, Any]], bool]
) -> None:
    """Until it is written down that the connectors stream: before, a killed one would take its snapshot again."""
    for connector in connectors:
        for _ in range(600):
            if any(streams(offset) for offset in server.offsets(connector)):
                break
            sleep(0.1)
        else:
            raise AssertionError(f"the connector {connector} does not stream")


def consumed(kafka: KafkaServer, topic: str) -> Iterator[tuple[int, int, str | None]]:
    """All messages: in each topic partition those of the last rows come last."""
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    deadline, last = monotonic() + 200, set[tuple[int, bytes]]()
    while len(last) < len(LAST):
        assert monotonic() < deadline, f"{topic}: the last rows do not come"
        message = consumer.poll(0.5)
        if message is None:
            continue
        assert not message.error(), message.error()
        key, value = message.key() or b"", message.value()
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        if b'"last"' in key or b'{"id":-' in key:
            last.add((partition, key))
        yield partition, offset, None if value is None else value.decode()
    assert {partition for partition, _ in last} == {0, 1}
    consumer.close()


def comparable(rows: Iterable[Sequence[Any]]) -> Rows:
    """Rows in one order, their values as text, so that database and lake spell them alike."""
    return sorted(map(_comparable, rows), key=repr)


def _comparable(row: Sequence[Any]) -> tuple[Any, ...]:

    def text(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC).isoformat(timespec="microseconds")
        if isinstance(value, Decimal):
            return f"{value:f}".rstrip("0").rstrip(".") if "." in f"{value:f}" else f"{value:f}"
        if isinstance(value, str) and value.startswith("{"):
            return text(json.loads(value))
        if isinstance(value, dict):
            return json.dumps(value, sort_keys=True)
        return value if value is None or isinstance(value, int | list | bytes | date) else str(value)

    return tuple(map(text, row))


def cut_topic(stream: Stream, kept: Loaded, windows: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the windows of a table end at random offsets of its topic."""
    monkeypatch.setattr("incload_assets.declaration.window.now", lambda: FIRST.replace(month=2))
    table = kept.table.name
    counts = {p: sum(1 for message in stream.messages[table] if message[0] == p) for p in (0, 1)}
    inner = {p: sorted(stream.random.choices(range(n + 1), k=len(windows) - 1)) for p, n in counts.items()}
    ends = [{str(p): [0, *inner[p], n][i] for p, n in counts.items()} for i in range(len(windows) + 1)]
    look = TopicMetadata(table, KafkaCluster.named("shop"), stream.topics[table]).identity
    cuts = {
        FIRST.replace(day=1 + i): {"cluster": look.cluster, "topic": look.topic, "offsets": end}
        for i, end in enumerate(ends)
    }
    WindowBounds(kept.lake, table).at(list(cuts), lambda missing, known: cuts)


def write_files(stream: Stream, folder: Path, windows: Sequence[int]) -> int:
    """Put the messages of all tables into files of windows that end at random; returns their number."""
    values = [value for messages in stream.messages.values() for _, _, value in messages]
    inner = sorted(stream.random.choices(range(len(values) + 1), k=len(windows) - 1))
    for window, (begin, end) in zip(windows, pairwise([0, *inner, len(values)]), strict=True):
        path = folder / "landing" / day(window) / "events.json"
        path.parent.mkdir(parents=True)
        path.write_text("".join(f"{value or 'null'}\n" for value in values[begin:end]))
    return len(values)


def check(kept: Loaded, expected: Rows, windows: list[int], records: int) -> None:
    """Load the windows; every record is counted, and the table is the database's."""
    evidence = [kept.load(window).evidence for window in windows]
    assert sum(proof.rows_read for proof in evidence) == records
    assert sum(proof.quarantined for proof in evidence) == 0, kept.log("rejected", "_reasons")[:3]
    delta = kept.lake.delta(kept.uri)
    assert delta is not None and len(expected) > len(LAST)
    rows = delta.to_pyarrow_table(columns=list(kept.table.columns[:-1])).to_pylist()
    found = comparable(tuple(row.values()) for row in rows)
    surplus, missing = [row for row in found if row not in expected], [row for row in expected if row not in found]
    told = f"seed {os.environ['INCLOAD_TEST_SEED']}, windows loaded in the order {windows}"
    first = [pair for pair in zip(*surplus[:1], *missing[:1], strict=True) if pair[0] != pair[-1]]
    assert surplus == missing, f"{told}: {len(surplus)} and {len(missing)} rows differ, such as in {str(first)[:2000]}"
    assert found == expected
