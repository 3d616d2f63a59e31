"""What servers that run on Java have in common: their jars, and how they are started."""

from collections.abc import Sequence
from pathlib import Path

from incload_assets.platform.samples.kafka import JARS, java_command
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import jars
from incload_assets.platform.spark.java import java_home

CONNECT = (*JARS, "org.apache.kafka:connect-runtime:4.3.1", "org.apache.kafka:connect-json:4.3.1")
"""Broker and Connect in one folder."""
CONNECTORS = (
    "io.debezium:debezium-connector-postgres:3.6.3.Final",
    "io.debezium:debezium-connector-mariadb:3.5.0.Final",
)
"""Debezium's, each a plugin of its own: Maven has no version that all of them have."""
AVRO = ("io.apicurio:apicurio-registry-utils-converter:2.6.13.Final",)
"""Kafka Connect's converter to Avro behind Apicurio's registry."""


def fetched(wanted: Sequence[str], without: Sequence[str] = ()) -> list[Path]:
    """The jars of Maven coordinates, kept for the next test run."""
    settings = Settings()
    return jars.resolved(settings, wanted, java_home(settings), without)


def java(folder: Path, wanted: Sequence[str] = JARS) -> list[str | Path]:
    """The beginning of a command that runs a class of some jars."""
    return java_command(folder, java_home(Settings()), jars.classpath(fetched(wanted)[0].parent), heap="320m")
