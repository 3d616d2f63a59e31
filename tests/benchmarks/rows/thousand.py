"""The cost of a thousand tables, and of a table of many hours, against the time or memory that is asked for."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT

import psutil

from incload_assets.cli.support.scaffold import make_project
from incload_assets.platform.local_servers.files import free_port
from tests.benchmarks.bench import Bench
from tests.benchmarks.pairs import Comparison
from tests.servers.postgres import running_postgres
from tests.support.history_in_postgres import move_history
from tests.support.many_tables import ManyTables, many_tables
from tests.support.project_copy import PROJECT

FEW = 16
MB = 1_000_000
ASKED = {"status": 6.0, "metrics": 5.0, "dashboard": 3.0, "doctor": 60.0}
"""Seconds."""
NAMED = {
    "status": "incload status", "metrics": "a scrape of the metrics", "dashboard": "the dashboard's first page",
    "doctor": "incload doctor",
}  # fmt: skip
LOOKS = {"first": 10.0, "next": 3.0}
"""Seconds of a process's first whole look at a table, and of later ones."""
MORE = 5.0
"""Seconds that a load of one partition may take longer because of all others."""
DAY = 24
MEMORY = 1e9
PATIENCE = 1800


def thousand(bench: Bench) -> Iterator[Comparison]:
    """Everything that goes through all tables, with a year of partitions each, beside sixteen tables."""
    few, many = (_made(bench, count) for count in (min(FEW, bench.sizes.tables // 2), bench.sizes.tables))
    yield from _location(bench, few, many)
    for what, asked in ASKED.items():
        small, large = (_told(made, what) for made in (few, many))
        note = f"{large['seconds']:.1f} s, of {len(few.names)} tables {small['seconds']:.1f} s"
        more = f"; the first one {large['first']:.1f} s" if "first" in large else ""
        yield _kept(f"{NAMED[what]} / {asked:.0f} s", large["seconds"] / asked, many, note + more)
        note = f"{large['memory'] / MB:,.0f} MB, of {len(few.names)} tables {small['memory'] / MB:,.0f} MB"
        yield _kept(f"peak memory of {NAMED[what]} / 1 GB", large["memory"] / MEMORY, many, note)


def hours(bench: Bench) -> Iterator[Comparison]:
    """Everything that goes through all partitions of a table with many of them, beside a table with a day of hours."""
    few, many = (_hourly(bench, count) for count in (DAY, bench.sizes.hours))
    small, large = (_told(made, "look") for made in (few, many))
    for what, asked in LOOKS.items():
        note = f"{large[what]:.1f} s, of {few.partitions} partitions {small[what]:.1f} s"
        yield _kept(f"{what} look of the sensor / {asked:.0f} s", large[what] / asked, many, note)
    yield _memory("the sensor's looks", few, many, small, large)
    for what, asked_for in (("status", "status of the first"), ("doctor", "doctor")):
        small, large = (_told(made, asked_for) for made in (few, many))
        note = f"{large['seconds']:.1f} s, of {few.partitions} partitions {small['seconds']:.1f} s"
        yield _kept(f"{NAMED[what]} / {ASKED[what]:.0f} s", large["seconds"] / ASKED[what], many, note)
        yield _memory(NAMED[what], few, many, small, large)
    small, large = (_told(made, "load") for made in (few, many))
    note = f"{large['seconds']:.1f} s, of {few.partitions} partitions {small['seconds']:.1f} s"
    ratio = large["seconds"] / (small["seconds"] + MORE)
    yield _kept(f"a load of one partition / one of {few.partitions} partitions + {MORE:.0f} s", ratio, many, note)
    yield _memory("a load of one partition", few, many, small, large)


def _hourly(bench: Bench, count: int) -> ManyTables:
    return many_tables(bench.folder / f"lake_of_{count}_hours", 1, count, hourly=True)


def _memory(
    what: str, few: ManyTables, many: ManyTables, small: Mapping[str, float], large: Mapping[str, float]
) -> Comparison:
    note = f"{large['memory'] / MB:,.0f} MB, of {few.partitions} partitions {small['memory'] / MB:,.0f} MB"
    return _kept(f"peak memory of {what} / 1 GB", large["memory"] / MEMORY, many, note)


def in_postgres(bench: Bench) -> Iterator[Comparison]:
    """The same with Dagster's history in PostgreSQL on this machine, beside the same history in SQLite."""
    made = _made(bench, bench.sizes.tables)
    before = {what: _told(made, what)["seconds"] for what in ASKED}
    with running_postgres() as server:
        move_history(made.home, server, "many")
        for what, asked in ASKED.items():
            told = _told(made, what)
            note = f"{told['seconds']:.1f} s in PostgreSQL, {before[what]:.1f} s in SQLite"
            yield _kept(f"{NAMED[what]} in PostgreSQL / {asked:.0f} s", told["seconds"] / asked, made, note)
            note = f"{told['memory'] / MB:,.0f} MB"
            yield _kept(f"peak memory of {NAMED[what]} in PostgreSQL / 1 GB", told["memory"] / MEMORY, made, note)


def rest(bench: Bench) -> Iterator[Comparison]:
    """The processors that Dagster's processes take while nothing happens, beside sixteen tables."""
    few, many = (_made(bench, count) for count in (min(FEW, bench.sizes.tables // 2), bench.sizes.tables))
    small, large = (_at_rest(made, bench.sizes.rest) for made in (few, many))
    note = f"{large:.2f} of a core, with {len(few.names)} tables {small:.2f}"
    yield _kept("all processes but Spark at rest / 0.3 of a core", large / 0.3, many, note)


def _made(bench: Bench, count: int) -> ManyTables:
    return many_tables(bench.folder / f"lake_of_{count}", count, bench.sizes.backfill)


def _location(bench: Bench, few: ManyTables, many: ManyTables) -> Iterator[Comparison]:
    none = bench.new("nothing")
    make_project(none, sample=False)
    empty = _everything(none, {"DAGSTER_HOME": str(none / ".dagster_home")}, "location")
    small, large = (_told(made, "location") for made in (few, many))
    beside = f"of {len(few.names)} tables"
    note = f"{large['jobs']}, {beside} {small['jobs']}"
    yield _kept("jobs / 40", large["jobs"] / 40, many, note)
    sizes = [told["snapshot"] / MB for told in (large, small)]
    note = f"{sizes[0]:.1f} MB, {beside} {sizes[1]:.1f} MB"
    yield _kept("snapshot of the code location / 12 MB", sizes[0] / 12, many, note)
    note = f"{large['snapshot CPU']:.1f} s, {beside} {small['snapshot CPU']:.1f} s"
    yield _kept("CPU that makes the snapshot / 5 s", large["snapshot CPU"] / 5, many, note)
    asked = 1.5 * empty["loaded"] + 5
    note = f"{large['loaded']:.1f} s, {beside} {small['loaded']:.1f} s, of none {empty['loaded']:.1f} s"
    yield _kept("the code location is loaded / 1.5 times an empty one + 5 s", large["loaded"] / asked, many, note)
    note = f"{large['memory'] / MB:,.0f} MB, {beside} {small['memory'] / MB:,.0f} MB"
    yield _kept("peak memory of the code location / 1 GB", large["memory"] / MEMORY, many, note)


def _kept(name: str, ratio: float, made: ManyTables, note: str) -> Comparison:
    of = "many hours" if made.hourly else "many tables"
    sizes = {"tables": len(made.names), "partitions": made.partitions}
    found = Comparison(f"{name}, {of}", (ratio,), 1, sizes, note)
    print(found, flush=True)
    return found


def _told(made: ManyTables, what: str) -> Mapping[str, float]:
    """Seconds, memory and numbers of what goes through all tables."""
    return _everything(made.root, made.environment, what)


def _everything(root: Path, environment: Mapping[str, str], what: str) -> Mapping[str, float]:
    command, began = [sys.executable, "-m", "tests.benchmarks.everything", what], time.perf_counter()
    done = subprocess.run(command, cwd=root, env=_environment(environment), capture_output=True, text=True, check=False)
    whole = time.perf_counter() - began
    assert done.returncode == 0, done.stderr[-2000:]
    return {"seconds": whole} | json.loads(done.stdout.splitlines()[-1])


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(PROJECT), **environment}


def _at_rest(made: ManyTables, seconds: float) -> float:
    """The share of a processor that a running location takes, once its sensors have looked at everything."""
    with _dev(made) as process:
        time.sleep(seconds)  # the first looks read what later ones remember
        before, began = _cpu(process), time.perf_counter()
        time.sleep(seconds)
        after, took = _cpu(process), time.perf_counter() - began
        return sum(used - before.get(pid, 0.0) for pid, used in after.items()) / took


def _cpu(process: psutil.Process) -> dict[int, float]:
    """The CPU seconds of a process and all below it, without Spark."""
    found = {}
    for one in (process, *process.children(recursive=True)):
        try:
            if one.name() != "java":
                found[one.pid] = sum(one.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return found


@contextmanager
def _dev(made: ManyTables) -> Iterator[psutil.Process]:
    """A running ``dagster dev`` of a project, from when its code location is loaded."""
    port, said = free_port(), made.root / "said"
    command = [sys.executable, "-m", "dagster", "dev", "--port", str(port)]
    with said.open("w") as out:
        process = subprocess.Popen(command, cwd=made.root, env=_environment(made.environment), stdout=out, stderr=out)
    try:
        began = time.monotonic()
        while "Serving dagster-webserver" not in said.read_text():
            assert process.poll() is None and time.monotonic() - began < PATIENCE, said.read_text()[-2000:]
            time.sleep(1)
        yield psutil.Process(process.pid)
    finally:
        process.send_signal(SIGINT)
        process.wait(120)
