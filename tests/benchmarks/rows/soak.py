"""Hundreds of loads through one shared Spark server: what it holds on to after many, against after a few."""

import re
import statistics
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.platform.spark.server_files import ServerFiles
from tests.benchmarks.bench import Bench
from tests.benchmarks.contest import Contest
from tests.benchmarks.items import Items
from tests.benchmarks.pairs import Comparison

SAMPLES = 10
"""Looks at the server; those of the first half are compared with those of the second."""
_SESSION = re.compile(r"^ *\d+: +(\d+) +\d+ +org\.apache\.spark\.sql\.connect\.service\.SessionHolder\b", re.MULTILINE)
_TOTAL = re.compile(r"^Total +\d+ +(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Held:
    """What a server holds when nothing is in use but the session that asks: 0 of something counts as 1.

    Args:
        heap: Bytes of live objects.
        sessions: Of clients.
        threads: Of its process.
        files: That its process has open.
        disk: Bytes of Spark's local files.
    """

    heap: int
    sessions: int
    threads: int
    files: int
    disk: int


def soak(bench: Bench) -> Iterator[Comparison]:
    """Every other load has a session of its own, as a run has; the others share one, as those of a long run do.

    For a server that is started here, and a JDK, which counts.
    """
    contest = Contest.of(bench, Items(rows=200, days=2, changes=40))
    loads, settings, held = contest.loads(), Settings(), list[Held]()
    every = max(1, bench.sizes.soak // SAMPLES)
    for number in range(every * SAMPLES):
        loads.write(number)
        with open_session(settings) if number % 2 else nullcontext(contest.spark) as spark:
            loads.table = replace(loads.table, spark=spark)
            loads.load(number)
        if (number + 1) % every == 0:
            held.append(_held(settings))
            print(f"after {number + 1} loads: {held[-1]}", flush=True)
    early, late = held[: SAMPLES // 2], held[SAMPLES // 2 :]
    for name in asdict(held[0]):
        ratios = tuple(getattr(b, name) / getattr(a, name) for a, b in zip(early, late, strict=True))
        told = [statistics.median(getattr(one, name) for one in part) for part in (early, late)]
        yield Comparison(
            f"{name} of the server, second half of the loads / first half", ratios, 1.2,
            {"loads": every * SAMPLES}, f"{told[0]:,.0f} and {told[1]:,.0f}",
        )  # fmt: skip


def _held(settings: Settings) -> Held:
    files = ServerFiles.of(settings.home_root)
    server = files.read()
    assert server is not None
    command = ["jcmd", f"{server.jvm_pid}", "GC.class_histogram"]  # collects garbage first
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    total, sessions, process = _TOTAL.search(told), _SESSION.search(told), psutil.Process(server.jvm_pid)
    assert total is not None
    disk = sum(_size(path) for path in files.scratch.rglob("*"))
    found = (int(total[1]), int(sessions[1]) if sessions else 0, process.num_threads(), process.num_fds(), disk)
    return Held(*(max(1, number) for number in found))


def _size(path: Path) -> int:
    """Bytes of a file; none of a folder, nor of what Spark has removed meanwhile."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0
