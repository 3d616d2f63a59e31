"""A forked command is as one in a new process: its folder's modules, its environment, its end."""

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.support import forked

FACTS = """
import json, os, sys
facts = {"here": os.getcwd(), "path": sys.path[0], "arguments": sys.argv[1:], "environment": [*os.environ],
         "leads": os.getsid(0) == os.getpid(), "input": sys.stdin.read(), "files": sorted(os.listdir("/proc/self/fd"))}
print(json.dumps(facts))
"""
"""``files``: the fourth is the folder that is listed."""


def run(folder: Path, program: str, *arguments: str, timeout: float = 60) -> "subprocess.CompletedProcess[str]":
    """Run a module of the folder."""
    (folder / "a_program.py").write_text(program)
    return forked.run("a_program", arguments, folder, {"PATH": os.environ["PATH"], "ONE": "1"}, timeout)


def test_it_has_what_a_new_process_has_and_nothing_else(tmp_path: Path) -> None:
    done = run(tmp_path, FACTS, "a", "b c")
    assert (done.returncode, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert facts == {
        "here": str(tmp_path), "path": str(tmp_path),
        "arguments": ["a", "b c"], "environment": ["PATH", "ONE"], "leads": True, "input": "",
        "files": ["0", "1", "2", "3"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("program", "code", "out", "err"),
    [
        ("print('é')", 0, "é\n", ""),
        ("import sys; print(1, end=''); sys.exit(3)", 3, "1", ""),
        ("import sys; sys.exit('why')", 1, "", "why\n"),
        ("import os; print(1, flush=True); os._exit(4)", 4, "1\n", ""),
        ("import os; os.kill(os.getpid(), 9)", -9, "", ""),
        ("import os; os.kill(os.getpid(), 15)", -15, "", ""),
        ("import atexit; atexit.register(print, 'at the end')", 0, "at the end\n", ""),
        ("from threading import Timer; Timer(0.1, print, ['a thread']).start()", 0, "a thread\n", ""),
    ],
)
def test_it_ends_as_a_process_ends(tmp_path: Path, program: str, code: int, out: str, err: str) -> None:
    done = run(tmp_path, program)
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)


def test_an_error_has_its_traceback(tmp_path: Path) -> None:
    done = run(tmp_path, "def fails():\n    raise ValueError('why')\n\nfails()")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback") and done.stderr.endswith("\nValueError: why\n")


def test_what_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run(tmp_path, "import os, subprocess; subprocess.run(['sh', '-c', 'echo $$ > pid; sleep 60'])", timeout=2)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int((tmp_path / "pid").read_text())).wait(10)
