"""A topic on the listener of the tests' broker that wants TLS and a login."""

import json
import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window
from incload_assets.ingest.source_errors import read_error
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.sources.kafka.kafka import Kafka
from tests.servers.kafka import KafkaServer
from tests.support.detection import detected

FIRST, LAST = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
DAY = Window(FIRST, LAST, "2026-01-01")
PASSWORD = 'not "to" be\\shown'


class Secured:
    """A topic with one message that one account may read, on the listener that wants TLS and a login.

    Args:
        kafka: The broker.
        folder: For the lake.
        patch: Configures the cluster of the tests, and sets the present to the end of the day.
    """

    def __init__(self, kafka: KafkaServer, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.kafka, self._folder, self._patch = kafka, folder, patch
        self.topic = self.user = f"secured-{uuid.uuid4().hex[:8]}"
        self.source = Kafka("shop", self.topic)
        kafka.create(self.topic)
        kafka.send(self.topic, [(0, "k", '{"id": "a"}', round(FIRST.timestamp() * 1000))])
        patch.setattr("incload_assets.declaration.window.now", lambda: LAST)
        patch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", kafka.encrypted)
        self.configure()

    def account(self, mechanism: str = "SCRAM-SHA-512", *operations: str) -> None:
        """Make the account, which may do these things with the topic; by default all that a source does."""
        self.kafka.add_user(self.user, PASSWORD, mechanism)
        self.kafka.allow(self.user, self.topic, *(operations or ("Read", "Describe", "DescribeConfigs")))

    def configure(self, spark: dict[str, str] | None = None, **options: str) -> None:
        """Set the cluster's options: right ones, with others in their place, and what Spark alone gets."""
        right = {
            "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": self.user,
            "sasl.password": PASSWORD, "ssl.ca.location": str(self.kafka.authority),
        }  # fmt: skip
        given = right | {name.replace("_", "."): value for name, value in options.items()}
        self._patch.setenv("INCLOAD_KAFKA_SHOP_OPTIONS", json.dumps(given))
        self._patch.setenv("INCLOAD_KAFKA_SHOP_SPARK_OPTIONS", json.dumps(spark or {}))

    def look(self) -> Position:
        """What the source finds for the day."""
        lake = Lake(str(self._folder / uuid.uuid4().hex))
        return detected(self.source, "orders", [DAY], {}, first=FIRST, lake=lake)[DAY.key]

    def read(self, spark: SparkSession) -> list[str]:
        """The messages of the day."""
        frame = self.source.extract(spark, "orders", self.look(), ["id"])
        return [row["id"] for row in frame.select("_raw.id").collect()]

    def refused(self, ask: Callable[[], object]) -> IncrementalLoadError:
        """The error of the source, which shows no secret and no address."""
        with pytest.raises(Exception) as caught:
            ask()
        error = caught.value
        meaning = error if isinstance(error, IncrementalLoadError) else read_error("orders", error, str(self.source))
        assert meaning is not None, error
        assert not re.search(r"shown|wrong-one|127\.0\.0\.1", str(meaning)), meaning
        assert "orders: " in meaning.problem and self.topic in meaning.problem and "'shop'" in meaning.problem
        assert meaning.rule and meaning.remedy
        return meaning
