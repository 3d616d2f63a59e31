"""A Spark Connect server behind TLS: the right and the wrong authority, host, protocol and token."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from incload_assets.platform.spark.handshake import ROOTS
from tests.servers.tls import tls_in_front_of
from tests.support.certificates import Authority

pytestmark = pytest.mark.integration

# in a process of its own: gRPC reads the file of authorities once
PROGRAM = """
import sys
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session

try:
    with open_session(Settings(spark=sys.argv[1])) as session:
        print(session.range(3).count())
except Exception as error:
    print(type(error).__name__, "transient" if error.transient else "for a person:", error)
"""


@dataclass(frozen=True)
class Server:
    """The server of the test run.

    Args:
        port: Where it is.
        token: That it asks for.
        folder: For certificates.
    """

    port: int
    token: str
    folder: Path

    def told(self, port: int, authority: Authority | None, token: str | None = None) -> str:
        """What a load is told that reaches the server by a port."""
        url = f"sc://127.0.0.1:{port}/;use_ssl=true;token={token or self.token}"
        environment = {name: value for name, value in os.environ.items() if name != ROOTS}
        if authority is not None:
            environment[ROOTS] = str(authority.certificate)
        command = [sys.executable, "-c", PROGRAM, url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=True)
        assert (token or self.token) not in done.stdout
        return done.stdout.strip()


@pytest.fixture
def server(spark_url: str, tmp_path: Path) -> Server:
    return Server(urlsplit(spark_url).port or 0, spark_url.rpartition("token=")[2], tmp_path)


@pytest.fixture
def authority(server: Server) -> Authority:
    return Authority(server.folder)


@pytest.fixture
def port(server: Server, authority: Authority) -> Iterator[int]:
    """The server behind TLS."""
    with tls_in_front_of(server.port, authority.issue(), protocols=["h2"]) as port:
        yield port


def test_a_server_that_proves_who_it_is_is_used(server: Server, port: int, authority: Authority) -> None:
    assert server.told(port, authority) == "3"


@pytest.mark.parametrize("named", [True, False], ids=["another authority", "none named"])
def test_a_server_that_is_not_trusted_is_told_at_once(server: Server, port: int, named: bool) -> None:
    told = server.told(port, Authority(server.folder, "other") if named else None)
    assert told.startswith(
        "SparkUnavailable for a person: the TLS handshake with the Spark server "
        f"sc://127.0.0.1:{port}/;use_ssl=true;token=*** fails: its certificate is not trusted, or has expired. Rule: "
    )
    assert f"set {ROOTS} to the file" in told


def test_a_certificate_of_another_host_is_no_wrong_token(server: Server, authority: Authority) -> None:
    with tls_in_front_of(server.port, authority.issue("spark.example.com"), protocols=["h2"]) as elsewhere:
        assert "fails: its certificate is of another host. Rule: " in server.told(elsewhere, authority)


def test_a_wrong_token_is_told_as_such(server: Server, port: int, authority: Authority) -> None:
    told = server.told(port, authority, token="wrong-one")
    assert told.startswith("SparkUnavailable for a person: the Spark server sc://127.0.0.1:")
    assert "token=*** refuses the key. Remedy: put the right token in INCLOAD_SPARK" in told


def test_a_server_without_tls_or_a_proxy_without_http_2_is_told_as_such(server: Server, authority: Authority) -> None:
    assert "fails: it speaks no TLS. Rule: " in server.told(server.port, authority)
    with tls_in_front_of(server.port, authority.issue()) as proxy:
        assert "fails: it speaks no HTTP/2. Rule: " in server.told(proxy, authority)
