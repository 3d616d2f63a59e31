"""Kafka clusters by name, from the environment: queried with librdkafka, read by Spark with the Java client."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.secret import secret
from incload_assets.platform.secret_store import resolved

NAME = re.compile(r"[a-z][a-z0-9_]*")
REQUEST_SECONDS = 10
"""The time limit of a request; a cluster that is down is noticed after one or two of them."""

_LOGIN = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule",
          "SCRAM-SHA-512": "scram.ScramLoginModule"}  # fmt: skip
_provided: "dict[str, Callable[[], KafkaCluster]]" = {}


@dataclass(frozen=True)
class KafkaCluster:
    """The address (``host:port``, separated by commas) and the client options of a Kafka cluster, never shown.

    ``options`` have librdkafka's names, ``spark_only`` the Java client's: they are added or override for Spark alone.
    """

    name: str
    servers: str = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    spark_only: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def named(cls, name: str, otherwise: "Callable[[], KafkaCluster] | None" = None) -> "KafkaCluster":
        """The cluster that the environment configures for a name, or else that of ``otherwise`` or :func:`provide`.

        ``INCLOAD_KAFKA_<NAME>_SERVERS`` is its address; ``…_OPTIONS`` and ``…_SPARK_OPTIONS`` are JSON objects, whose
        values may name secrets; ``…_OPTIONS_FILE`` and ``…_SPARK_OPTIONS_FILE`` name files with them instead. Raises
        SourceUnreadable, which shows no value, for a missing or wrong variable, and SourceUnavailable.
        """
        prefix = f"INCLOAD_KAFKA_{name.upper()}_"
        servers = os.environ.get(f"{prefix}SERVERS", "").strip()
        otherwise = otherwise or _provided.get(name)
        if otherwise and not servers and not any(os.environ.get(prefix + part) for part in ("OPTIONS", "OPTIONS_FILE")):
            return otherwise()
        if not servers:
            raise _wrong(name, f"{prefix}SERVERS is not set")
        return cls(name, servers, _options(name, f"{prefix}OPTIONS"), _options(name, f"{prefix}SPARK_OPTIONS"))

    def client_options(self, on_error: Callable[[Any], None]) -> dict[str, Any]:
        """The options for confluent-kafka's clients, which report errors between requests to ``on_error``."""
        return {
            "client.id": "incload",
            "socket.timeout.ms": REQUEST_SECONDS * 1000,
            "socket.connection.setup.timeout.ms": REQUEST_SECONDS * 500,
            "log_level": 0,
            **self.options,
            "bootstrap.servers": self.servers,
            "error_cb": on_error,
        }

    @property
    def spark_options(self) -> dict[str, str]:
        """The options for Spark's reader, by the Java client's names; the content of files is included."""
        bounds = {"request.timeout.ms": f"{REQUEST_SECONDS * 1000}", "default.api.timeout.ms": f"{REQUEST_SECONDS}500"}
        java = {**bounds, **self._java(), **self.spark_only, "bootstrap.servers": self.servers}
        return {f"kafka.{name}": value for name, value in java.items()}

    def _java(self) -> dict[str, str]:
        given = dict(self.options)
        mechanism = given.pop("sasl.mechanisms", None) or given.pop("sasl.mechanism", None)
        user, password = given.pop("sasl.username", None), given.pop("sasl.password", "")
        java: dict[str, str] = {"sasl.mechanism": mechanism} if mechanism else {}
        if user is not None and mechanism in _LOGIN:
            module = f"org.apache.kafka.common.security.{_LOGIN[mechanism]}"
            java["sasl.jaas.config"] = f"{module} required username={_quoted(user)} password={_quoted(password)};"
        for ours, theirs in (("ca", "truststore.certificates"), ("certificate", "keystore.certificate.chain"),
                             ("key", "keystore.key")):  # fmt: skip
            path, pem = given.pop(f"ssl.{ours}.location", None), given.pop(f"ssl.{ours}.pem", None)
            if path is not None:
                pem = self._content(f"ssl.{ours}.location", path)
            if pem is not None:
                java |= {f"ssl.{theirs}": pem, f"ssl.{theirs.split('.')[0]}.type": "PEM"}
        if given.get("ssl.endpoint.identification.algorithm") == "none":
            given["ssl.endpoint.identification.algorithm"] = ""
        return given | java

    def _content(self, option: str, path: str) -> str:
        try:
            return Path(path).read_text()
        except OSError as error:
            problem = f"the file of {option} cannot be read ({type(error).__name__})"
            raise _wrong(self.name, problem) from None


def knows(name: str) -> bool:
    """True if the environment configures, or something provides, a cluster of that name."""
    return bool(NAME.fullmatch(name)) and (
        name in _provided or bool(os.environ.get(f"INCLOAD_KAFKA_{name.upper()}_SERVERS"))
    )


def provide(name: str, provider: Callable[[], KafkaCluster]) -> None:
    """Registers a provider of a cluster that the environment does not configure, as ``databases.provide`` does."""
    _provided[name] = provider


def _options(name: str, variable: str) -> dict[str, str]:
    try:
        text = secret(variable)
    except ValueError as error:
        raise _wrong(name, str(error)) from None
    try:
        given = json.loads(text or "{}")
    except ValueError:
        given = None
    if not isinstance(given, dict) or any(isinstance(value, dict | list) for value in given.values()):
        raise _wrong(name, f"{variable} is no JSON object of options", '{"security.protocol": "SASL_SSL", …}')
    try:
        return {key: resolved(value) if isinstance(value, str) else json.dumps(value) for key, value in given.items()}
    except ValueError as error:
        raise _wrong(name, str(error)) from None


def _quoted(value: str) -> str:
    """A value quoted for a JAAS configuration."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _wrong(name: str, problem: str, example: str = "") -> Exception:
    prefix = f"INCLOAD_KAFKA_{name.upper()}_"
    return SourceUnreadable(
        f"Kafka cluster {name!r}: {problem}",
        rule=f"{prefix}SERVERS is host:port, several separated by commas; {prefix}OPTIONS is a JSON object"
        + (f", for example {example}" if example else ""),
        remedy="set them where the code location runs",
    )
