"""Clusters from the environment: what both clients are told, and what nobody is shown."""

import json
from pathlib import Path

import pytest

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.kafka import KafkaCluster

BOUNDS = {"kafka.request.timeout.ms": "10000", "kafka.default.api.timeout.ms": "10500"}


def cluster(patch: pytest.MonkeyPatch, options: dict[str, object], **more: str) -> KafkaCluster:
    patch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", "kafka-1:9093")
    patch.setenv("INCLOAD_KAFKA_SHOP_OPTIONS", json.dumps(options))
    for name, value in more.items():
        patch.setenv(f"INCLOAD_KAFKA_SHOP_{name}", value)
    return KafkaCluster.named("shop")


def test_options_go_to_spark_under_the_java_clients_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / f"{name}.pem").write_text(f"<{name}>")
    found = cluster(
        monkeypatch,
        {
            "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "me",
            "sasl.password": 'a"b\\c', "ssl.ca.location": f"{tmp_path}/ca.pem", "ssl.key.password": "secret",
            "ssl.certificate.location": f"{tmp_path}/certificate.pem", "ssl.key.location": f"{tmp_path}/key.pem",
            "ssl.endpoint.identification.algorithm": "none", "client.rack": 1,
        },
        SPARK_OPTIONS='{"request.timeout.ms": "5000"}',
    )  # fmt: skip
    assert found.spark_options == {
        **BOUNDS,
        "kafka.request.timeout.ms": "5000",
        "kafka.bootstrap.servers": "kafka-1:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="a\\"b\\\\c";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "<ca>",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "<certificate>",
        "kafka.ssl.keystore.key": "<key>",
        "kafka.ssl.key.password": "secret",
        "kafka.ssl.endpoint.identification.algorithm": "",
        "kafka.client.rack": "1",
    }
    assert found.client_options(print)["sasl.password"] == 'a"b\\c'
    assert repr(found) == "KafkaCluster(name='shop')"


def test_a_file_that_is_not_there_is_told_by_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cluster(monkeypatch, {"ssl.ca.location": "/nowhere/secret.pem"})
    with pytest.raises(SourceUnreadable, match=r"the file of ssl\.ca\.location cannot be read") as caught:
        _ = found.spark_options
    assert "secret" not in str(caught.value)
