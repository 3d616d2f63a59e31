"""A real Prometheus and a real Alertmanager on this machine, each for as long as a test's block runs."""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import requests
import yaml

from incload_assets.platform.local_servers.files import free_port

T = TypeVar("T")


@dataclass(frozen=True)
class Prometheus:
    """Where it is.

    Args:
        url: Its address.
    """

    url: str

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The series that an expression has now; it has to be valid."""
        answer = requests.post(f"{self.url}/api/v1/query", data={"query": expr}, timeout=10).json()
        assert answer["status"] == "success", (expr, answer)
        return list(answer["data"]["result"])

    def value(self, expr: str) -> float:
        """The value of an expression that has one series."""
        [found] = self.query(expr)
        return float(found["value"][1])

    def alerts(self) -> set[str]:
        """The names of the alerts that fire."""
        answer = requests.get(f"{self.url}/api/v1/alerts", timeout=10).json()
        return {one["labels"]["alertname"] for one in answer["data"]["alerts"] if one["state"] == "firing"}


@dataclass(frozen=True)
class Alertmanager:
    """Where it is.

    Args:
        url: Its address.
    """

    url: str

    def tell(self, *alerts: Mapping[str, str]) -> None:
        """Tell it of alerts by their labels, as Prometheus does."""
        body = [{"labels": dict(labels)} for labels in alerts]
        requests.post(f"{self.url}/api/v2/alerts", json=body, timeout=10).raise_for_status()

    def alerts(self) -> list[dict[str, Any]]:
        """What it knows of all alerts, suppressed ones, too."""
        return list(requests.get(f"{self.url}/api/v2/alerts", timeout=10).json())

    def suppressed(self) -> set[str]:
        """The names of the alerts that it tells nobody about because of others."""
        return {one["labels"]["alertname"] for one in self.alerts() if one["status"]["inhibitedBy"]}


@contextmanager
def running_prometheus(
    folder: Path, config: Mapping[str, Any], scrapes: int = 1, alertmanager: Alertmanager | None = None
) -> Iterator[Prometheus]:
    """A Prometheus that scrapes each second and evaluates its rules as often.

    Args:
        folder: An empty one, for its data and its configuration.
        config: Its configuration; times are replaced, and rule files are relative to the folder.
        scrapes: Seconds between two scrapes.
        alertmanager: What it tells of alerts; None: nobody.
    """
    told = [{"static_configs": [{"targets": [alertmanager.url.removeprefix("http://")]}]}] if alertmanager else []
    every = {"scrape_interval": f"{scrapes}s", "evaluation_interval": f"{scrapes}s"}
    own = {**config, "global": every, "alerting": {"alertmanagers": told}}
    jobs = [{n: v for n, v in job.items() if n != "scrape_timeout"} for job in config["scrape_configs"]]
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump({**own, "scrape_configs": jobs}))
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--rules.alert.resend-delay=1s",  # the first alerts come before it has found its Alertmanager
    ]
    url = f"http://127.0.0.1:{port}"
    with _running(command, folder / "log", f"{url}/-/ready"):
        yield Prometheus(url)


@contextmanager
def running_alertmanager(folder: Path, config: Path) -> Iterator[Alertmanager]:
    """An Alertmanager that is by itself.

    Args:
        folder: For its data.
        config: Its configuration.
    """
    port = free_port()
    command = [
        "prometheus-alertmanager",
        f"--config.file={config}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    url = f"http://127.0.0.1:{port}"
    with _running(command, folder / "log", f"{url}/-/ready"):
        yield Alertmanager(url)


@contextmanager
def _running(command: Sequence[str], log: Path, ready: str) -> Iterator[None]:
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        eventually(lambda: _answers(server, ready, log))
        yield
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _answers(server: subprocess.Popen[bytes], url: str, log: Path) -> bool:
    if server.poll() is not None:
        raise RuntimeError(f"the server ended with {server.returncode}: {log.read_text()[-2000:]}")
    try:
        return requests.get(url, timeout=5).ok
    except (requests.ConnectionError, requests.Timeout):
        return False


def eventually(found: Callable[[], T], seconds: float = 60) -> T:
    """What a function finds, as soon as that is true; it fails after some time."""
    deadline = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < deadline, f"it is {value!r} after {seconds} s"
        time.sleep(0.2)
    return value
