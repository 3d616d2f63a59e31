"""A drill of the operating model: each failure mode is injected for real, and its alert and its runbook have to work.

A scratch table is loaded by real runs in a Dagster instance of its own, with the configured Spark and lake. A real
Prometheus scrapes its metrics and evaluates the rendered rules, a real Alertmanager groups the alerts and routes them
by the rendered configuration, and each of their receivers is awaited. Then the remedy of the runbook is applied, until
the table is right and all receivers were sent that the alert is resolved.

What production does over minutes happens here at once: checks run after each event, and alerts do not wait.
"""

import json
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import URLError
from urllib.request import urlopen

import yaml

from incload_assets.monitoring.prometheus.alertmanager import alertmanager
from incload_assets.monitoring.prometheus.rules import prometheus, rules
from incload_assets.platform.failures import masked
from incload_assets.platform.local_servers.files import free_port
from tests.drill.faults import Fault
from tests.drill.scratch import Scratch
from tests.drill.sent_alerts import Alerts

PROGRAMS = {"prometheus": "prometheus", "prometheus-alertmanager": "alertmanager"}
"""The programs by their names on Debian, with their names elsewhere."""
DETECTED_WITHIN, RECOVERED_WITHIN = 60.0, 300.0
"""The targets, in seconds: from a fault to its alert, and from the alert until all is well."""
GROWTH = "15s"
"""What takes the place of the hours and days over which rules look at the growth of counters."""
_POLL = 0.2
_AT_ONCE = {"group_wait": "0s", "group_interval": "1s"}
_RANGE, _OFFSET = re.compile(r"\[\d+[smhdw]\]"), re.compile(r"offset \d+[smhdw]")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one fault.

    Args:
        fault: The fault.
        alerts: The names of the alerts that arrived.
        receivers: The receivers that they were sent to.
        detected: Seconds from the fault until all receivers of an alert had it; None if none arrived.
        recovered: Seconds from the alert until the table was right and the alert resolved; None if that did not happen.
        caught_up: Seconds that the remedy took until the table was right; None if it was not.
        backlog: The number of changes that the remedy loaded, where its pace counts; 0: it does not.
        wrong: Why the drill is lost; None if it is not.
    """

    fault: Fault[Any]
    alerts: Sequence[str] = ()
    receivers: Sequence[str] = ()
    detected: float | None = None
    recovered: float | None = None
    caught_up: float | None = None
    backlog: int = 0
    wrong: str | None = None

    @property
    def text(self) -> str:
        """The outcome in a line."""
        about = f"{self.fault.mode} {self.fault.runbook}: {self.fault.about}: "
        if self.wrong is not None or self.detected is None or self.recovered is None:
            return f"{about}{self.wrong}"
        sent = f"{', '.join(self.alerts)} to {', '.join(self.receivers)}"
        found = f"{about}{sent} after {self.detected:.1f} s, recovered after {self.recovered:.1f} s"
        if not self.backlog or not self.caught_up:
            return found
        pace = self.backlog / self.caught_up
        return f"{found}; {self.backlog:,} changes caught up within {self.caught_up:.1f} s, {pace:,.0f} a second"


W = TypeVar("W", bound=Scratch)


def play(scratch: W, faults: Sequence[Fault[W]]) -> Iterator[Outcome]:
    """Injects each fault, and yields its outcome.

    Args:
        scratch: The table, with its windows loaded and its metrics served.
        faults: The failure modes, in their order.
    """
    with watching(scratch) as alerts:
        scratch.look()
        for fault in faults:
            try:
                outcome = _played(scratch, fault, alerts)
            except Exception as error:
                why = masked(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")
                outcome = Outcome(fault=fault, wrong=why)
            yield outcome


def _played(scratch: W, fault: Fault[W], alerts: Alerts) -> Outcome:
    if not _wait(lambda: not alerts.firing(fault), RECOVERED_WITHIN):
        return Outcome(fault=fault, wrong=f"{', '.join(alerts.firing(fault))} fires before anything is wrong")
    began = time.monotonic()
    fault.inject(scratch)
    scratch.look()
    if not _wait(lambda: bool(alerts.heard(fault, began)), DETECTED_WITHIN):
        return Outcome(fault=fault, wrong=f"none of {', '.join(fault.alerts)} within {DETECTED_WITHIN:.0f} s")
    heard = alerts.heard(fault, began)
    noticed = min(heard.values())
    backlog = fault.backlog(scratch) if fault.backlog else 0
    found = Outcome(fault=fault, alerts=sorted(heard), detected=noticed - began, backlog=backlog)
    found = replace(found, receivers=alerts.receivers(heard))
    applied = time.monotonic()
    fault.remedy(scratch)
    if fault.is_there(scratch):
        return replace(found, wrong="the table is still wrong after the remedy")
    found = replace(found, caught_up=time.monotonic() - applied)
    scratch.look()
    if not _wait(lambda: not alerts.firing(fault), RECOVERED_WITHIN):
        return replace(found, wrong=f"{', '.join(alerts.firing(fault))} fires although the table is right")
    return replace(found, recovered=time.monotonic() - noticed)


def _wait(until: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not until():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True


@contextmanager
def watching(scratch: Scratch) -> Iterator[Alerts]:
    """A Prometheus and an Alertmanager that watch a scratch table for the block."""
    alerts = Alerts(f"owner {owner}" for owner in scratch.table.owners)
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="incload-drill-")))
        webhook = held.enter_context(_webhook(alerts))
        manager, server = free_port(), free_port()
        _write(folder / "alertmanager.yaml", sent_to(webhook, alertmanager([scratch.table])))
        _write(folder / "rules.yaml", at_once(rules([scratch.table])))
        config = prometheus(scratch.target)
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{manager}"]}]}]}
        for job in config["scrape_configs"]:
            job.pop("scrape_timeout", None)
        _write(folder / "prometheus.yaml", config)
        held.enter_context(
            _running(
                "prometheus-alertmanager",
                f"--config.file={folder / 'alertmanager.yaml'}",
                f"--storage.path={folder / 'alerts'}",
                "--cluster.listen-address=",
                port=manager,
            )
        )
        held.enter_context(
            _running(
                "prometheus",
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'metrics'}",
                "--rules.alert.resend-delay=1s",
                port=server,
            )
        )
        yield alerts


def at_once(rendered: dict[str, Any]) -> dict[str, Any]:
    """The rules for a drill: conditions need not last, and growth is that of some seconds instead of a day.

    Example:
        >>> at_once({"groups": [{"rules": [{"expr": "increase(x_total[1d]) > 0", "for": "1h"}]}]})
        {'groups': [{'rules': [{'expr': 'increase(x_total[15s]) > 0'}]}]}
    """
    for group in rendered["groups"]:
        for rule in group["rules"]:
            rule.pop("for", None)
            rule["expr"] = _OFFSET.sub(f"offset {GROWTH}", _RANGE.sub(f"[{GROWTH}]", rule["expr"]))
    return rendered


def sent_to(webhook: str, rendered: dict[str, Any]) -> dict[str, Any]:
    """Alertmanager's configuration for a drill: the same groups, routes and inhibitions, at once and to a webhook.

    Example:
        >>> sent_to("http://x/", {"global": {"a": 1}, "route": {"group_wait": "30s"}, "receivers": [{"name": "page"}]})
        {'route': {'group_wait': '0s'}, 'receivers': [{'name': 'page', 'webhook_configs': [{'url': 'http://x/'}]}]}
    """
    webhooks = {"webhook_configs": [{"url": webhook}]}
    silent = ("nobody", "dead-man")
    receivers = [{"name": r["name"]} | (webhooks if r["name"] not in silent else {}) for r in rendered["receivers"]]
    rest = {name: part for name, part in rendered.items() if name not in ("global", "route", "receivers")}
    return {"route": _hurried(rendered["route"]), "receivers": receivers, **rest}


def _hurried(route: Mapping[str, Any]) -> dict[str, Any]:
    hurried = dict(route) | {name: at for name, at in _AT_ONCE.items() if name in route}
    return hurried | ({"routes": [*map(_hurried, route["routes"])]} if "routes" in route else {})


def _write(file: Path, content: dict[str, Any]) -> None:
    file.write_text(yaml.safe_dump(content, sort_keys=False))


@contextmanager
def _webhook(alerts: Alerts) -> Iterator[str]:
    """The address that Alertmanager sends to."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            alerts.take(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


@contextmanager
def _running(name: str, *arguments: str, port: int) -> Iterator[None]:
    program = shutil.which(name) or shutil.which(PROGRAMS[name])
    assert program is not None, f"{PROGRAMS[name]} is not on the PATH: install {' and '.join(PROGRAMS)}"
    command = [program, *arguments, f"--web.listen-address=127.0.0.1:{port}"]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        started = _wait(lambda: server.poll() is not None or _answers(port), DETECTED_WITHIN)
        assert started and server.poll() is None, f"{name} did not start: exit code {server.poll()}"
        yield
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
