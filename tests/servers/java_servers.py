"""What servers that run on Java have in common: their jars, and how they are started."""

from collections.abc import Sequence
from pathlib import Path

from resources import jars
from resources.java import java_home
from resources.settings import Settings

KAFKA = ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.kafka:connect-runtime:4.3.1",
         "org.apache.kafka:connect-json:4.3.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4")  # fmt: skip
"""Broker and Connect in one folder."""
DEBEZIUM = ("io.debezium:debezium-connector-postgres:3.6.3.Final",)

_LOG4J = """
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRef.c.ref=C
"""


def fetched(wanted: Sequence[str], without: Sequence[str] = ()) -> list[Path]:
    """The jars of Maven coordinates, kept for the next test run."""
    return jars.resolved(Settings(), wanted, java_home(), without)


def java(folder: Path, main: str, *arguments: str | Path, heap: str, memory: str = "64m") -> list[str | Path]:
    """The command that runs a class of the Kafka jars, made for a quick start and little memory."""
    (folder / "log4j2.properties").write_text(_LOG4J)
    # the resolver leaves the Scala library to Spark, which has it
    (scala,) = (jars.spark_home() / "jars").glob("scala-library-*.jar")
    classpath = f"{fetched(KAFKA)[0].parent / '*'}:{scala}"
    return [
        java_home() / "bin" / "java", f"-Xms{memory}", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-Xshare:auto", f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}", "-cp", classpath, main,
        *arguments,
    ]  # fmt: skip
