"""Kafka clusters by name, from the environment: looked at with librdkafka, read by Spark with the Java client."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resources.errors import SourceUnreadable

NAME = re.compile(r"[a-z][a-z0-9_]*")
REQUEST_SECONDS = 10
"""How long a request may take; a cluster that is down is known after one or two of them."""

_LOGIN = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule",
          "SCRAM-SHA-512": "scram.ScramLoginModule"}  # fmt: skip
_provided: "dict[str, Callable[[], KafkaCluster]]" = {}


@dataclass(frozen=True)
class KafkaCluster:
    """Where a cluster is, and how it is to be asked.

    Args:
        name: As in the names of its environment variables, in lower case.
        servers: ``host:port``, separated by commas.
        options: librdkafka's names: ``security.protocol``, ``sasl.mechanism``, ``sasl.username``, ``sasl.password``,
            ``ssl.ca.location``, ``ssl.certificate.location``, ``ssl.key.location`` and so on. Never shown.
        spark_only: More options, or others, under the Java client's names, for Spark alone. Never shown.
    """

    name: str
    servers: str = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    spark_only: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def named(cls, name: str, otherwise: "Callable[[], KafkaCluster] | None" = None) -> "KafkaCluster":
        """The cluster that the environment gives for a name, or, where that says nothing, the one provided for it.

        ``INCLOAD_KAFKA_<NAME>_SERVERS`` is its address; ``…_OPTIONS`` and ``…_SPARK_OPTIONS`` are JSON objects.

        Args:
            name: Letters, digits and ``_``, in lower case.
            otherwise: Where the environment says nothing; default: what :func:`provide` was told.

        Raises:
            SourceUnreadable: A variable is missing or wrong; its value is not shown, it may hold a password.
            SourceUnavailable: The cluster that is provided is not there.

        Example:
            >>> os.environ["INCLOAD_KAFKA_SHOP_SERVERS"] = "kafka-1:9093,kafka-2:9093"
            >>> os.environ["INCLOAD_KAFKA_SHOP_OPTIONS"] = '{"security.protocol": "SSL"}'
            >>> KafkaCluster.named("shop").spark_options["kafka.security.protocol"]
            'SSL'
        """
        prefix = f"INCLOAD_KAFKA_{name.upper()}_"
        servers = os.environ.get(f"{prefix}SERVERS", "").strip()
        otherwise = otherwise or _provided.get(name)
        if otherwise and not servers and not os.environ.get(f"{prefix}OPTIONS"):
            return otherwise()
        if not servers:
            raise _wrong(name, f"{prefix}SERVERS is not set")
        return cls(name, servers, _options(name, f"{prefix}OPTIONS"), _options(name, f"{prefix}SPARK_OPTIONS"))

    def client_options(self, on_error: Callable[[Any], None]) -> dict[str, Any]:
        """For confluent-kafka's clients.

        Args:
            on_error: Called with what goes wrong between requests, such as a refused login.
        """
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
        """For Spark's reader: the same under the names of the Java client; files are read here and sent along.

        Raises:
            SourceUnreadable: A file that the options name cannot be read.
        """
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


def provide(name: str, provider: Callable[[], KafkaCluster]) -> None:
    """Say what a name stands for where the environment does not, as :func:`resources.databases.provide` does.

    Args:
        name: As for :meth:`KafkaCluster.named`.
        provider: Asked each time the cluster is needed; raises SourceUnavailable where it cannot be had.

    Example:
        >>> provide("archive", lambda: KafkaCluster("archive", "kafka.example:9092"))
        >>> KafkaCluster.named("archive").spark_options["kafka.bootstrap.servers"]
        'kafka.example:9092'
    """
    _provided[name] = provider


def _options(name: str, variable: str) -> dict[str, str]:
    try:
        given = json.loads(os.environ.get(variable) or "{}")
    except ValueError:
        given = None
    if not isinstance(given, dict) or any(isinstance(value, dict | list) for value in given.values()):
        raise _wrong(name, f"{variable} is no JSON object of options", '{"security.protocol": "SASL_SSL", …}')
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}


def _quoted(value: str) -> str:
    """A value as a JAAS configuration has it."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _wrong(name: str, problem: str, example: str = "") -> Exception:
    prefix = f"INCLOAD_KAFKA_{name.upper()}_"
    return SourceUnreadable(
        f"Kafka cluster {name!r}: {problem}",
        rule=f"{prefix}SERVERS is host:port, several separated by commas; {prefix}OPTIONS a JSON object"
        + (f", for example {example}" if example else ""),
        remedy="set them where the code location runs",
    )
