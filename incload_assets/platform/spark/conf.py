"""The configuration of a Spark that is started here, and of each session on any Spark."""

import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from incload_assets.platform.object_stores.s3 import S3, S3Endpoint
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.trust import store_with, trusting

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"

SESSION_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # By default Spark writes INT96, which other readers convert to nanoseconds in 64 bits: with a single row after 2262
    # they read a wrong time, or cannot read the table at all.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""The configuration of every session: instants in UTC that every reader understands; casts fail, not return NULL."""

_JAVA_OPTIONS = (
    # Spark compiles so many plans that the default code cache fills up within an hour, and Java then compiles again.
    "-XX:ReservedCodeCacheSize=512m -XX:+UseParallelGC "
    # The ORC library reads times in the zone of its Java, where some do not exist.
    "-Duser.timezone=UTC "
    # Bytecode verification took a seventh of the processor time of a server's start and first load; the classes come
    # from installed jars. An archive of the classes (class-data sharing) saved another twentieth.
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


def spark_conf(settings: Settings) -> dict[str, str]:
    """The configuration of a Spark started with these settings, without jars; their ``spark_conf`` overrides it."""
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
        # Delta logs are small here: the default of 50 tasks per snapshot costs seconds on a laptop, and each task
        # generates the code that decodes Delta's actions again.
        "spark.databricks.delta.snapshotPartitions": "1",
        # Delta caches 3 to 7 MB for each table and each log used in the last hour, up to 10,000 of them: a few hundred
        # would fill the heap.
        "spark.databricks.delta.delta.log.cacheSize": "100",
        "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
        # One load generates about a hundred classes; the default cache keeps the last hundred, so that each load would
        # compile its own again, in Spark and then in Java, and large loads would take 1.4 times as long.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # Rows cached for a load are read two or three times and then released: compressing them takes longer than it
        # saves, 0.6 s of the 3.8 s for the ingestion of 400,000 changes.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # For the status and mode of a local file Hadoop starts one process each (readlink, chmod), also for the
        # checksum file that it writes beside every file: 40 processes, of 4 ms or more, for a small load's two commits.
        # Without checksum files there are 26 processes less; commits are still renamed into place.
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
        "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
        "spark.sql.shuffle.partitions": str(max(2, min(8, os.cpu_count() or 2))),
        "spark.sql.warehouse.dir": str(settings.home_root / "spark" / "warehouse"),
    }
    for store in settings.object_stores:
        store.check("Spark")
        # A commit whose answer was lost is recognised as ours instead of being mistaken for another writer's.
        conf |= {"spark.databricks.delta.commit.idempotencyCheck.enabled": "true"} | store.spark_conf()
    asked = settings.spark_conf
    if "spark.sql.extensions" in asked and "io.delta." not in asked["spark.sql.extensions"]:
        asked = asked | {"spark.sql.extensions": f"{conf['spark.sql.extensions']},{asked['spark.sql.extensions']}"}
    conf |= asked
    if conf["spark.master"].startswith("local"):
        # On a cluster the executors must reach the driver; a driver on this machine need not be reachable by others.
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} | asked
    authorities = S3Endpoint.from_env().authorities
    if authorities is not None and any(isinstance(store, S3) for store in settings.object_stores):
        trusted = shlex.join(trusting(store_with(authorities, settings.home_root / "spark")))
        conf["spark.driver.extraJavaOptions"] += f" {trusted}"
    return conf


def write_properties(path: Path, conf: Mapping[str, str], jars: Iterable[Path]) -> None:
    """Writes a Spark properties file that only its owner can read: ``ps`` shows keys on a command line to everyone."""
    merged = dict(conf)
    merged["spark.jars"] = ",".join([*(jar.as_uri() for jar in jars), *filter(None, [conf.get("spark.jars")])])
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        for key, value in merged.items():
            file.write(f"{key}={_escaped(value)}\n")


def use_properties(path: Path, java_home: Path, spark_home: Path) -> None:
    """Makes the next Spark of this process start from a properties file, regardless of the rest of the environment."""
    for name in ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE", "MASTER",
                 "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):  # fmt: skip
        os.environ.pop(name, None)
    os.environ["JAVA_HOME"] = str(java_home)
    os.environ["SPARK_HOME"] = str(spark_home)
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {shlex.quote(str(path))} pyspark-shell"


def _escaped(value: str) -> str:
    """A value escaped for a Java properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
