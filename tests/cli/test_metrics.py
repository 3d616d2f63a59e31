"""``incload metrics``: what a person and Prometheus get of it."""

import signal
import socket
import subprocess

import pytest
import requests

from incload_assets.platform.local_servers.files import free_port
from tests.servers.prometheus import eventually
from tests.support.project_copy import Clone, readme_files

PLAIN = {"INCLOAD_SAMPLES": "false"}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The README's table; its Spark is nowhere."""
    clone = Clone.of(tmp_path_factory.mktemp("clone"), "sc://localhost:1/;token=not-to-be-shown")
    clone.write("my_lake/tables/payments.py", readme_files()["my_lake/tables/payments.py"])
    return clone


def test_once_prints_the_metrics_and_ends(clone: Clone) -> None:
    done = clone.incload("metrics", "--once", **PLAIN)
    assert (done.returncode, done.stderr) == (0, "")
    assert "incload_up 1.0\n" in done.stdout
    assert 'incload_table_info{criticality="normal",owner="",table="payments"} 1.0\n' in done.stdout


def test_a_lake_that_does_not_answer_is_told_on_the_terminal_without_secrets(clone: Clone) -> None:
    nobody = {"INCLOAD_LAKE": "s3://nobody/lake", "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_REGION": "eu-west-1",
              "AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "not-to-be-shown"}  # fmt: skip
    done = clone.incload("metrics", "--once", **PLAIN, **nobody)
    assert (done.returncode, "incload_up 0.0\n" in done.stdout) == (0, True)
    assert done.stderr.startswith("Error: metrics could not be gathered: SparkUnavailable: ")
    assert "not-to-be-shown" not in done.stdout + done.stderr


def test_it_serves_until_it_is_told_to_end(clone: Clone) -> None:
    port = free_port()
    command = clone.command("metrics", "--port", str(port))
    with subprocess.Popen(
        command,
        cwd=clone.root,
        env=clone.environment(**PLAIN),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == f"Metrics: http://127.0.0.1:{port}/metrics (Ctrl-C ends)\n"
            found = eventually(lambda: requests.get(f"http://127.0.0.1:{port}/metrics", timeout=30))
            assert found.status_code == 200 and "incload_up 1.0\n" in found.text
            assert found.headers["Content-Type"].startswith("text/plain; version=")
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=30) == 0


def test_a_port_that_is_taken_is_one_line(clone: Clone) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = clone.incload("metrics", "--port", str(port), **PLAIN)
    assert (done.returncode, done.stderr) == (
        1,
        f"Error: port {port} of 127.0.0.1 is not available: Address already in use. Rule: incload metrics needs a port "
        f"of its own. Remedy: end the program that uses it, or choose another: incload metrics --port {port + 1}.\n",
    )
