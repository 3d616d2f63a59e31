"""Programs that a benchmark runs in processes of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

LAST_WORDS = 2_000


def run_module(module: str, *arguments: str, **environment: Path) -> str:
    """Run a module and wait for its end.

    Args:
        module: Its name.
        arguments: Of its command line.
        environment: Variables beside, or in place of, those of this process.

    Returns:
        What it printed.

    Raises:
        RuntimeError: It failed; with the end of what it said.
    """
    told = {name: f"{path}" for name, path in environment.items()}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, env={**os.environ, **told}, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{module} failed: {done.stderr[-LAST_WORDS:]}")
    return done.stdout


def peak_of(process: int) -> int:
    """The largest resident set of a process so far, in bytes; for Linux, which keeps count."""
    told = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    assert told is not None
    return int(told[1]) * 1024
