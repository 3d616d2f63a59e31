"""The jars with which the test run's Spark reads from Kafka."""

import hashlib
import subprocess
from pathlib import Path
from typing import Any

from incload_assets.platform.errors import SparkUnavailable
from incload_assets.platform.local_servers.locks import exclusive
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import jars
from incload_assets.platform.spark.java import java_home

_SOURCE = Path(__file__).with_name("token_provider.scala")
_MISSING = "spark-token-provider-kafka-0-10_2.13"


def settings_for_kafka() -> dict[str, Any]:
    """What :class:`Settings` have to say for a Spark that can read from Kafka.

    One of the ordinary jars is not in every Maven repository: where it is missing, a stand-in is compiled, once.
    """
    home, without = java_home(Settings()), (*jars.unwanted(), _MISSING)
    found = jars.resolved(Settings(), jars.KAFKA, home, without)
    made = found[0].parents[1] / f"kafka-tests-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]}.jar"
    if not made.exists():
        try:
            jars.jar_paths(Settings(kafka=True), home)
            return {"kafka": True}
        except SparkUnavailable:
            with exclusive(made.with_suffix(".lock"), 300):
                if not made.exists():
                    _compile(made)
    return {"kafka": False, "spark_conf": {"spark.jars": ",".join(path.as_uri() for path in (*found, made))}}


def _compile(made: Path) -> None:
    """With the Scala compiler that Spark has for its shell."""
    scratch = made.with_name(f"new-{made.name}")
    command = [
        java_home(Settings()) / "bin" / "java", "-cp", f"{jars.spark_home() / 'jars' / '*'}", "scala.tools.nsc.Main",
        "-usejavacp", "-d", scratch, _SOURCE,
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=240)
    scratch.rename(made)
