"""Commands forked from the process that has loaded the code location: real processes, as a person starts them."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.support.project_copy import Clone, readme_files

PLAIN = {"INCLOAD_SAMPLES": "false"}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory, spark_url: str) -> Clone:
    clone = Clone.of(tmp_path_factory.mktemp("clone"), spark_url)
    for path, content in readme_files().items():
        clone.write(path, content)
    return clone


@pytest.fixture(scope="module")
def server(clone: Clone) -> Iterator[psutil.Process]:
    start = [sys.executable, "-m", "incload_assets.runs"]
    subprocess.run(start, cwd=clone.root, env=clone.environment(**PLAIN), stdin=subprocess.DEVNULL, check=True)
    [record] = (clone.root / ".incload" / "warm_runs").glob("*/server.json")
    process = psutil.Process(json.loads(record.read_text())["pid"])
    yield process
    process.terminate()


def test_a_forked_command_says_what_it_always_says_and_imports_nothing(clone: Clone, server: psutil.Process) -> None:
    cold, forked = _status(clone, INCLOAD_SPARK_MEMORY="3g"), _status(clone)

    assert "dagster._core.definitions" in cold.stderr
    assert "dagster" not in forked.stderr
    assert forked.stdout == cold.stdout
    assert "payments" in forked.stdout
    assert server.is_running()


def test_a_forked_command_fails_as_it_always_fails(clone: Clone, server: psutil.Process) -> None:
    done = clone.incload("load", "paymets", "--all-missing", **PLAIN)
    assert (done.returncode, done.stdout, done.stderr) == (
        1, "", "Error: there is no table 'paymets'. Rule: the tables are payments. Remedy: write 'payments'.\n"
    )  # fmt: skip


@pytest.mark.slow
def test_a_forked_load_loads_and_one_whose_caller_is_killed_ends(clone: Clone, server: psutil.Process) -> None:
    done = clone.incload("load", "payments", "-p", "2026-01-05", **PLAIN)
    assert (done.returncode, done.stderr) == (0, "")
    assert "6 read, 2 inserted" in done.stdout

    caller = subprocess.Popen(
        clone.command("load", "payments", "-p", "2026-01-05"), cwd=clone.root, env=clone.environment(**PLAIN)
    )
    _wait(lambda: bool(server.children()) or caller.poll() is not None)
    caller.kill()
    caller.wait()
    _wait(lambda: not server.children())


def test_a_command_with_another_password_is_not_taken(clone: Clone, server: psutil.Process) -> None:
    code = "import sys; from incload_assets.platform.local_servers.command_socket import *\n"
    code += "import glob, json, os, socket; [record] = glob.glob('.incload/warm_runs/*/server.json')\n"
    code += "there = socket.socket(socket.AF_UNIX)\n"
    code += "there.connect(address(json.load(open(record))['password']))\n"
    code += "send(there, Command('wrong', ['status'], os.getcwd(), dict(os.environ)), [0, 1, 2])\n"
    code += "print(there.makefile().readline())"
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=clone.root, env=clone.environment(**PLAIN), capture_output=True, text=True
    )
    assert (told.stdout.strip(), told.stderr) == ('{"pid": null}', "")


def _status(clone: Clone, **more: str) -> "subprocess.CompletedProcess[str]":
    """``incload status``; standard error says what its own process has imported."""
    return subprocess.run(
        [sys.executable, "-X", "importtime", *clone.command("status")[1:]],
        cwd=clone.root,
        env=clone.environment(**PLAIN, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def _wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.05)
