"""Promises about a running location: how soon settings and logs are in their tables, and the first minutes of it.

What is measured is a real ``incload dev``: its daemon, sensors, queue and runs. Settings and logs are loaded by the
example tables' declarations, with partitions that begin today, beside no other tables.
"""

import gzip
import json
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from signal import SIGINT
from typing import Any

import dagster as dg
from deltalake import DeltaTable

from incload_assets.platform.local_servers.files import free_port
from incload_assets.platform.settings import Settings
from tests.benchmarks.bench import Bench
from tests.benchmarks.pairs import Comparison
from tests.support.project_copy import PROJECT, Clone

PROMISED = {"settings": 120.0, "service_logs": 300.0}
"""The declared freshness of the two tables, in seconds."""
SETTINGS, USUAL, SPIKE = 40, 200, 10
"""The number of settings, of log lines in a minute, and how many times as many a spike has."""
PATIENCE = 1200.0
_PARTITIONS = {
    "settings": 'dg.DailyPartitionsDefinition("{today}", end_offset=1)',
    "service_logs": 'dg.HourlyPartitionsDefinition("{today}-00:00", end_offset=1)',
}
_POLL = 0.2


@dataclass(frozen=True)
class _Dev:
    """A running location."""

    clone: Clone
    process: "subprocess.Popen[bytes]"
    said: Path

    def wait(self, until: Callable[[], bool]) -> float:
        """The seconds until something is so."""
        began = time.monotonic()
        while not until():
            assert self.process.poll() is None and time.monotonic() - began < PATIENCE, self.said.read_text()
            time.sleep(_POLL)
        return time.monotonic() - began

    def has(self, table: str, column: str, value: str) -> bool:
        """Whether a table has a row with a value."""
        place = self.clone.root / ".incload" / "lake" / table
        if not DeltaTable.is_deltatable(str(place)):
            return False
        return value in DeltaTable(str(place)).to_pyarrow_table(columns=[column])[column].to_pylist()

    def deliver(self, path: str, rows: Sequence[dict[str, Any]]) -> None:
        """A file that arrives as a whole."""
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        file = self.clone.root / ".incload" / "landing" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        written = file.with_name(f".{file.name}")
        written.write_bytes(gzip.compress(text) if path.endswith(".gz") else text)
        written.rename(file)


@contextmanager
def _dev(bench: Bench, **environment: str) -> Iterator[_Dev]:
    folder = bench.new("project")
    folder.mkdir()
    clone = Clone.of_repository(folder, Settings().spark)
    if "INCLOAD_SAMPLES" not in environment:  # the sample shop would rewrite the same files
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        for table, partitions in _PARTITIONS.items():
            text = (PROJECT / "incload_assets" / "tables" / "retail" / f"{table}.py").read_text()
            line = next(line for line in text.splitlines() if "retail.partitions import" in line)
            name = line.rpartition(" ")[2]
            made = f"import dagster as dg\n\n{name} = {partitions.format(today=today)}"
            clone.write(f"incload_assets/tables/{table}.py", text.replace(line, made))
    said = folder / "said"
    with said.open("wb") as out:
        process = clone.dev(free_port(), out, **environment)
    dev = _Dev(clone, process, said)
    try:
        dev.wait(lambda: "Dagster is up" in said.read_text())
        yield dev
    finally:
        if process.poll() is None:
            process.send_signal(SIGINT)
            process.wait(120)
        clone.incload("stop")


def promises(bench: Bench) -> Iterator[Comparison]:
    """Settings that change, a burst of changes, and a spike of log lines, each against the declared freshness."""
    with _dev(bench) as dev:
        _export(dev, "first")
        dev.wait(lambda: dev.has("settings", "value", "first"))  # compiles what later loads run
        chance, waited = Random(1), []
        for number in range(bench.sizes.changed):
            time.sleep(chance.uniform(0, 15))  # so that changes do not keep step with the sensor
            _export(dev, value := f"changed {number}")
            waited.append(dev.wait(lambda value=value: dev.has("settings", "value", value)))  # type: ignore[misc]
        yield _kept("a changed setting in its table / the promised 2 minutes", "settings", waited)

        bursts = []
        for burst in range(bench.pairs):
            for number in range(bench.sizes.burst):
                _export(dev, value := f"burst {burst}, {number}")
            bursts.append(dev.wait(lambda value=value: dev.has("settings", "value", value)))  # type: ignore[misc]
        name = f"the last of {bench.sizes.burst:,} changed settings in a burst / the promised 2 minutes"
        yield _kept(name, "settings", bursts)

        waits: dict[int, list[float]] = {USUAL: [], USUAL * SPIKE: []}
        for round_ in range(bench.pairs + 1):
            for lines in waits:
                last = _logs(dev, round_, lines)
                waits[lines].append(dev.wait(lambda last=last: dev.has("service_logs", "log_id", last)))  # type: ignore[misc]
        usual, spike = (found[1:] for found in waits.values())  # the first round compiles
        name = f"a spike of {SPIKE} times the log lines of a minute in its table / the usual number"
        ratios = tuple(a / b for a, b in zip(spike, usual, strict=True))
        sizes = {"lines": USUAL * SPIKE, "usually": USUAL}
        yield Comparison(name, ratios, 2, sizes, note=f"the spike: {_told(spike)}; usually: {_told(usual)}")
        yield _kept(f"a spike of {SPIKE} times the log lines / the promised 5 minutes", "service_logs", spike)


def minutes(bench: Bench) -> Iterator[Comparison]:
    """The first minutes of ``incload dev`` with the sample shop: all green against the first green, and the queue."""
    with _dev(bench, INCLOAD_SAMPLES="true") as dev:
        began, home = time.time(), dev.clone.root / ".dagster_home"
        with dg.DagsterInstance.from_config(str(home)) as instance:

            def ended() -> list[dg.RunRecord]:
                return [r for r in instance.get_run_records(dg.RunsFilter()) if r.dagster_run.is_success]

            dev.wait(lambda: bool(ended()))
            first = time.time() - began
            dev.wait(lambda: _all_green(dev.clone))
            everything = time.time() - began
            queued = [r.start_time - r.create_timestamp.timestamp() for r in ended() if r.start_time]
            name = "incload dev: until all partitions of the sample shop are green / until the first is"
            greens = f"first green after {first:.0f} s, all green after {everything:.0f} s"
            note = f"{greens}, longest queue {max(queued):.0f} s"
            yield Comparison(name, (everything / first,), None, {"runs": len(queued)}, note)


def _all_green(clone: Clone) -> bool:
    done = clone.incload("status", "--json", INCLOAD_SAMPLES="true")
    tables = json.loads(done.stdout) if done.stdout.strip() else []
    return bool(tables) and not any(t[kind] for t in tables for kind in ("missing", "in_progress", "drifted"))


def _kept(name: str, table: str, seconds: Sequence[float]) -> Comparison:
    ratios = tuple(each / PROMISED[table] for each in seconds)
    return Comparison(name, ratios, 1, {"measured": len(seconds)}, _told(seconds), share=0.95)


def _told(seconds: Sequence[float]) -> str:
    cuts = statistics.quantiles([*seconds, *seconds] if len(seconds) == 1 else seconds, n=20, method="inclusive")
    return f"p50 {cuts[9]:.0f} s, p95 {cuts[18]:.0f} s, worst {max(seconds):.0f} s of {len(seconds)}"


def _export(dev: _Dev, value: str) -> None:
    now = datetime.now(UTC)
    told = {"is_secret": False, "changed_at": f"{now:%Y-%m-%dT%H:%M:%SZ}"}
    values = [value, *map(str, range(1, SETTINGS))]
    rows = [{"name": f"service.{number}.timeout_ms", "value": each, **told} for number, each in enumerate(values)]
    dev.deliver(f"settings/{now:%Y-%m-%d}.json", rows)


def _logs(dev: _Dev, round_: int, lines: int) -> str:
    now = datetime.now(UTC)
    made_up = f"{now:%Y%m%d}T{2 * round_ + (lines > USUAL):04d}"  # in the place of the minute, so that no two are equal
    ids = [f"{made_up}-{number:04d}" for number in range(lines)]
    rows = [{"log_id": id, "service": "web", "level": "INFO", "status": 200, "latency_ms": 1,
             "logged_at": f"{now:%Y-%m-%dT%H:%M:%SZ}"} for id in ids]  # fmt: skip
    dev.deliver(f"service_logs/{now:%Y-%m-%dT%H}/{now:%M%S}-{lines}.json.gz", rows)
    return ids[-1]
