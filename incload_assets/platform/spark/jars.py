"""The jars that Spark needs in addition to its own, resolved once by Spark's own resolver and cached in a folder."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pyspark

from incload_assets.platform import databases
from incload_assets.platform.errors import SparkUnavailable
from incload_assets.platform.failures import masked, not_installed, unavailable
from incload_assets.platform.local_servers.locks import exclusive
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resolving import resolve
from incload_assets.platform.wording import some

DELTA = ("io.delta:delta-spark_4.2_2.13:4.4.0",)
POSTGRESQL, MYSQL = (databases.POSTGRES.jar,), (databases.MYSQL.jar,)
KAFKA = ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",)
AVRO = ("org.apache.spark:spark-avro_2.13:4.2.0",)

# Unwanted dependencies of the above: the SDK in one piece (650 MB), libraries that Spark has under another name
# (hadoop-client-*, jcl-over-slf4j), an optional TLS library, and annotations.
_UNWANTED = ("bundle", "hadoop-common", "hadoop-hdfs-client", "commons-logging", "wildfly-openssl", "checker-qual")
_RESOLVE_SECONDS = 600
_SAMPLES_PATIENCE = timedelta(hours=1)
"""How long Spark runs without jars that only the samples need, before Maven is tried again."""
_FAULT = re.compile(
    r"unresolved dependency|not found|refused|timed? ?out|PKIX|unauthorized|forbidden|50\d", re.IGNORECASE
)


def spark_home() -> Path:
    """The Spark inside the pyspark package, regardless of ``SPARK_HOME``."""
    return Path(pyspark.__file__).parent


def coordinates(settings: Settings) -> tuple[str, ...]:
    """The Maven coordinates that these settings need: Delta and PostgreSQL always, others only if configured."""
    stores = tuple(jar for store in settings.object_stores for jar in store.jars)
    mysql = settings.mysql or databases.configured(databases.MYSQL)
    optional = {KAFKA: settings.kafka, AVRO: settings.avro, MYSQL: mysql}
    return DELTA + POSTGRESQL + stores + tuple(jar for jars, asked in optional.items() if asked for jar in jars)


def coordinates_of_samples(settings: Settings) -> tuple[str, ...]:
    """The Maven coordinates that only a sample table needs: Kafka's, unless ``kafka`` is set."""
    return KAFKA if settings.samples and settings.kafka is None else ()


def jar_paths(settings: Settings, java_home: Path) -> list[Path]:
    """The jars for these settings, from their folder, the user's cache or Maven; samples' jars only if available."""
    if settings.jars:
        given = sorted(settings.jars.absolute().glob("*.jar"))
        if not any("delta-spark" in jar.name for jar in given):
            raise not_installed(
                f"INCLOAD_JARS={settings.jars} holds no delta-spark jar",
                rule="the folder holds every jar that Spark needs in addition to its own",
                remedy="fill it from the jar folder of a machine with access to Maven, or unset INCLOAD_JARS",
            )
        return given
    needed = resolved(settings, coordinates(settings), java_home, unwanted())
    if not (samples := coordinates_of_samples(settings)):
        return needed
    try:
        return [*needed, *resolved(settings, samples, java_home, unwanted(), again_after=_SAMPLES_PATIENCE)]
    except SparkUnavailable:
        return needed  # a load that reads from Kafka reports what is missing


def resolved(
    settings: Settings,
    wanted: Sequence[str],
    java_home: Path,
    without: Sequence[str] = (),
    *,
    again_after: timedelta = timedelta(0),
) -> list[Path]:
    """The jars of Maven coordinates ``group:artifact:version`` from the user's cache or Maven, without some artifacts.

    ``again_after`` is the minimum time after a failure before Maven is tried again. Raises SparkUnavailable.
    """
    folder = _cache() / _name(wanted, without)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(folder.parent / f"{folder.name}.lock", _RESOLVE_SECONDS) as held:
            if not held:
                raise unavailable(f"another process has been fetching Spark's jars into {folder} for too long")
            if not folder.is_dir():
                _refuse_again(wanted, _log(folder), again_after)
                _fetch(settings, wanted, folder, java_home, without)
    return sorted(folder.glob("*.jar"))


def classpath(folder: Path) -> str:
    """The class path of the jars in a folder, with Spark's Scala library, which the resolver does not fetch."""
    (scala,) = (spark_home() / "jars").glob("scala-library-*.jar")
    return f"{folder / '*'}:{scala}"


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "incload" / "jars"


def _name(wanted: Sequence[str], without: Sequence[str]) -> str:
    request = "\n".join((pyspark.__version__, *wanted, *without))
    return f"spark-{pyspark.__version__}-{hashlib.sha256(request.encode()).hexdigest()[:12]}"


def _fetch(settings: Settings, wanted: Sequence[str], folder: Path, java_home: Path, without: Sequence[str]) -> None:
    """Resolves into a scratch folder beside ``folder``, then moves it into place atomically."""
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix="fetching-"))
    log = _log(folder)
    first, *others = [url.strip() for url in settings.maven_repositories.split(",") if url.strip()] or [""]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"JAVA_HOME": str(java_home), "SPARK_HOME": str(spark_home())}
    if first:
        environment["DEFAULT_ARTIFACT_REPOSITORY"] = first  # Spark's variable for a replacement of Maven Central
    properties = {
        "spark.jars.packages": ",".join(wanted),
        "spark.jars.excludes": ",".join(f"*:{name}" for name in without),
        "spark.jars.repositories": ",".join(others),
        "spark.jars.ivy": str(scratch),
        "spark.driver.extraJavaOptions": "-Dsun.net.client.defaultConnectTimeout=10000",
    }
    first_name = wanted[0].split(":")[1]
    asked = scratch / "resolve.conf"
    asked.write_text("".join(f"{key} {value}\n" for key, value in properties.items() if value))
    # spark-submit resolves before it runs anything; the program that it then runs only prints the version
    command: list[str | Path] = [
        spark_home() / "bin" / "spark-submit", "--properties-file", asked,
        "--class", "org.apache.spark.deploy.SparkSubmit", "spark-internal", "--version",
    ]  # fmt: skip
    try:
        code, printed = resolve(command, environment, scratch / "cache", _RESOLVE_SECONDS)
        output = masked(printed)
        log.write_text(output)
        if code != 0 or not any(first_name in jar.name for jar in scratch.glob("jars/*.jar")):
            raise _refused(wanted, output, log)
        (scratch / "jars").rename(folder)
    except subprocess.TimeoutExpired:
        raise _refused(wanted, f"timed out after {_RESOLVE_SECONDS} s", log) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def unwanted() -> tuple[str, ...]:
    """The names of artifacts that Spark has already, or that would conflict with it."""
    return (*_shipped(), *_UNWANTED)


def _shipped() -> list[str]:
    """The artifact names of the jars inside pyspark; a second version of them would only cause conflicts."""
    names = {re.split(r"-(?=\d)", jar.stem, maxsplit=1)[0] for jar in (spark_home() / "jars").glob("*.jar")}
    return sorted(names)


def _log(folder: Path) -> Path:
    """The output of the resolver's last run."""
    return folder.parent / f"{folder.name}.log"


def _refuse_again(wanted: Sequence[str], log: Path, again_after: timedelta) -> None:
    """Raises the error of the last run again, if that was recent; for jars that are not cached."""
    with suppress(FileNotFoundError):
        if time.time() - log.stat().st_mtime < again_after.total_seconds():
            raise _refused(wanted, log.read_text(), log)


def _refused(wanted: Sequence[str], output: str, log: Path) -> Exception:
    lines = [line.strip(" \t:") for line in output.splitlines() if _FAULT.search(line)]
    lines.sort(key=lambda line: "PKIX" not in line)  # an untrusted host is the cause, later failures follow from it
    reason = lines[0][:200] if lines else "the resolver gave no reason"
    return unavailable(
        f"Spark's jars ({some(wanted, 1)}) could not be fetched from Maven: {reason}",
        remedy="give this machine access to Maven, name a mirror in INCLOAD_MAVEN_REPOSITORIES, or point INCLOAD_JARS "
        f"at a folder that holds the jars; the resolver's output is in {log}",
    )
