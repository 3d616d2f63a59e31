"""A Kafka that is reached over TLS with a login: who proves what to whom, and what a refusal says."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.platform.errors import SourceUnavailable, SourceUnreadable
from tests.servers.kafka import KafkaServer
from tests.servers.tls import tls_in_front_of
from tests.sources.kafka.secured import Secured
from tests.support.certificates import Authority
from tests.support.databases import NEWEST
from tests.support.tables import make

pytestmark = pytest.mark.integration


@pytest.fixture
def secured(kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Secured:
    return Secured(kafka, tmp_path, monkeypatch)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_brokers_that_prove_who_they_are_are_read_by_an_account_with_a_password(
    spark: SparkSession, secured: Secured, mechanism: str
) -> None:
    secured.account(mechanism)
    secured.configure(sasl_mechanism=mechanism)
    assert secured.read(spark) == ["a"]


def test_a_table_is_loaded_by_such_an_account_and_not_from_brokers_that_spark_does_not_trust(
    spark: SparkSession, secured: Secured, tmp_path: Path
) -> None:
    secured.account()
    orders = make(spark, tmp_path, source=secured.source, changes=NEWEST, name="orders")
    other = Authority(tmp_path, "other").certificate.read_text()
    secured.configure({"ssl.truststore.certificates": other})
    error = secured.refused(lambda: orders.load(1))
    assert error.problem == (f"orders: Kafka('shop', '{secured.topic}'): Spark's TLS handshake with the brokers fails")
    secured.configure()
    orders.load(1)
    assert orders.rows() == {("a", None, None)}


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
