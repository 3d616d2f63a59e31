"""A Kafka of one's own: one process, broker and controller, on jars fetched from Maven."""

import base64
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from resources.local_servers.supervisor import STOP_SECONDS, SupervisedFolder

HOST = "127.0.0.1"
JARS = ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4")
CONTROLLER = "CONTROLLER"
"""The listener at which the broker talks to itself."""

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
    """The data of a broker, and what runs on it.

    Messages are kept for ever. A broker that was killed has them all when it is started again, which waits until what
    it knows of itself as another one has run out: six seconds.

    Args:
        folder: Of the broker alone; exists.
    """

    folder: Path

    @property
    def data(self) -> Path:
        """Where topics are."""
        return self.folder / "data"

    @property
    def properties(self) -> Path:
        """What the broker is started from."""
        return self.folder / "kafka.properties"

    def create(self) -> None:
        """Make the empty data, of a cluster that nobody has seen before, unless there is some."""
        self.data.mkdir(exist_ok=True)
        mark = self.data / "meta.properties"
        if not mark.exists():
            # what `kafka-storage format` writes, without a Java of its own
            draft = mark.with_suffix(".draft")
            draft.write_text(f"version=1\nnode.id=1\ncluster.id={_identifier()}\ndirectory.id={_identifier()}\n")
            draft.rename(mark)

    def command(
        self, java: Sequence[str | Path], controller: int, configuration: str, *, session: int = 6000
    ) -> list[str | Path]:
        """The command that runs the broker, without waiting until it answers.

        Args:
            java: As :func:`java_command` gives it.
            controller: A free port, for the broker alone.
            configuration: Its listeners, and more lines of a broker's configuration; only its owner may read them.
            session: Milliseconds without a sign of life after which another process may take its place.
        """
        common = _CONFIGURATION.format(
            host=HOST, controller=controller, name=CONTROLLER, data=self.data, session=session
        )
        self.properties.unlink(missing_ok=True)
        self.properties.touch(mode=0o600)
        self.properties.write_text(common + configuration)
        return [*java, _MAIN, self.properties]

    def end_leftover(self) -> None:
        """End a broker that outlived who started it; the caller knows that nobody else is about to start one."""
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
    """The beginning of a command that runs a class of Kafka's jars, made for a quick start and little memory.

    Args:
        folder: Where it finds out what to print.
        home: The Java's.
        classpath: The jars.
        heap: At most, as ``256m``.
        memory: The heap to begin with.
        level: What is printed: ``INFO``, ``WARN`` or ``ERROR`` and graver.

    Example:
        >>> java_command(Path("/tmp"), Path("/usr"), "/jars/*", heap="256m")[2]
        '-Xmx256m'
    """
    printing = folder / "log4j2.properties"
    printing.write_text(_LOG4J.format(level=level))
    return [
        home / "bin" / "java", f"-Xms{memory}", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-Xshare:auto", f"-Dlog4j2.configurationFile={printing}", "-cp", classpath,
    ]  # fmt: skip


def _identifier() -> str:
    """Sixteen random bytes as Kafka writes them."""
    return base64.urlsafe_b64encode(b"\x01" + uuid.uuid4().bytes[1:]).decode().rstrip("=")


@dataclass(frozen=True)
class KafkaFiles(SupervisedFolder):
    """The files beside the data, in a folder that only its owner may enter."""

    @classmethod
    def of(cls, home: Path) -> "KafkaFiles":
        """Those under ``home``; the folder is made."""
        return cls.under(home, "kafka")
