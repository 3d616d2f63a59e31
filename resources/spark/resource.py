"""A Spark session for one load, on whichever Spark the settings name."""

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any, cast

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from resources.failures import is_connection_lost, masked, not_installed, translate, unavailable
from resources.settings import Settings
from resources.spark import server as connect_server
from resources.spark.conf import SESSION_CONF, spark_conf, use_properties, write_properties
from resources.spark.jars import jar_paths, spark_home
from resources.spark.java import java_home

SILENT_SECONDS = 15.0
"""After which it is told that a Spark server does not answer: a cluster may be starting, or the address be wrong."""


class SparkResource(dg.ConfigurableResource["SparkResource"]):
    """Gives each load a Spark session of its own.

    * ``local``: a Spark Connect server shared by the runs of this workspace, found or started. For one machine.
    * ``in-process``: the session this process has already, or a JVM of its own. For those who want no server, and for
      processes that were started by spark-submit or by Databricks.
    * ``sc://…``: a Spark Connect server that is there already. For a cluster or Databricks.

    A session is never shared: loads set Delta's transaction identifiers session-wide, and in a shared session one
    load's would silently skip another load's statements.

    dagster-pyspark's ``LazyPySparkResource`` serves the in-process kind, where it fits: one JVM per process, started
    when first asked for. It does not fit the others: it keeps one session for the life of the process and never stops
    it (on a shared server it would stay until the server's own time limit), it knows neither Delta's jars nor its
    configuration, and each step process that uses it without ``spark.remote`` starts a JVM of its own (6 to 10 s).

    Args:
        spark: As above; None is ``INCLOAD_SPARK``. An address with a token belongs in the environment: what
            is written here is shown in the UI.
        home: Folder of the workspace; None is ``INCLOAD_HOME``.

    Example:
        >>> with SparkResource().session() as session:  # doctest: +SKIP
        ...     session.sql("SELECT 1").first()
    """

    spark: str | None = None
    home: str | None = None

    def settings(self) -> Settings:
        """The settings of the environment, with what is given here in place of theirs."""
        given: dict[str, Any] = {"spark": self.spark, "home": self.home}
        return Settings(**{name: value for name, value in given.items() if value is not None})

    @contextmanager
    def session(self, doing: str = "Spark") -> Iterator[SparkSession]:
        """A fresh session for the block; see :func:`open_session`."""
        with open_session(self.settings(), doing) as session:
            yield session


@contextmanager
def open_session(settings: Settings, doing: str = "Spark") -> Iterator[SparkSession]:
    """A fresh session: time zone UTC, ANSI on, with Delta, its configuration shared with nobody.

    Args:
        settings: Say which Spark.
        doing: What is being done, for messages, naming table and partition.

    Raises:
        SparkUnavailable: Spark cannot be reached or started, or was lost during the block. Errors of the block that
            mean a lost server, a full disk or an unreachable object store are translated; others pass as they are.
    """
    try:
        session = _in_process(settings) if settings.spark_mode == "in-process" else _connected(settings)
    except Exception as error:
        raise translate(error, doing) from error
    try:
        if settings.spark_mode != "local":
            _require_delta(session, settings)
        yield session
    except Exception as error:
        if is_connection_lost(error) and settings.spark_mode != "in-process":
            _retry(session, times=0)  # or stopping the session would wait for the lost server, too
        meaning = translate(error, doing)
        if meaning is error:
            raise
        raise meaning from error
    finally:
        if settings.spark_mode != "in-process":  # there, stopping the session would stop the JVM of all of them
            session.stop()


def connect(url: str) -> SparkSession:
    """A fresh session on a Spark Connect server, configured as :data:`SESSION_CONF` says.

    Raises:
        SparkUnavailable: It does not answer, or refuses the key.
    """
    local = url.startswith("sc://localhost:")
    if local:
        # gRPC would ask a configured HTTP proxy for localhost
        bypassed = os.environ.get("no_grpc_proxy") or os.environ.get("no_proxy") or ""  # noqa: SIM112
        if "localhost" not in bypassed.split(","):
            os.environ["no_grpc_proxy"] = ",".join(filter(None, [bypassed, "localhost"]))  # noqa: SIM112
    session = SparkSession.builder.remote(url).create()
    _quiet()
    log = dg.get_dagster_logger()  # here: another thread would not have the run's
    silence = f"the Spark server {masked(url)} has not answered yet; it is asked again for up to ten minutes"
    teller = Timer(SILENT_SECONDS, log.warning, [silence])
    teller.daemon = True
    try:
        if local:
            # A server on this machine that refuses the connection has died: the default is to ask for ten minutes.
            _retry(session, times=6)
        else:
            teller.start()
        _configure(session)
    except Exception as error:
        _retry(session, times=0)
        session.stop()
        if "UNAUTHENTICATED" in str(error) or "PERMISSION_DENIED" in str(error):
            raise not_installed(f"the Spark server {masked(url)} refuses the key",
                                remedy="put the right token into INCLOAD_SPARK") from error  # fmt: skip
        if is_connection_lost(error):
            raise unavailable(f"the Spark server {masked(url)} does not answer",
                              remedy="start it, or check INCLOAD_SPARK") from error  # fmt: skip
        raise
    finally:
        teller.cancel()
    return session


def _connected(settings: Settings) -> SparkSession:
    if settings.spark_mode == "remote":
        return connect(settings.spark)
    try:
        return connect(connect_server.find_or_start(settings))
    except Exception as error:
        if not is_connection_lost(error):
            raise
        # It ended, idle or dead, in the moment between the two: the next one is new.
        return connect(connect_server.find_or_start(settings))


def _configure(session: SparkSession) -> None:
    for key, value in SESSION_CONF.items():
        session.conf.set(key, value)


def _quiet() -> None:
    """Leave the log of PySpark's client off, which Dagster switches on when it configures logging.

    It would tell of each answer that nobody was waiting for when its session was stopped, as if something had failed.
    """
    if "SPARK_CONNECT_LOG_LEVEL" not in os.environ:
        logging.getLogger("pyspark.sql.connect.logging").disabled = True


def _retry(session: SparkSession, times: int) -> None:
    """How often the client repeats a call that did not reach the server, about a second apart."""
    from pyspark.sql.connect.client.retries import DefaultPolicy  # here: needs the client's extra packages

    cast(Any, session).client.set_retry_policies([DefaultPolicy(max_retries=times, max_backoff=1000, jitter=100)])


def _in_process(settings: Settings) -> SparkSession:
    """A new session on the JVM of this process, which is started if there is none."""
    running = SparkSession.getActiveSession()
    session = (running or _started_in_process(settings)).newSession()
    _configure(session)  # who started it may have configured it otherwise
    return session


def _started_in_process(settings: Settings) -> SparkSession:
    java, state = java_home(settings), settings.home_root / "spark"
    jars = jar_paths(settings, java)
    state.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="in-process-", dir=state) as folder:
        properties = Path(folder) / "spark.properties"
        write_properties(properties, spark_conf(settings), jars)
        use_properties(properties, java, spark_home())
        try:
            started = LazyPySparkResource(spark_config={"spark.api.mode": "classic"}).spark_session
        finally:
            os.environ.pop("PYSPARK_SUBMIT_ARGS")  # the file is gone with this block
    return cast(SparkSession, started)


def _require_delta(session: SparkSession, settings: Settings) -> None:
    """A Spark configured by others may lack Delta; say so before a load half works."""
    try:
        session.sql("SELECT * FROM delta.`/nonexistent/incload`").schema  # noqa: B018  analysed, not run
    except Exception as error:
        if "DELTA" in str(error) or "PATH_NOT_FOUND" in str(error):
            return  # Delta answered: there is no such table
        if is_connection_lost(error):
            raise
        raise not_installed(
            f"the Spark of INCLOAD_SPARK={masked(settings.spark)} has no Delta Lake",
            rule="it needs the jar io.delta:delta-spark and spark.sql.extensions="
            "io.delta.sql.DeltaSparkSessionExtension",
            remedy="start it with Delta 4.4 for Spark 4.2",
        ) from error
