"""A real Kafka for the tests: one process, broker and controller; one port is open, others ask who calls."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from incload_assets.platform.local_servers.files import free_port
from incload_assets.platform.samples import topics as sample_kafka
from incload_assets.platform.samples.kafka import Broker
from incload_assets.platform.settings import Settings
from tests.servers.java_servers import java
from tests.servers.sharing import shared
from tests.support.certificates import Authority

_CONFIGURATION = """
listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{secured},SWITCHED://127.0.0.1:{behind},\
SASL_SSL://127.0.0.1:{encrypted},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{secured},SWITCHED://127.0.0.1:{before},\
SASL_SSL://127.0.0.1:{encrypted}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SWITCHED:PLAINTEXT,\
SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config={plain}
listener.name.sasl_ssl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config={plain}
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config={scram}
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={scram}
listener.name.sasl_ssl.ssl.keystore.type=PEM
listener.name.sasl_ssl.ssl.keystore.location={proof}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{user}
log.message.timestamp.after.max.ms=9223372036854775807
"""
_LOGIN = "org.apache.kafka.common.security"

Message = tuple[int, str | None, str | None, int]
"""Topic partition, key, value, timestamp in ms since 1970."""


@dataclass(frozen=True)
class KafkaServer:
    """Where a broker is, and what tests do to it.

    Args:
        servers: ``host:port`` of the open listener.
        secured: Of the one that wants a user and a password.
        before: The port at which clients look for a third one, where a switch has to be.
        behind: The port that the switch leads to.
        encrypted: Of the listener that speaks TLS, and wants a user and a password.
        authority: The file with the certificate of the authority that this one's is signed by.
    """

    servers: str
    secured: str
    before: int
    behind: int
    encrypted: str
    authority: Path
    user = "incload"
    password = "not-to-be-shown"

    @classmethod
    def at(cls, address: str) -> Self:
        """The broker that five ports and a file tell."""
        *ports, authority = address.split(maxsplit=5)
        port, secured, before, behind, encrypted = map(int, ports)
        places = [f"127.0.0.1:{number}" for number in (port, secured, encrypted)]
        return cls(places[0], places[1], before, behind, places[2], Path(authority))

    @cached_property
    def admin(self) -> AdminClient:
        """A client for whatever is not below."""
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0, "reconnect.backoff.max.ms": 200})

    def create(self, topic: str, partitions: int = 1, **configuration: str) -> None:
        """Make a topic; options are the topic's, with underscores for dots."""
        config = {name.replace("_", "."): value for name, value in configuration.items()}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
        self.admin.create_topics([new])[topic].result(60)
        self._wait_for(topic, partitions)

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        self.admin.delete_topics([topic])[topic].result(60)
        for _ in range(600):
            if topic not in self.admin.list_topics(timeout=60).topics:
                return
            time.sleep(0.1)

    def add_partitions(self, topic: str, total: int) -> None:
        """Give a topic more partitions."""
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result(60)
        self._wait_for(topic, total)

    def expire(self, topic: str, partition: int, before: int) -> None:
        """Delete the records below an offset, as the topic's retention does."""
        place = TopicPartition(topic, partition, before)
        self.admin.delete_records([place])[place].result(60)

    def end(self, topic: str, partition: int) -> int:
        """The offset after the last record; raises KafkaException while the partition has no leader."""
        place = TopicPartition(topic, partition)
        return int(self.admin.list_offsets({place: OffsetSpec.latest()})[place].result(60).offset)

    def configure(self, topic: str, **configuration: str) -> None:
        """Set options of a topic, with underscores for dots."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        for name, value in configuration.items():
            change = ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            resource.add_incremental_config(change)
        self.admin.incremental_alter_configs([resource])[resource].result(60)

    def add_user(self, name: str, password: str, mechanism: str = "SCRAM-SHA-512") -> None:
        """Make an account that may do nothing yet, or give it another password."""
        kind = ScramMechanism[mechanism.replace("-", "_")]
        new = UserScramCredentialUpsertion(name, ScramCredentialInfo(kind, 4096), password.encode())
        self.admin.alter_user_scram_credentials([new])[name].result(60)
        _until(lambda: bool(self.admin.describe_user_scram_credentials([name])[name].result(60)))

    def allow(self, user: str, topic: str, *operations: str) -> None:
        """Let an account do something with a topic; operations as Kafka's tools name them: ``DescribeConfigs``."""
        for operation in operations:
            acl = _acl(AclBinding, user, topic, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper())
            self.admin.create_acls([acl])[acl].result(60)
        asked = _acl(AclBindingFilter, user, topic, "ANY")
        _until(lambda: len(self.admin.describe_acls(asked).result(60)) >= len(operations))

    def send(self, topic: str, messages: Iterable[Message], headers: Mapping[str, str] | None = None) -> None:
        """Put messages into a topic, in this order."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        for partition, key, value, timestamp in messages:
            producer.produce(
                topic, value=value, key=key, partition=partition, timestamp=timestamp, headers=dict(headers or {})
            )
            producer.poll(0)
        if producer.flush(30):
            raise RuntimeError(f"Kafka did not take every message for {topic}")

    def _wait_for(self, topic: str, partitions: int) -> None:
        for _ in range(1200):
            # a leader that the topic is said to have may not know it yet, the less so where another one had that name
            with suppress(KafkaException):
                found = self.admin.list_topics(topic, timeout=60).topics[topic].partitions
                if len(found) == partitions and all(self.end(topic, number) >= 0 for number in found):
                    return
            time.sleep(0.05)
        raise TimeoutError(f"topic {topic} has no leaders")


class OwnKafka:
    """A broker of one test, which may stop it.

    Args:
        folder: Empty.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # a killed broker is let in again when its session has ended
        self._command, addresses = _prepare(folder, session=6000)
        self.server = KafkaServer.at(addresses)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", "--", *self._command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        _wait(self.server)

    def stop(self) -> None:
        """Stop as in a power failure."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)


def _prepare(folder: Path, session: int = 60_000) -> tuple[list[str | Path], str]:
    broker = Broker(folder)
    broker.create()
    names = ("port", "secured", "before", "behind", "encrypted", "controller")
    ports = {name: free_port() for name in names}
    authority, proof = Authority(folder), folder / "proof.pem"
    certificate, key = authority.issue()
    proof.write_bytes(key.read_bytes() + certificate.read_bytes())
    user, password = KafkaServer.user, KafkaServer.password
    plain = f'{_LOGIN}.plain.PlainLoginModule required user_{user}="{password}";'
    scram = f"{_LOGIN}.scram.ScramLoginModule required;"
    configuration = _CONFIGURATION.format(**ports, user=user, plain=plain, scram=scram, proof=proof)
    command = broker.command(java(folder), ports["controller"], configuration, session=session)
    return command, " ".join([*(str(ports[name]) for name in names[:5]), str(authority.certificate)])


def _acl(kind: Any, user: str, topic: str, operation: str) -> Any:
    allowed = AclPermissionType.ALLOW
    who, what = f"User:{user}", AclOperation[operation]
    return kind(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, who, "*", what, allowed)


def _until(true: Callable[[], bool]) -> None:
    """Until the broker itself knows what its controller was told."""
    for _ in range(600):
        with suppress(KafkaException):
            if true():
                return
        time.sleep(0.05)
    raise TimeoutError("the broker does not know it yet")


def _wait(server: KafkaServer) -> None:
    """Until the broker answers."""
    server.admin.list_topics(timeout=60)


@contextmanager
def running_kafka() -> Iterator[OwnKafka]:
    """A broker for as long as the block runs, for tests that stop it."""
    folder = Path(tempfile.mkdtemp(prefix="kafka-"))
    own = OwnKafka(folder)
    try:
        own.start()
        yield own
    finally:
        own.stop()
        shutil.rmtree(folder, ignore_errors=True)


def run_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of the test run share."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@contextmanager
def sample_kafka_ends(home: Path) -> Iterator[None]:
    """The sample shop's broker of a home folder, if one is started, is gone after the block."""
    try:
        yield
    finally:
        sample_kafka.stop(Settings(home=home))


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """One broker for the whole test run; each test uses topics of its own."""
    with shared(run_folder(tmp_path_factory) / "kafka", _prepare) as addresses:
        server = KafkaServer.at(addresses)
        _wait(server)
        yield server
