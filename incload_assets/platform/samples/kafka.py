"""A private Kafka: broker and controller in one process, with jars fetched from Maven."""

import base64
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from incload_assets.platform.local_servers.supervisor import STOP_SECONDS, SupervisedFolder
from incload_assets.platform.whole_files import replace_file

HOST = "127.0.0.1"
JARS = ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4")
CONTROLLER = "CONTROLLER"
"""The listener for the broker's connections to itself."""

_MAIN = "kafka.Kafka"
_CONFIGURATION = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
controller.listener.names={name}
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
broker.session.timeout.ms={session}
"""
_LOG4J = """
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level={level}
rootLogger.appenderRef.c.ref=C
"""


@dataclass(frozen=True)
class Broker:
    """A broker in an existing folder of its own: its data, and the command that runs it. Messages are kept forever.

    A broker that was killed still has them after a restart, which waits until its old session has expired: six seconds.
    """

    folder: Path

    @property
    def data(self) -> Path:
        """The folder with the topics."""
        return self.folder / "data"

    @property
    def properties(self) -> Path:
        """The broker's configuration file."""
        return self.folder / "kafka.properties"

    def create(self) -> None:
        """Creates the empty data of a new cluster, unless there is data already."""
        self.data.mkdir(exist_ok=True)
        mark = self.data / "meta.properties"
        if not mark.exists():
            # the content that `kafka-storage format` writes, without starting a Java for it
            text = f"version=1\nnode.id=1\ncluster.id={_identifier()}\ndirectory.id={_identifier()}\n"
            replace_file(mark, text.encode())

    def command(
        self, java: Sequence[str | Path], controller: int, configuration: str, *, session: int = 6000
    ) -> list[str | Path]:
        """The command that runs the broker, which begins with :func:`java_command`; only the owner reads its files.

        ``controller`` is a free port for the broker itself; ``session`` is the time without a heartbeat, in
        milliseconds, after which another process may take the broker's place.
        """
        common = _CONFIGURATION.format(
            host=HOST, controller=controller, name=CONTROLLER, data=self.data, session=session
        )
        self.properties.unlink(missing_ok=True)
        self.properties.touch(mode=0o600)
        self.properties.write_text(common + configuration)
        return [*java, _MAIN, self.properties]

    def end_leftover(self) -> None:
        """Ends a broker that outlived its supervisor; the caller ensures that no other process is starting one."""
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.cmdline()[-2:] == [_MAIN, str(self.properties)]:
                    process.terminate()
                    with suppress(psutil.TimeoutExpired):
                        process.wait(STOP_SECONDS)
                        continue
                    process.kill()


def java_command(
    folder: Path, home: Path, classpath: str, *, heap: str, memory: str = "64m", level: str = "INFO"
) -> list[str | Path]:
    """The first part of a command that runs a class from Kafka's jars, optimised for a quick start and little memory.

    ``heap`` and ``memory`` are its maximum and initial heap; ``folder`` gets the log configuration.
    """
    printing = folder / "log4j2.properties"
    printing.write_text(_LOG4J.format(level=level))
    return [
        home / "bin" / "java", f"-Xms{memory}", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-Xshare:auto", f"-Dlog4j2.configurationFile={printing}", "-cp", classpath,
    ]  # fmt: skip


def _identifier() -> str:
    """Sixteen random bytes in Kafka's encoding."""
    return base64.urlsafe_b64encode(b"\x01" + uuid.uuid4().bytes[1:]).decode().rstrip("=")


@dataclass(frozen=True)
class KafkaFiles(SupervisedFolder):
    """The supervisor's files, in a folder that only its owner may enter."""

    @classmethod
    def of(cls, home: Path) -> "KafkaFiles":
        """The files under ``home``; the folder is created."""
        return cls.under(home, "kafka")
