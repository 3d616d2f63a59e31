"""The process of the local Spark Connect server: ``python -m resources.spark.supervisor FOLDER < order.json``.

It holds the server's lock, runs Spark in a JVM below it, and ends both when nobody has been connected for a while,
when Spark or the JVM has ended or when it is told to (SIGTERM). If it is killed itself, the JVM sees its standard
input close and ends.
It imports nothing of the code location, so that it starts fast and outlives changes to it.
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

from resources.local_servers.locks import exclusive
from resources.spark.conf import use_properties
from resources.spark.server_files import Server, ServerFiles

_LOCK_SECONDS = 5.0
_STOP_SECONDS = 10.0
_GONE_SECONDS = 2.0
_LEFT_OVER = 10


@dataclass(frozen=True)
class Order:
    """What to start; given on standard input, because it holds the key.

    Args:
        token: The pre-shared key that clients must show.
        configuration: Fingerprint for ``server.json``.
        idle_seconds: How long to live without a connection.
        java_home: The Java to run on.
        spark_home: The Spark to run.
    """

    token: str
    configuration: str
    idle_seconds: float
    java_home: str
    spark_home: str


def serve(files: ServerFiles, order: Order) -> None:
    """Run the server until it is idle, dead or told to stop; return at once if another one holds the lock."""
    told_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.set())
    with exclusive(files.lock, _LOCK_SECONDS) as held:
        if not held:
            return
        jvm = None
        try:
            session = _start(files, order)
            jvm = session.sparkContext._gateway.proc
            server = Server(_port(session), os.getpid(), jvm.pid, order.token, order.configuration)
            files.write(server)
            _compile_in_idle_time(jvm.pid)
            _watch(files, server, session, jvm, order.idle_seconds, told_to_stop)
        finally:
            files.record.unlink(missing_ok=True)
            if jvm is not None:
                _end(jvm)


def _start(files: ServerFiles, order: Order) -> Any:
    """A classic session with the Connect plugin."""
    # left behind by a server that was killed; the lock says that there is no other
    shutil.rmtree(files.scratch, ignore_errors=True)
    files.scratch.mkdir()
    use_properties(files.properties, Path(order.java_home), Path(order.spark_home))
    # by the environment: a configuration would show on the command line
    os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = order.token
    from pyspark.sql import SparkSession  # here: the environment decides what it starts

    # any port: one that was looked for before may be another's when Spark, seconds later, listens
    return SparkSession.builder.config("spark.connect.grpc.binding.port", "0").getOrCreate()


def _compile_in_idle_time(pid: int) -> None:
    """Have Java's second compiler take only what processor time is left over, where threads have priorities (Linux).

    In the first minutes it takes one core all the time. On a machine of two, loads and Dagster would wait for it; what
    is not compiled by it yet runs meanwhile as the first compiler has made it.
    """
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            if (thread / "comm").read_text().startswith("C2 Compiler"):
                os.setpriority(os.PRIO_PROCESS, int(thread.name), _LEFT_OVER)


def _port(session: Any) -> int:
    """Where the Connect plugin listens."""
    services = session.sparkContext._jvm.org.apache.spark.sql.connect.service
    return int(getattr(getattr(services, "SparkConnectService$"), "MODULE$").localPort())


def _watch(
    files: ServerFiles,
    server: Server,
    session: Any,
    jvm: "subprocess.Popen[bytes]",
    idle_seconds: float,
    told_to_stop: threading.Event,
) -> None:
    """Return when the server should end."""
    last_used = time.time()
    while not told_to_stop.wait(min(2.0, idle_seconds / 5)):
        listens = server.listens()
        if not listens:
            with suppress(subprocess.TimeoutExpired):  # who is killed loses its sockets a moment before it is gone
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
        # asking for the address counts as use: the asker is about to connect
        last_used = max(last_used, _modified(files.record))
        if time.time() - last_used < idle_seconds:
            continue
        if session.sparkContext.statusTracker().getActiveJobsIds():  # of a client that is gone
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
