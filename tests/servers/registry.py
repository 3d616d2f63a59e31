"""A real schema registry for the tests: Apicurio's, in memory, which speaks the protocol that Confluent published.

A gate in front of it asks who calls, counts, and fails as servers do.
"""

import json
import subprocess
import tarfile
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import quote

import pytest

from incload_assets.platform.local_servers.files import free_port
from incload_assets.platform.local_servers.locks import exclusive
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import jars
from incload_assets.platform.spark.java import java_home
from tests.servers.kafka import run_folder
from tests.servers.sharing import shared

VERSION = "2.6.13.Final"
"""The last one that runs on the oldest Java of Spark 4.2."""
PATH = "/apis/ccompat/v7"
USER, PASSWORD, TOKEN = "incload", "not-to-be-shown", "token-not-to-be-shown"
_ALLOWED = {f"Basic {b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}", f"Bearer {TOKEN}"}


@dataclass(frozen=True)
class Registry:
    """Where a registry is, and what tests do to it.

    Args:
        port: Of this machine.
    """

    port: int

    @property
    def url(self) -> str:
        """What a client is told."""
        return f"http://127.0.0.1:{self.port}{PATH}"

    def register(
        self, subject: str, schema: Any, references: Sequence[Mapping[str, Any]] = (), kind: str = "AVRO"
    ) -> int:
        """Give a schema to a subject; returns its id."""
        text = schema if isinstance(schema, str) and kind != "AVRO" else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": [*references]}
        status, answer = self.ask("POST", f"{PATH}/subjects/{quote(subject)}/versions", json.dumps(body).encode())
        assert status == 200, answer
        return int(json.loads(answer)["id"])

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body of an answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {"Content-Type": "application/vnd.schemaregistry.v1+json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


class Gate:
    """A server in front of a registry that lets through who has an account.

    Attributes:
        port: Where it listens.
        paths: What was asked for, in order.
        answers: Answers to give in place of the registry's, first one first: status, headers and body.
    """

    def __init__(self, registry: Registry) -> None:
        self.paths: list[str] = []
        self.answers: list[tuple[int, Mapping[str, str], bytes]] = []
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                gate.paths.append(self.path)
                headers: Mapping[str, str] = {}
                if gate.answers:
                    status, headers, body = gate.answers.pop(0)
                elif self.headers.get("Authorization") in _ALLOWED:
                    status, body = registry.ask("GET", self.path)
                else:
                    status, body = 401, b'{"error_code":401,"message":"who?"}'
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self.server.server_port

    @property
    def url(self) -> str:
        """What a client is told."""
        return f"http://127.0.0.1:{self.port}{PATH}"


@contextmanager
def gate_of(registry: Registry) -> Iterator[Gate]:
    """A gate for as long as the block runs."""
    gate = Gate(registry)
    thread = threading.Thread(target=gate.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield gate
    finally:
        gate.server.shutdown()
        gate.server.server_close()
        thread.join(10)


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """One registry for the whole test run; each test uses subjects of its own."""
    if which("mvn") is None:
        pytest.skip("Apicurio's registry comes as an archive, which only Maven's own client fetches")
    with shared(run_folder(tmp_path_factory) / "registry", _start) as address:
        found = Registry(int(address))
        for _ in range(600):
            try:
                if found.ask("GET", f"{PATH}/subjects")[0] == 200:
                    break
            except OSError:
                time.sleep(0.1)
        yield found


def _start(_: Path) -> tuple[list[str | Path], str]:
    port = free_port()
    options = [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1", "-Xmx320m", "-XX:TieredStopAtLevel=1"]
    program = _program() / f"apicurio-registry-app-{VERSION}-runner.jar"
    return [java_home(Settings()) / "bin" / "java", *options, "-jar", program], str(port)


def _program() -> Path:
    """The folder of the registry's program, fetched once by Maven."""
    cache = jars._cache()
    folder = cache / f"apicurio-{VERSION}"
    cache.mkdir(parents=True, exist_ok=True)
    with exclusive(folder.with_suffix(".lock"), 280):
        if not folder.exists():
            draft = cache / f"new-{folder.name}"
            artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
            command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={draft}"]
            subprocess.run(command, check=True, timeout=240, cwd=cache, stdout=subprocess.DEVNULL)
            [archive] = draft.glob("*.tar.gz")
            with tarfile.open(archive) as content:
                content.extractall(draft, filter="data")
            archive.unlink()
            draft.rename(folder)
    return folder
