"""The supervisor of the sample Kafka, a process of its own: ``python -m … FOLDER < order.json``.

It holds the server's lock, creates the data if there is none, runs a broker as its child, and ends it when it has been
idle for a while, when its folder is gone or on SIGTERM. If the supervisor itself is killed, the broker continues alone,
and the next supervisor ends it before it starts its own.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from incload_assets.platform.local_servers.files import ServerFailed, free_port, sockets
from incload_assets.platform.local_servers.supervisor import Process, Record, end, supervise
from incload_assets.platform.samples.kafka import CONTROLLER, HOST, Broker, KafkaFiles, java_command

USER = "shop"

_HEAP = "256m"
_UP_SECONDS = 45.0
_ATTEMPTS = 2
"""Attempts to start: a port may be taken between its choice and its use."""
_POLL_SECONDS = 0.1
_LISTENER = "CLIENTS"
# Every account of this machine can reach the ports, so both require the password.
_CONFIGURATION = """
listeners={clients}://{host}:{port},{internal}://{host}:{controller}
advertised.listeners={clients}://{host}:{port}
listener.security.protocol.map={clients}:SASL_PLAINTEXT,{internal}:SASL_PLAINTEXT
inter.broker.listener.name={clients}
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.{clients_lower}.plain.sasl.jaas.config={login}
listener.name.{internal_lower}.plain.sasl.jaas.config={login}
num.network.threads=1
num.io.threads=2
background.threads=2
log.cleaner.dedupe.buffer.size=4194304
log.segment.bytes=67108864
metadata.max.idle.interval.ms=5000
"""


@dataclass(frozen=True)
class Order:
    """The broker's configuration, read from standard input.

    Args:
        idle_seconds: Seconds without a request or a connection after which the broker ends.
        java_home: The home of the Java to run on.
        classpath: The broker's jars.
        topics: Topics to create if they are missing, with their numbers of partitions.
    """

    idle_seconds: float
    java_home: str
    classpath: str
    topics: dict[str, int]


@dataclass(frozen=True)
class KafkaService:
    """The broker as a service for :mod:`incload_assets.platform.local_servers.supervisor`.

    Args:
        files: The broker's folder.
        order: The broker's configuration.
    """

    files: KafkaFiles
    order: Order

    def start(self) -> tuple[Process, Record]:
        """Starts the broker with a new password, and waits until it is up with its topics."""
        broker, password = Broker(self.files.folder), secrets.token_urlsafe(32)
        broker.end_leftover()
        broker.create()
        java = java_command(broker.folder, Path(self.order.java_home), self.order.classpath, heap=_HEAP, level="WARN")
        for _ in range(_ATTEMPTS):
            port, controller = free_port(), free_port()
            command = broker.command(java, controller, _configuration(port, controller, password))
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sys.stdout, stderr=sys.stderr, cwd=broker.folder
            )
            if self._is_up(process, port, password):
                return process, Record(port, os.getpid(), password)
            self.stop(process)
        raise ServerFailed("Kafka does not stay up; its reason is above")

    def is_used(self, process: Process, record: Record) -> bool:
        """True if a client is connected; the broker's connections to itself use another port."""
        return psutil.CONN_ESTABLISHED in sockets(process.pid, record.port)

    def stop(self, process: Process) -> None:
        """Ends the broker, which flushes its data to disk."""
        end(process, signal.SIGTERM)

    def forget(self) -> None:
        """Does nothing, because there is no data outside of the folder."""

    def _is_up(self, process: Process, port: int, password: str) -> bool:
        """Waits until the broker answers and has the topics; returns whether it does in time."""
        client = AdminClient({**login(port, password), "log_level": 0, "reconnect.backoff.max.ms": 200})
        deadline = time.monotonic() + _UP_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            try:
                there = client.list_topics(timeout=1).topics
                if missing := self.order.topics.keys() - there:
                    new = [NewTopic(name, num_partitions=self.order.topics[name]) for name in sorted(missing)]
                    made: dict[str, Future[Any]] = client.create_topics(new)
                    for answer in made.values():
                        answer.result(_UP_SECONDS)
                elif all(p.leader >= 0 for name in self.order.topics for p in there[name].partitions.values()):
                    return True
            except (KafkaException, TimeoutError):
                pass
            time.sleep(_POLL_SECONDS)
        return False


def login(port: int, password: str) -> dict[str, str]:
    """The options for a client of the broker, by librdkafka's names."""
    return {
        "bootstrap.servers": f"{HOST}:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": password,
    }


def _configuration(port: int, controller: int, password: str) -> str:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return _CONFIGURATION.format(
        host=HOST, port=port, controller=controller,
        clients=_LISTENER, internal=CONTROLLER, clients_lower=_LISTENER.lower(), internal_lower=CONTROLLER.lower(),
        login=f'{module} required username="{USER}" password="{password}" user_{USER}="{password}";',
    )  # fmt: skip


if __name__ == "__main__":
    files, order = KafkaFiles(Path(sys.argv[1])), Order(**json.load(sys.stdin))
    supervise(files, KafkaService(files, order), order.idle_seconds)
