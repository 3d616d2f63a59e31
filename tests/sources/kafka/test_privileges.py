"""A source of a Kafka topic with the rights that the documentation prints, and no others."""

import re
import shlex
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from incload_assets.platform.errors import SourceUnreadable
from tests.servers.kafka import KafkaServer
from tests.sources.kafka.secured import DAY, LAST, PASSWORD, Secured
from tests.support.documents import documented_block

pytestmark = pytest.mark.integration

WORDS = shlex.split(documented_block("sh", "kafka-acls.sh"))
OPERATIONS = [word for before, word in pairwise(WORDS) if before == "--operation"]


@pytest.fixture
def secured(kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Secured:
    return Secured(kafka, tmp_path, monkeypatch)


def retained_for(secured: Secured) -> list[datetime | None]:
    """When the topic removes the day, as the check ``headroom`` finds it."""
    return [margin.removed for margin in secured.source.headroom("orders", {DAY: secured.look()}, LAST)]


def test_the_rights_of_the_documentation_are_enough(spark: SparkSession, secured: Secured) -> None:
    assert [word for word in WORDS if word.startswith("--")].count("--topic") == 1 and "--group" not in WORDS
    secured.kafka.configure(secured.topic, retention_ms=str(round(timedelta(36_500) / timedelta(milliseconds=1))))
    secured.account("SCRAM-SHA-512", *OPERATIONS)
    assert secured.read(spark) == ["a"]
    assert retained_for(secured) == [DAY.start + timedelta(36_500)]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_of_them_is_needed_and_its_lack_is_told(secured: Secured, operation: str) -> None:
    secured.account("SCRAM-SHA-512", *(other for other in OPERATIONS if other != operation))
    error = secured.refused(lambda: retained_for(secured))
    assert isinstance(error, SourceUnreadable)
    assert "is refused (topic authorization failed)" in error.problem
    assert operation in error.remedy


def test_the_lack_of_the_right_to_read_is_told_of_spark(spark: SparkSession, secured: Secured) -> None:
    secured.account("SCRAM-SHA-512", "Describe")
    error = secured.refused(lambda: secured.read(spark))
    assert isinstance(error, SourceUnreadable)
    assert re.search(r"Kafka refuses Spark \(\w*AuthorizationException\)", error.problem)
    assert "Read" in error.remedy


def test_the_account_can_do_nothing_else(secured: Secured) -> None:
    secured.account("SCRAM-SHA-512", *OPERATIONS)
    other = f"{secured.topic}-other"
    secured.kafka.create(other)
    writer = Producer(
        {
            "bootstrap.servers": secured.kafka.encrypted, "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": secured.user, "sasl.password": PASSWORD,
            "ssl.ca.location": str(secured.kafka.authority), "log_level": 0,
        }
    )  # fmt: skip
    refused: list[str] = []
    writer.produce(secured.topic, b"{}", on_delivery=lambda error, _: refused.append(error and error.name()))
    writer.flush(30)
    assert refused == ["TOPIC_AUTHORIZATION_FAILED"]
    assert writer.list_topics(other, timeout=30).topics[other].error.name() == "TOPIC_AUTHORIZATION_FAILED"
