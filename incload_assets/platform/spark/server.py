"""Finding or starting the Spark Connect server of this workspace, with all its files in ``<home>/spark``.

Runs are short-lived processes, and starting a JVM takes longer than most loads. So the runs of one workspace share one
server, which any of them may start and none of them owns, as :mod:`incload_assets.platform.local_servers.on_demand`
describes. Its ``server.json``, readable only by its owner, also has its key.
"""

import json
import os
import re
import secrets
import signal
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pyspark

from incload_assets.platform.failures import unavailable
from incload_assets.platform.local_servers.files import launch, reap
from incload_assets.platform.local_servers.locks import exclusive, is_held
from incload_assets.platform.local_servers.on_demand import started
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.conf import spark_conf, write_properties
from incload_assets.platform.spark.jars import coordinates, coordinates_of_samples, jar_paths, spark_home
from incload_assets.platform.spark.java import java_home
from incload_assets.platform.spark.registration import Driver, Registration, lake_of_one_driver
from incload_assets.platform.spark.server_files import Server, ServerFiles, fingerprint
from incload_assets.platform.spark.supervisor import Order

_POLL_SECONDS = 0.1
_CONNECT_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
_NOISE = re.compile(r"^\s|^Traceback|JAVA_GATEWAY_EXITED|\bWARN\b|^WARNING|^Using |^Setting default|^To adjust")
_FAULT = re.compile(r"error|exception|invalid|could not|cannot|unable|unrecognized|no space", re.IGNORECASE)


def find_or_start(settings: Settings, timeout: float = 120.0) -> str:
    """The address of this workspace's server, ``sc://localhost:<port>/;token=<key>``: a secret, not for logs.

    Fetching jars for the first time is not part of ``timeout``. Raises SparkUnavailable, also for a used server with
    other settings.
    """
    reap()
    files = ServerFiles.of(settings.home_root)
    conf = _server_conf(settings, files)
    server = _running(files)
    if server is None or not _suits(server, settings, conf) or not server.answers():
        server = _replace(files, settings, conf, timeout)
    with suppress(FileNotFoundError):
        os.utime(files.record)  # the server counts this as use
    return server.url


def stop(settings: Settings, timeout: float = 20.0) -> bool:
    """Ends this workspace's server even if it is in use; returns whether there was one."""
    reap()
    files = ServerFiles.of(settings.home_root)
    server = _running(files)
    if server is None:
        return False
    _end(files, server, time.monotonic() + timeout)
    return True


def _server_conf(settings: Settings, files: ServerFiles) -> dict[str, str]:
    conf = spark_conf(settings)
    return conf | {
        "spark.plugins": ",".join(filter(None, [_CONNECT_PLUGIN, conf.get("spark.plugins")])),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.local.dir": str(files.scratch),
    }


def _suits(server: Server, settings: Settings, conf: dict[str, str]) -> bool:
    return server.configuration == _fingerprint(settings, conf, server.token)


def _fingerprint(settings: Settings, conf: dict[str, str], token: str) -> str:
    """Fingerprint of a server's configuration and environment; a server keeps its environment, with credentials."""
    prefixes = ("JAVA_HOME", *(variable for store in settings.object_stores for variable in store.variables))
    environment = {name: value for name, value in os.environ.items() if name.startswith(prefixes)}
    wanted = coordinates(settings) + coordinates_of_samples(settings)
    parts = [pyspark.__version__, wanted, str(settings.jars), conf, environment, lake_of_one_driver(settings)]
    return fingerprint(parts, token)


def _running(files: ServerFiles) -> Server | None:
    return files.read() if is_held(files.lock) else None


def _replace(files: ServerFiles, settings: Settings, conf: dict[str, str], timeout: float) -> Server:
    """Ends a server that does not suit and starts another; returns the one that a concurrent caller started first."""
    deadline = time.monotonic() + timeout
    with exclusive(files.start_lock, timeout) as held:
        if not held:
            raise unavailable(f"another process has been starting Spark in {files.folder} for {timeout:.0f} s",
                              remedy=f"see {files.log}")  # fmt: skip
        while is_held(files.lock):
            server = files.read()
            if server and not _suits(server, settings, conf):
                _end_unused(files, server, deadline)
            elif server and server.answers():
                return server
            elif time.monotonic() > deadline:  # neither up nor gone: starting or ending
                raise unavailable(f"the Spark server in {files.folder} neither starts nor ends", remedy=_look(files))
            else:
                time.sleep(_POLL_SECONDS)
        return _start(files, settings, conf, timeout)


def _end_unused(files: ServerFiles, server: Server, deadline: float) -> None:
    users = server.connections()
    if users:
        raise unavailable(
            f"the Spark server of {files.folder} was started with other settings and has {users} connections",
            rule="one workspace has one Spark server, which keeps the settings with which it was started",
            remedy="wait until the loads that use it are done, or run this process with the same settings",
        )
    _end(files, server, deadline)


def _end(files: ServerFiles, server: Server, deadline: float) -> None:
    with suppress(ProcessLookupError):
        os.kill(server.pid, signal.SIGTERM)  # the lock is held, so the pid is still the server's
    while is_held(files.lock):
        if time.monotonic() > deadline:
            raise unavailable(f"the Spark server in {files.folder} (process {server.pid}) does not end",
                              remedy=f"end process {server.pid} and run again")  # fmt: skip
        time.sleep(_POLL_SECONDS)
    reap(server.pid)


def _start(files: ServerFiles, settings: Settings, conf: dict[str, str], timeout: float) -> Server:
    if (lake := lake_of_one_driver(settings)) is not None:
        Registration(lake, Driver.of_process("a Spark server")).check()
    home = java_home(settings)
    jars = jar_paths(settings, home)
    files.record.unlink(missing_ok=True)
    write_properties(files.properties, conf, jars)
    token = secrets.token_urlsafe(32)
    order = Order(
        token, _fingerprint(settings, conf, token), settings.spark_idle_minutes * 60, str(home), str(spark_home()), lake
    )
    process = launch(files, "incload_assets.platform.spark.supervisor", order=json.dumps(asdict(order)).encode())
    return started(process, files.read, timeout, lambda: _last_words(files.log),
                   lambda problem: unavailable(f"Spark {problem}", remedy=_look(files)), "Spark")  # fmt: skip


def _last_words(log: Path) -> str:
    """The line of the log that most likely gives the reason why Spark did not start."""
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line and not _NOISE.search(line)]
    except FileNotFoundError:
        lines = []
    causes = [line for line in lines if line.startswith("Caused by:")]
    faults = [line for line in lines if _FAULT.search(line)]
    line = ([*lines, *faults[-1:], *causes[-1:]] or ["it printed nothing"])[-1]
    return re.sub(r'^(Exception in thread "\w+" |Caused by: )', "", line)[:300]


def _look(files: ServerFiles) -> str:
    return f"see {files.log}"
