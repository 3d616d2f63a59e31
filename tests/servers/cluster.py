"""A real Spark cluster for the tests, in Spark's standalone mode: a master and two workers, each a process of its own.

What a worker's executor does is in a log that the executor itself writes, line by line: so a test knows which worker
has finished which task, and can kill a worker while its executor is at one.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import requests

from incload_assets.platform.local_servers.files import free_port
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import jars
from incload_assets.platform.spark.java import java_home

HERE = "127.0.0.1"
SECONDS = 240.0
"""How long anything may take; on a machine with nothing else to do it takes some seconds."""

_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_TASKS = """
appender.tasks.type=File
appender.tasks.name=TASKS
appender.tasks.fileName=tasks
appender.tasks.layout.type=PatternLayout
appender.tasks.layout.pattern=%m%n
appender.console.type=Console
appender.console.name=CONSOLE
appender.console.target=SYSTEM_ERR
logger.executor.name=org.apache.spark.executor.Executor
logger.executor.level=INFO
logger.executor.appenderRef.tasks.ref=TASKS
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=CONSOLE
"""
"""An executor's log; its working directory is a folder of its own below that of its worker."""
_TASK = re.compile(r"^(\w+) .*\(TID (\d+)\)", re.MULTILINE)
_EXECUTOR = "CoarseGrainedExecutorBackend"


class Worker:
    """A worker with one core, and the executor below it.

    Args:
        folder: Of its own, for the work of its executors; made here.
        master: The master's address.
    """

    def __init__(self, folder: Path, master: str) -> None:
        self._folder = folder
        self._process = _started(
            folder, "worker.Worker", "--host", HERE, "--port", "0", "--webui-port", "0",
            "--cores", "1", "--memory", "1g", "--work-dir", folder / "work", master,
        )  # fmt: skip
        self.pid = self._process.pid

    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process.poll() is None

    def finished(self) -> set[str]:
        """The tasks that its executors have finished."""
        logs = self._folder.glob("work/*/*/tasks")
        return {f"{log}: {task}" for log in logs for what, task in _told(log) if what == "Finished"}

    def kill(self) -> None:
        """End it and its executor at once, as on a machine that loses power.

        Raises:
            RuntimeError: They survive SIGKILL.
        """
        family = psutil.Process(self.pid).children(recursive=True) if self.is_alive() else []
        self._process.kill()
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(SECONDS)
        _, left = psutil.wait_procs(family, SECONDS)
        if left:
            raise RuntimeError(f"SIGKILL does not end what worker {self.pid} has started: {left}")

    def stop_amid_a_task(self, seconds: float = SECONDS) -> None:
        """Let its executor stand still, certainly at a task: it is stopped first, and then looked at.

        Args:
            seconds: How long to wait for a task.

        Raises:
            RuntimeError: The executor was not seen at a task.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for executor in self._executors():
                if _is_at_a_task(executor):
                    _stop(executor)
                    if _is_at_a_task(executor):
                        return
                    executor.resume()
            time.sleep(0.002)
        raise RuntimeError(f"the executor of worker {self.pid} was not seen at a task for {seconds:.0f} s")

    def _executors(self) -> list[psutil.Process]:
        """One, while an application runs; beside it there may be what Java starts for a moment."""
        below = psutil.Process(self.pid).children()
        return [process for process in below if any(_EXECUTOR in word for word in _command(process))]


class Cluster:
    """A master and its workers.

    Args:
        folder: Empty.

    Attributes:
        workers: Two, of which a test may kill any; see :meth:`restore`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, self._page = free_port(), free_port()
        self._master: subprocess.Popen[bytes] | None = None
        self.workers: list[Worker] = []

    @property
    def address(self) -> str:
        """The master's, ``spark://…``."""
        return f"spark://{HERE}:{self._port}"

    @property
    def conf(self) -> dict[str, str]:
        """What an application on it has to say beyond addresses.

        Its executors tell of their tasks, and all its processes start quickly.
        """
        log = f"-Dlog4j2.configurationFile={self._folder / 'tasks.properties'}"
        return {
            "spark.executor.extraJavaOptions": f"{_QUICK} {log}",
            "spark.driver.extraJavaOptions": f"{_QUICK} -XX:ReservedCodeCacheSize=256m",
        }

    def start(self) -> None:
        """Start all, and wait until the workers are known to the master."""
        (self._folder / "tasks.properties").write_text(_TASKS)
        ports = ("--port", str(self._port), "--webui-port", str(self._page))
        self._master = _started(self._folder / "master", "master.Master", "--host", HERE, *ports)
        self.restore(2)

    def restore(self, number: int = 2) -> None:
        """Start workers in place of those that were killed, and wait until there are so many.

        To be called from the main thread: a worker ends with the thread that has started it.
        """
        self.workers = [worker for worker in self.workers if worker.is_alive()]
        for _ in range(number - len(self.workers)):
            self.workers.append(Worker(self._folder / f"worker-{time.time_ns()}", self.address))
        self.wait_for_workers(number)

    def wait_for_workers(self, number: int) -> None:
        """Until the master knows of so many workers.

        Raises:
            RuntimeError: It does not in time.
        """
        wait_until(lambda: self._state().get("aliveworkers") == number, f"the cluster has not {number} workers")

    def end_applications(self) -> None:
        """What an operator does on the master's page, or the master by itself to one whose executors keep failing."""
        for application in self._state()["activeapps"]:
            asked = {"id": application["id"], "terminate": "true"}
            requests.post(f"http://{HERE}:{self._page}/app/kill/", asked, timeout=SECONDS).raise_for_status()

    def stop(self) -> None:
        """Kill all that is left of it."""
        if self._master is not None:
            self._master.kill()
            self._master.wait(SECONDS)
        for worker in self.workers:
            worker.kill()

    def _state(self) -> dict[str, Any]:
        with suppress(requests.RequestException):
            return dict(requests.get(f"http://{HERE}:{self._page}/json/", timeout=5).json())
        return {}


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """A cluster for as long as the block runs."""
    folder = Path(tempfile.mkdtemp(prefix="cluster-"))
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _started(folder: Path, main: str, *arguments: str | Path) -> "subprocess.Popen[bytes]":
    """A process of the cluster; it ends with this one, and its executors, which notice, with it."""
    folder.mkdir()
    command: list[str | Path] = [
        "setpriv", "--pdeathsig=KILL", "--", java_home(Settings()) / "bin" / "java", "-Xmx256m", *_QUICK.split(),
        "-cp", f"{jars.spark_home() / 'jars' / '*'}", f"org.apache.spark.deploy.{main}", *arguments,
    ]  # fmt: skip
    # what Spark's start scripts set; the scratch files of a killed executor have to go with the folder
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {
        "SPARK_HOME": str(jars.spark_home()),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": HERE,
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
    }
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def wait_until(true: Callable[[], bool], otherwise: str) -> None:
    """Wait for something to become true.

    Raises:
        RuntimeError: It does not in time; the message begins with ``otherwise``.
    """
    deadline = time.monotonic() + SECONDS
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{otherwise} after {SECONDS:.0f} s")
        time.sleep(0.05)


def _command(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):  # ended meanwhile
        return process.cmdline()
    return []


def _told(log: Path) -> list[tuple[str, str]]:
    """What an executor has written down: a verb, and the number of the task."""
    return _TASK.findall(log.read_text()) if log.exists() else []


def _is_at_a_task(executor: psutil.Process) -> bool:
    """Whether a task has begun and not ended; its end is written before the driver is told of it."""
    told = _told(Path(executor.cwd(), "tasks"))
    return bool({task for what, task in told if what == "Running"} - {task for what, task in told if what != "Running"})


def _stop(process: psutil.Process) -> None:
    """Stop a process, and wait until each of its threads is."""

    def stopped() -> bool:
        with suppress(OSError):  # a thread that ends meanwhile
            states = [status.read_text() for status in Path(f"/proc/{process.pid}/task").glob("*/status")]
            return all(re.search(r"^State:\s+T", state, re.MULTILINE) for state in states)
        return False

    process.suspend()
    wait_until(stopped, f"process {process.pid} does not stop")
