"""Secrets come from a variable or from a file, never from both, and are never shown."""

import json
from pathlib import Path

import pytest

from incload_assets.platform.databases import Database
from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.kafka import KafkaCluster
from incload_assets.platform.secret import secret

HIDDEN = "not-to-be-shown"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{HIDDEN}\n")
    return path


def test_a_secret_is_in_its_variable_or_in_the_file_that_another_one_names(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    assert secret("INCLOAD_SAMPLE") == ""
    monkeypatch.setenv("INCLOAD_SAMPLE_FILE", str(file))
    assert secret("INCLOAD_SAMPLE") == HIDDEN
    monkeypatch.setenv("INCLOAD_SAMPLE", "other")
    with pytest.raises(ValueError, match="INCLOAD_SAMPLE and INCLOAD_SAMPLE_FILE are both set") as refused:
        secret("INCLOAD_SAMPLE")
    assert HIDDEN not in str(refused.value)
    monkeypatch.delenv("INCLOAD_SAMPLE")
    file.unlink()
    with pytest.raises(ValueError, match=r"INCLOAD_SAMPLE_FILE cannot be read \(FileNotFoundError\)"):
        secret("INCLOAD_SAMPLE")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="UnicodeDecodeError"):
        secret("INCLOAD_SAMPLE")


def test_a_database_takes_its_password_from_a_file(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_URL", "postgresql://db.example:5432/shop")
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_USER", "reader")
    monkeypatch.setenv("INCLOAD_DATABASE_SHOP_PASSWORD_FILE", str(file))
    found = Database.named("shop")
    assert found.password == HIDDEN and HIDDEN not in repr(found)
    file.unlink()
    with pytest.raises(SourceUnreadable, match="INCLOAD_DATABASE_SHOP_PASSWORD_FILE cannot be read"):
        Database.named("shop")


def test_a_kafka_cluster_takes_its_options_from_a_file(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", "kafka.example:9093")
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_OPTIONS_FILE", str(file))
    file.write_text(json.dumps({"security.protocol": "SASL_SSL", "sasl.password": HIDDEN}))
    found = KafkaCluster.named("shop")
    assert found.options["sasl.password"] == HIDDEN and HIDDEN not in repr(found)
    monkeypatch.setenv("INCLOAD_KAFKA_SHOP_OPTIONS", "{}")
    with pytest.raises(SourceUnreadable, match="are both set"):
        KafkaCluster.named("shop")
