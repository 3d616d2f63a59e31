"""``incload dashboard`` as a person starts it, in a clone without any load."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from incload_assets.cli.program import program
from incload_assets.platform.local_servers.files import free_port
from tests.support.html import parsed
from tests.support.project_copy import Clone, readme_files

NOBODY = "sc://127.0.0.1:9"
"""No Spark is needed."""


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    clone = Clone.of(tmp_path, NOBODY)
    clone.write("my_lake/tables/payments.py", readme_files()["my_lake/tables/payments.py"])
    return clone


@pytest.fixture
def port() -> int:
    return free_port()


def listens_to_ctrl_c() -> None:
    """A shell lets programs that it starts in the background ignore the signal, and what they start inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def running(clone: Clone, port: int) -> Iterator["subprocess.Popen[str]"]:
    command = clone.command("dashboard", "--port", str(port), "--dagster-url", "http://127.0.0.1:3999/", "--no-open")
    environment = clone.environment(INCLOAD_SAMPLES="false")
    with subprocess.Popen(
        command,
        cwd=clone.root,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=listens_to_ctrl_c,
    ) as process:
        yield process
        process.kill()


def asked(address: str) -> str:
    deadline = time.monotonic() + 60
    while True:
        with suppress(urllib.error.URLError), closing(urllib.request.urlopen(address, timeout=30)) as answer:
            return str(answer.read().decode())
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_it_serves_the_tables_of_the_project_until_ctrl_c(running: "subprocess.Popen[str]", port: int) -> None:
    assert running.stdout is not None
    assert running.stdout.readline() == f"The dashboards are at http://127.0.0.1:{port}. Ctrl-C ends them.\n"
    page = parsed(asked(f"http://127.0.0.1:{port}/on-call"))
    assert page.one("h1").text == "On call"
    table = parsed(asked(f"http://127.0.0.1:{port}/table/payments"))
    assert "One row per payment, as last changed." in table.text
    assert "http://127.0.0.1:3999/assets/payments" in [a.attributes["href"] for a in table.all("a")]
    os.kill(running.pid, signal.SIGINT)
    assert running.wait(20) == 0


def test_a_port_that_is_taken_is_named_with_another(clone: Clone, port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        done = clone.incload("dashboard", "--port", str(port), INCLOAD_SAMPLES="false")
    assert done.returncode == 1
    assert f"port {port} of 127.0.0.1 is not available" in done.stderr
    assert f"incload dashboard --port {port + 1}" in done.stderr


@pytest.mark.parametrize("address", ["javascript:alert(1)", "127.0.0.1:3000"])
def test_an_address_of_dagster_that_is_none_is_refused(address: str) -> None:
    done = CliRunner().invoke(program, ["dashboard", "--dagster-url", address])
    assert done.exit_code == 1 and "begins with http:// or https://" in done.stderr
