"""A Kafka that is reached over TLS with a login: who proves what to whom, and what a refusal says."""

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
from incload_assets.sources.kafka.kafka import Kafka
from resources.errors import IncrementalLoadError, SourceUnavailable, SourceUnreadable
from resources.lake import Lake
from tests.servers.kafka import KafkaServer
from tests.servers.tls import tls_in_front_of
from tests.support.certificates import Authority
from tests.support.detection import detected

pytestmark = pytest.mark.integration

FIRST, LAST = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
DAY = Window(FIRST, LAST, "2026-01-01")
PASSWORD = 'not "to" be\\shown'


class Secured:
    """A topic with one message that one account may read, on the listener that wants TLS and a login.

    Args:
        kafka: The broker.
        folder: For the lake.
        patch: Configures the cluster of the tests.
    """

    def __init__(self, kafka: KafkaServer, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.kafka, self._folder, self._patch = kafka, folder, patch
        self.topic = self.user = f"secured-{uuid.uuid4().hex[:8]}"
        self.source = Kafka("shop", self.topic)
        kafka.create(self.topic)
        kafka.send(self.topic, [(0, "k", '{"id": "a"}', round(FIRST.timestamp() * 1000))])
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


@pytest.fixture
def secured(kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Secured:
    monkeypatch.setattr("incload_assets.declaration.window.now", lambda: LAST)
    return Secured(kafka, tmp_path, monkeypatch)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_brokers_that_prove_who_they_are_are_read_by_an_account_with_a_password(
    spark: SparkSession, secured: Secured, mechanism: str
) -> None:
    secured.account(mechanism)
    secured.configure(sasl_mechanism=mechanism)
    assert secured.read(spark) == ["a"]


def test_a_plain_password_is_sent_over_tls_alone(spark: SparkSession, secured: Secured) -> None:
    account = {"sasl_mechanism": "PLAIN", "sasl_username": KafkaServer.user, "sasl_password": KafkaServer.password}
    secured.configure(**account)
    assert secured.read(spark) == ["a"]
    secured.configure(**account | {"sasl_password": "wrong-one"})
    error = secured.refused(secured.look)
    assert error.problem == f"orders: topic '{secured.topic}' of the Kafka cluster 'shop' is refused (authentication)"


def test_brokers_of_another_authority_are_refused_by_the_look_and_by_spark(
    spark: SparkSession, secured: Secured, tmp_path: Path
) -> None:
    secured.account()
    other = Authority(tmp_path, "other").certificate
    secured.configure({"ssl.truststore.certificates": other.read_text()})
    error = secured.refused(lambda: secured.read(spark))
    assert isinstance(error, SourceUnreadable)
    assert "Spark's TLS handshake with the brokers fails" in error.problem
    assert "ssl.ca.location in INCLOAD_KAFKA_<CLUSTER>_OPTIONS" in error.remedy

    secured.configure(ssl_ca_location=str(other))
    error = secured.refused(secured.look)
    assert isinstance(error, SourceUnreadable)
    assert error.problem == (
        f"orders: the TLS handshake with the brokers of topic '{secured.topic}' of the Kafka cluster 'shop' fails"
    )
    assert "set ssl.ca.location in INCLOAD_KAFKA_SHOP_OPTIONS" in error.remedy


def test_a_certificate_of_another_host_is_refused(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    port = int(secured.kafka.servers.rpartition(":")[2])
    with tls_in_front_of(port, authority.issue("kafka.example.com")) as elsewhere:
        monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", f"127.0.0.1:{elsewhere}")
        secured.configure(ssl_ca_location=str(authority.certificate))
        error = secured.refused(secured.look)
    assert isinstance(error, SourceUnreadable)
    assert "by a name in their certificate" in error.remedy


def test_a_wrong_password_is_refused_by_the_look_and_by_spark(spark: SparkSession, secured: Secured) -> None:
    secured.account()
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = f'{module} required username="{secured.user}" password="wrong-one";'
    secured.configure({"sasl.jaas.config": login})
    error = secured.refused(lambda: secured.read(spark))
    assert isinstance(error, SourceUnreadable)
    assert "Kafka refuses Spark's account" in error.problem
    assert "sasl.password" in error.remedy

    secured.configure(sasl_password="wrong-one")
    error = secured.refused(secured.look)
    assert isinstance(error, SourceUnreadable)
    assert error.problem == f"orders: topic '{secured.topic}' of the Kafka cluster 'shop' is refused (authentication)"
    assert "sasl.password and sasl.mechanism in INCLOAD_KAFKA_SHOP_OPTIONS" in error.remedy


def test_tls_that_the_brokers_do_not_speak_leads_to_the_protocol(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", secured.kafka.servers)
    with pytest.raises(SourceUnavailable, match=r"security\.protocol in INCLOAD_KAFKA_SHOP_OPTIONS"):
        secured.look()
