"""A Spark session for one load, on the Spark that the settings select."""

import atexit
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Event, Timer
from typing import Any, cast

import dagster as dg
from pyspark.sql import SparkSession

from incload_assets.platform.failures import is_connection_lost, masked, not_installed, translate, unavailable
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import server as connect_server
from incload_assets.platform.spark.conf import SESSION_CONF, spark_conf, use_properties, write_properties
from incload_assets.platform.spark.handshake import refused_handshake, set_retries
from incload_assets.platform.spark.jars import jar_paths, spark_home
from incload_assets.platform.spark.java import java_home
from incload_assets.platform.spark.registration import Driver, Registration, lake_of_one_driver

SILENT_SECONDS = 15.0
"""Seconds after which a silent Spark server is reported: a cluster may be starting, or the address may be wrong."""
_REPLACED = "the lake may have another Spark driver now"


class SparkResource(dg.ConfigurableResource["SparkResource"]):
    """The Dagster resource that opens a separate Spark session for each load.

    * ``local``: a Spark Connect server shared by the runs of this workspace, found or started. For one machine.
    * ``in-process``: the existing session of this process, or a JVM of its own. For installations without a server, and
      for processes that were started by spark-submit or by Databricks.
    * ``sc://…``: an existing Spark Connect server. For a cluster or Databricks.

    Sessions are never shared: loads set Delta's transaction identifiers session-wide, and in a shared session the
    identifier of one load would silently skip another load's statements. So dagster-pyspark's ``LazyPySparkResource``
    fits the in-process kind alone: it keeps one session, or in each step process a JVM (6 to 10 s), and never stops it.

    Defaults are ``INCLOAD_SPARK`` and ``INCLOAD_HOME``. An address with a token belongs in the environment, because
    this value is shown in the UI.
    """

    spark: str | None = None
    home: str | None = None

    def settings(self) -> Settings:
        """The settings of the environment, overridden by this resource's configuration."""
        given: dict[str, Any] = {"spark": self.spark, "home": self.home}
        return Settings(**{name: value for name, value in given.items() if value is not None})

    @contextmanager
    def session(self, doing: str = "Spark") -> Iterator[SparkSession]:
        """A fresh session for the block; see :func:`open_session`."""
        with open_session(self.settings(), doing) as session:
            yield session


@contextmanager
def open_session(settings: Settings, doing: str = "Spark") -> Iterator[SparkSession]:
    """A fresh session with time zone UTC, ANSI mode, Delta, and its own configuration; messages start with ``doing``.

    Errors of the block that mean a lost server, a full disk or an unreachable object store become SparkUnavailable.
    """
    over = None
    try:
        if (registration := _of_address(settings)) is not None:
            registration.check()
        session = _in_process(settings) if settings.spark_mode == "in-process" else _connected(settings)
    except Exception as error:
        raise translate(error, doing) from error
    try:
        if registration is not None:  # only now: an address at which no Spark is must not keep others away
            over = _registered(registration, session)
        if settings.spark_mode != "local":
            _require_delta(session, settings)
        yield session
    except Exception as error:
        if over is not None and over.is_set():
            raise unavailable(f"{doing}: {_REPLACED}, so the session was stopped",
                              remedy="run again: that registers this one, or names the other") from error  # fmt: skip
        if is_connection_lost(error) and settings.spark_mode != "in-process":
            set_retries(session, times=0)  # else stopping the session would also wait for the lost server
        meaning = translate(error, doing)
        if meaning is error:
            raise
        raise meaning from error
    finally:
        if over is not None:
            over.set()
        if settings.spark_mode != "in-process":  # stopping that one would stop the JVM of all sessions
            session.stop()


def connect(url: str) -> SparkSession:
    """A fresh session on a Spark Connect server, configured with :data:`SESSION_CONF`; raises SparkUnavailable."""
    local = url.startswith("sc://localhost:")
    if local:
        # gRPC would connect to localhost through a configured HTTP proxy
        bypassed = os.environ.get("no_grpc_proxy") or os.environ.get("no_proxy") or ""  # noqa: SIM112
        if "localhost" not in bypassed.split(","):
            os.environ["no_grpc_proxy"] = ",".join(filter(None, [bypassed, "localhost"]))  # noqa: SIM112
    try:
        session = SparkSession.builder.remote(url).create()
    except ValueError:  # its text has the address, with the token in it
        raise not_installed(
            f"INCLOAD_SPARK={masked(url)} is no address of a Spark Connect server",
            rule="it is sc://host:port/;use_ssl=true;token=…, with a slash before the options",
            remedy="correct it where the code location runs",
        ) from None
    _quiet()
    log = dg.get_dagster_logger()  # in this thread, because another one would not get the run's logger
    silence = f"the Spark server {masked(url)} has not answered yet; the connection is retried for up to ten minutes"
    teller = Timer(SILENT_SECONDS, log.warning, [silence])
    teller.daemon = True
    try:
        if local:
            # A server on this machine that refuses the connection has died; by default the client retries for ten
            # minutes.
            set_retries(session, times=6)
        else:
            set_retries(session)
            teller.start()
        _configure(session)
    except Exception as error:
        set_retries(session, times=0)
        session.stop()
        if refusal := refused_handshake(url, error):
            raise refusal from error
        if "UNAUTHENTICATED" in str(error) or "PERMISSION_DENIED" in str(error):
            raise not_installed(f"the Spark server {masked(url)} refuses the key",
                                remedy="put the right token in INCLOAD_SPARK") from error  # fmt: skip
        if is_connection_lost(error):
            raise unavailable(f"the Spark server {masked(url)} does not answer",
                              remedy="start it, or check INCLOAD_SPARK") from error  # fmt: skip
        raise
    finally:
        teller.cancel()
    return session


def _of_address(settings: Settings) -> Registration | None:
    """The registration of a Spark server that others have started, if the lake needs one."""
    if settings.spark_mode != "remote" or (lake := lake_of_one_driver(settings)) is None:
        return None
    return Registration(lake, Driver.at(settings.spark))


def _registered(registration: Registration, session: SparkSession) -> Event:
    """Registers the session's server until the event is set; the session is stopped if the server loses its place."""

    def lost() -> None:
        print(f"error: {_REPLACED}, so this session ends", flush=True)
        set_retries(session, times=0)  # else a server that is lost, too, would be waited for
        with suppress(Exception):
            session.interruptAll()
        session.stop()

    registration.register()
    return registration.keep_aside(lost)


def _connected(settings: Settings) -> SparkSession:
    if settings.spark_mode == "remote":
        return connect(settings.spark)
    try:
        return connect(connect_server.find_or_start(settings))
    except Exception as error:
        if not is_connection_lost(error):
            raise
        # The server ended, idle or dead, before the connection was made; the next one is new.
        return connect(connect_server.find_or_start(settings))


def _configure(session: SparkSession) -> None:
    for key, value in SESSION_CONF.items():
        session.conf.set(key, value)


def _quiet() -> None:
    """Disables the log of PySpark's client, which reports answers that are pending when a session stops as failures."""
    if "SPARK_CONNECT_LOG_LEVEL" not in os.environ:
        logging.getLogger("pyspark.sql.connect.logging").disabled = True


def _in_process(settings: Settings) -> SparkSession:
    """A new session on this process's JVM, which is started if there is none."""
    if (lake := lake_of_one_driver(settings)) is not None:
        _register_process(lake)
    running = SparkSession.getActiveSession()
    session = (running or _started_in_process(settings)).newSession()
    _configure(session)  # its JVM may have been started with another configuration
    return session


@lru_cache
def _register_process(lake: str) -> None:
    """Registers this process's Spark with a lake until the process ends, which it does if it loses its place."""

    def lost() -> None:
        with suppress(Exception):
            print(f"error: {_REPLACED}, so this process ends", file=sys.stderr)
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(1)  # a commit that it still made could replace one of the other driver's

    registration = Registration(lake, Driver.of_process("a Spark"))
    registration.register()
    atexit.register(registration.release)
    registration.keep_aside(lost)


def _started_in_process(settings: Settings) -> SparkSession:
    java, state = java_home(settings), settings.home_root / "spark"
    jars = jar_paths(settings, java)
    state.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="in-process-", dir=state) as folder:
        properties = Path(folder) / "spark.properties"
        write_properties(properties, spark_conf(settings), jars)
        use_properties(properties, java, spark_home())
        from dagster_pyspark import LazyPySparkResource  # a third of a second that no other kind of Spark needs

        try:
            started = LazyPySparkResource(spark_config={"spark.api.mode": "classic"}).spark_session
        finally:
            os.environ.pop("PYSPARK_SUBMIT_ARGS")  # the file is deleted at the end of this block
    return cast(SparkSession, started)


def _require_delta(session: SparkSession, settings: Settings) -> None:
    """Raises an error if a Spark that was started by others lacks Delta, before a load works halfway."""
    try:
        session.sql("SELECT * FROM delta.`/nonexistent/incload`").schema  # noqa: B018  is only analysed
    except Exception as error:
        if "DELTA" in str(error) or "PATH_NOT_FOUND" in str(error):
            return  # an error of Delta's, because there is no such table
        if is_connection_lost(error):
            raise
        raise not_installed(
            f"the Spark of INCLOAD_SPARK={masked(settings.spark)} has no Delta Lake",
            rule="Spark needs the jar io.delta:delta-spark and spark.sql.extensions="
            "io.delta.sql.DeltaSparkSessionExtension",
            remedy="start it with Delta 4.4 for Spark 4.2",
        ) from error
