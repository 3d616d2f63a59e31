"""The configuration of a Spark that is started here, and of each session on any Spark."""

import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from resources.object_store import S3Endpoint
from resources.settings import Settings

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"

SESSION_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # By its default Spark writes INT96, of which other readers make nanoseconds in 64 bits: of one row after 2262 they
    # read a wrong time, or nothing of the table.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""What every session has, on whichever Spark: instants in UTC, as every reader knows them in files; casts that fail
instead of giving NULL."""

_JAVA_OPTIONS = (
    # Spark compiles so many plans that the default code cache fills up within the hour, and then compiles again.
    "-XX:ReservedCodeCacheSize=512m -XX:+UseParallelGC "
    # Of the processor time of a server's start and first load a seventh was the check that classes are well formed;
    # they are of the jars that were installed. An archive of them (class-data sharing) spared a twentieth more.
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


def spark_conf(settings: Settings) -> dict[str, str]:
    """The configuration of a Spark that these settings start, jars aside; ``spark_conf`` of the settings wins.

    Example:
        >>> spark_conf(Settings(lake="/lake"))["spark.master"]
        'local[*]'
    """
    conf = {
        **SESSION_CONF,
        "spark.app.name": "incload",
        "spark.master": "local[*]",
        "spark.api.mode": "classic",
        "spark.driver.memory": settings.spark_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # A table's log is small here: the default of 50 tasks per snapshot costs seconds on a laptop, and each task
        # writes the code that decodes Delta's actions anew.
        "spark.databricks.delta.snapshotPartitions": "1",
        # Delta holds 3 to 7 MB for each table and each log that it has used in the last hour, of up to 10,000: a few
        # hundred would fill the heap.
        "spark.databricks.delta.delta.log.cacheSize": "100",
        "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
        # One load is some hundred pieces of generated code; the default keeps the last hundred, so each load would have
        # its own compiled anew, by Spark and then by Java, and large ones take 1.4 times as long.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # What Spark holds for a load is read two or three times and let go of: to compress it takes longer than that
        # spares, of 400,000 changes 0.6 s of 3.8 s for their landing.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # Of a local file's status and mode Hadoop has programs tell, one process each (readlink, chmod), also of the
        # checksum file that it keeps beside every file: of a small load's two commits 40 processes, of 4 ms or more.
        # Commits are renamed as before; 26 processes less.
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
        "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
        "spark.sql.shuffle.partitions": str(max(2, min(8, os.cpu_count() or 2))),
        "spark.sql.warehouse.dir": str(settings.home_root / "spark" / "warehouse"),
    }
    if settings.uses_s3:
        conf |= _s3_conf(S3Endpoint.from_env())
    asked = settings.spark_conf
    if "spark.sql.extensions" in asked and "io.delta." not in asked["spark.sql.extensions"]:
        asked = asked | {"spark.sql.extensions": f"{conf['spark.sql.extensions']},{asked['spark.sql.extensions']}"}
    conf |= asked
    if conf["spark.master"].startswith("local"):
        # On a cluster the executors must reach the driver; here nobody else should.
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} | asked
    return conf


def write_properties(path: Path, conf: Mapping[str, str], jars: Iterable[Path]) -> None:
    """Write a Spark properties file that only its owner can read.

    A configuration may hold keys, and ``ps`` shows command lines to everyone.
    """
    merged = dict(conf)
    merged["spark.jars"] = ",".join([*(jar.as_uri() for jar in jars), *filter(None, [conf.get("spark.jars")])])
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        for key, value in merged.items():
            file.write(f"{key}={_escaped(value)}\n")


def use_properties(path: Path, java_home: Path, spark_home: Path) -> None:
    """Make the next Spark of this process start from a properties file, whatever else the environment says."""
    for name in ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE", "MASTER",
                 "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):  # fmt: skip
        os.environ.pop(name, None)
    os.environ["JAVA_HOME"] = str(java_home)
    os.environ["SPARK_HOME"] = str(spark_home)
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {shlex.quote(str(path))} pyspark-shell"


def _s3_conf(endpoint: S3Endpoint) -> dict[str, str]:
    prefix = "spark.hadoop.fs.s3a"
    conf = {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        f"{prefix}.aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
        # The defaults take minutes to give up on an endpoint that is down.
        f"{prefix}.attempts.maximum": "2",
        f"{prefix}.retry.limit": "2",
        f"{prefix}.retry.interval": "200ms",
        # A commit whose answer got lost is recognised as ours instead of being taken for another writer's.
        "spark.databricks.delta.commit.idempotencyCheck.enabled": "true",
    }
    if endpoint.region:
        conf[f"{prefix}.endpoint.region"] = endpoint.region
    if endpoint.url:
        conf[f"{prefix}.endpoint"] = endpoint.url
        conf[f"{prefix}.path.style.access"] = "true"
        conf[f"{prefix}.connection.ssl.enabled"] = str(endpoint.tls).lower()
    return conf


def _escaped(value: str) -> str:
    """A value as a Java properties file holds it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
