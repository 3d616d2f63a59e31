"""Spark's resolver as a monitored process: which jar it fetches, how much it has, and how long it will take."""

import os
import re
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from incload_assets.platform.progress import tell
from incload_assets.platform.wording import size

_LOOK_SECONDS = 0.5
_FOUND = re.compile(r"^\s*found \S+ in ", re.MULTILINE)
_FETCHED = re.compile(r"^downloading \S*/(\S+\.jar) \.\.\.", re.MULTILINE)


def resolve(
    command: Sequence[str | Path], environment: Mapping[str, str], cache: Path, timeout: float
) -> tuple[int, str]:
    """Runs the resolver, which fetches into a folder, for at most ``timeout`` seconds; returns exit code and output."""
    began, printed = time.monotonic(), b""
    fetching: float | None = None
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        try:
            while True:
                if time.monotonic() > began + timeout:
                    raise subprocess.TimeoutExpired([*map(str, command)], timeout)
                if select.select([process.stdout], [], [], _LOOK_SECONDS)[0]:
                    if not (more := os.read(process.stdout.fileno(), 65536)):
                        return process.wait(), printed.decode(errors="replace")
                    printed += more
                output = printed.decode(errors="replace")
                if fetching is None and _FETCHED.search(output):
                    fetching = time.monotonic()
                tell(_progress(output, cache, time.monotonic() - fetching if fetching else None))
        except BaseException:
            process.kill()
            raise
        finally:
            tell("")


def _progress(output: str, cache: Path, fetching_seconds: float | None) -> str:
    """The resolver's progress, from its output."""
    found, fetched = len(_FOUND.findall(output)), _FETCHED.findall(output)
    if not fetched or fetching_seconds is None:
        return f"Jars for Java: resolving dependencies, {found} so far"
    done = len(fetched) - 1
    left = f", about {fetching_seconds / done * (found - done):.0f} s left" if done and found > done else ""
    fetched_bytes = size(sum(path.stat().st_size for path in cache.rglob("*.jar*") if path.is_file()))
    return f"Jars for Java: fetching {len(fetched)} of {found}, {fetched[-1]}, {fetched_bytes} in total{left}"
