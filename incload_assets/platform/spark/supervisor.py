"""The process of the local Spark Connect server: ``python -m … FOLDER < order.json``.

It holds the server's lock, runs Spark in a JVM as its child, and ends both when no client has been connected for a
while, when Spark or the JVM has ended, or on SIGTERM. If it is killed itself, the JVM's standard input is closed, and
the JVM ends. It imports nothing of the code location, so that it starts fast and outlives changes to it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.local_servers.locks import exclusive
from incload_assets.platform.spark.conf import use_properties
from incload_assets.platform.spark.registration import Driver, Registration
from incload_assets.platform.spark.server_files import Server, ServerFiles

_LOCK_SECONDS = 5.0
_STOP_SECONDS = 10.0
_GONE_SECONDS = 2.0
_LEFT_OVER = 10


@dataclass(frozen=True)
class Order:
    """The server's configuration with its fingerprint, read from standard input because it contains the key."""

    token: str
    configuration: str
    idle_seconds: float
    java_home: str
    spark_home: str
    lake: str | None = None
    """The lake that the server's driver registers with, where only one may commit."""


def serve(files: ServerFiles, order: Order) -> None:
    """Runs the server until it is idle or dead, or receives SIGTERM; returns at once if another one holds the lock."""
    asked_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.set())
    with exclusive(files.lock, _LOCK_SECONDS) as held:
        if not held:
            return
        jvm = registration = None
        try:
            if order.lake is not None:
                registration = _registered(order.lake)
            started = registration.keep_aside() if registration is not None else threading.Event()
            session = _start(files, order)
            started.set()  # from here on the loop below keeps it
            jvm = session.sparkContext._gateway.proc
            server = Server(_port(session), os.getpid(), jvm.pid, order.token, order.configuration)
            files.write(server)
            _compile_in_idle_time(jvm.pid)
            _watch(files, server, session, jvm, order.idle_seconds, asked_to_stop, registration)
        finally:
            files.record.unlink(missing_ok=True)
            if jvm is not None:
                _end(jvm)
            if registration is not None:
                registration.release()


def _registered(lake: str) -> Registration:
    registration = Registration(lake, Driver.of_process("a Spark server"))
    try:
        registration.register()
    except IncrementalLoadError as error:
        sys.exit(f"error: {error}")
    return registration


def _start(files: ServerFiles, order: Order) -> Any:
    """Starts a classic session with the Connect plugin."""
    # leftovers of a server that was killed; the lock excludes that another server uses the folder
    shutil.rmtree(files.scratch, ignore_errors=True)
    files.scratch.mkdir()
    use_properties(files.properties, Path(order.java_home), Path(order.spark_home))
    # in the environment, because a configuration would be visible on the command line
    os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = order.token
    from pyspark.sql import SparkSession  # imported here, because the environment decides what it starts

    # any port: one chosen in advance may be taken when Spark listens, seconds later
    return SparkSession.builder.config("spark.connect.grpc.binding.port", "0").getOrCreate()


def _compile_in_idle_time(pid: int) -> None:
    """Gives Java's second compiler only spare processor time (on Linux): it would occupy a core for minutes."""
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            if (thread / "comm").read_text().startswith("C2 Compiler"):
                os.setpriority(os.PRIO_PROCESS, int(thread.name), _LEFT_OVER)


def _port(session: Any) -> int:
    """The port of the Connect plugin."""
    services = session.sparkContext._jvm.org.apache.spark.sql.connect.service
    return int(getattr(getattr(services, "SparkConnectService$"), "MODULE$").localPort())


def _watch(
    files: ServerFiles,
    server: Server,
    session: Any,
    jvm: "subprocess.Popen[bytes]",
    idle_seconds: float,
    asked_to_stop: threading.Event,
    registration: Registration | None,
) -> None:
    """Returns when the server should end."""
    last_used = time.time()
    while not asked_to_stop.wait(min(2.0, idle_seconds / 5)):
        if registration is not None and not registration.keep():
            print("error: the lake may have another Spark driver now, so this one ends", flush=True)
            jvm.kill()  # a commit that it still made could replace one of the other driver's
            return
        listens = server.listens()
        if not listens:
            with suppress(subprocess.TimeoutExpired):  # a killed process loses its sockets shortly before it is gone
                jvm.wait(_GONE_SECONDS)
        if jvm.poll() is not None:
            print(f"error: Spark's JVM ended with code {jvm.returncode}", flush=True)
            return
        if not listens:  # a cluster may end its applications; the JVM outlives that
            print("error: Spark ended, though not its JVM", flush=True)
            return
        if server.connections():
            last_used = time.time()
            continue
        # a request for the address counts as use: the caller is about to connect
        last_used = max(last_used, _modified(files.record))
        if time.time() - last_used < idle_seconds:
            continue
        if session.sparkContext.statusTracker().getActiveJobsIds():  # jobs of a client that is gone
            last_used = time.time()
            continue
        return


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _end(jvm: "subprocess.Popen[bytes]") -> None:
    if jvm.stdin:
        jvm.stdin.close()
    try:
        jvm.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


if __name__ == "__main__":
    serve(ServerFiles(Path(sys.argv[1])), Order(**json.load(sys.stdin)))
