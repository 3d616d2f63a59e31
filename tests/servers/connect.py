"""A real Kafka Connect with Debezium's connectors for PostgreSQL and MariaDB, for the tests."""

import json
import shutil
import signal
import subprocess
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import requests

from incload_assets.platform.local_servers.files import free_port
from tests.servers.java_servers import AVRO, CONNECT, CONNECTORS, fetched, java
from tests.servers.kafka import KafkaServer, run_folder
from tests.servers.mariadb import MariadbServer
from tests.servers.postgres import PostgresServer
from tests.servers.sharing import shared

_CONFIGURATION = """
bootstrap.servers={kafka}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter.schemas.enable=false
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=1000
plugin.path={plugins}
plugin.discovery=service_load
listeners=http://127.0.0.1:{port}
topic.creation.enable=true
"""

_CONVERTER = "org.apache.kafka.connect.storage.Converter"


@dataclass(frozen=True)
class ConnectServer:
    """Where Kafka Connect is, and its connectors.

    Args:
        url: Of its REST interface.
    """

    url: str

    @contextmanager
    def debezium(
        self, postgres: PostgresServer, database: str, prefix: str, tables: str, **options: str
    ) -> Iterator[str]:
        """A connector that runs for as long as the block does; its topics are ``<prefix>.<schema>.<table>``.

        Args:
            postgres: Where the database is.
            database: Its name.
            prefix: Of the topics; also the name of connector, slot and publication: small letters, digits and ``_``.
            tables: As ``schema.table``, separated by commas.
            options: More of the connector's, with underscores for dots: ``skipped_operations="none"``.

        Yields:
            The connector's name.
        """
        self.start_debezium(postgres, database, prefix, tables, **options)
        try:
            yield prefix
        finally:
            self._ask("DELETE", f"/connectors/{prefix}")
            _drop_slot(postgres, database, prefix)

    def start_debezium(self, postgres: PostgresServer, database: str, prefix: str, tables: str, **options: str) -> None:
        """Start such a connector, and wait until it runs; a killed Connect forgets its connectors."""
        configuration = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.dbname": database,
            "plugin.name": "pgoutput",
            "slot.name": prefix,
            "publication.name": prefix,
            "publication.autocreate.mode": "filtered",
        }
        self._start(postgres, prefix, tables, configuration, options)

    def start_debezium_of_mariadb(
        self, mariadb: MariadbServer, kafka: KafkaServer, prefix: str, tables: str, **options: str
    ) -> None:
        """Start a connector for MariaDB, and wait until it runs; tables are ``database.table``.

        It keeps the history of the schema in the topic ``<prefix>-schemas``, and sends changes of it to ``<prefix>``.
        """
        configuration = {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.server.id": str(1000 + zlib.crc32(prefix.encode()) % 10**6),  # each is a replica of its own
            "database.include.list": ",".join(sorted({table.partition(".")[0] for table in tables.split(",")})),
            "schema.history.internal.kafka.bootstrap.servers": kafka.servers,
            "schema.history.internal.kafka.topic": f"{prefix}-schemas",
        }
        self._start(mariadb, prefix, tables, configuration, options)

    def _start(
        self,
        database: PostgresServer | MariadbServer,
        prefix: str,
        tables: str,
        own: Mapping[str, str],
        options: Mapping[str, str],
    ) -> None:
        common = {
            "tasks.max": "1",
            "database.hostname": database.host,
            "database.port": str(database.port),
            "database.user": database.user,
            "database.password": database.password,
            "topic.prefix": prefix,
            "table.include.list": tables,
            "poll.interval.ms": "50",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
            "heartbeat.interval.ms": "0",
        }
        more = {name.replace("_", "."): value for name, value in options.items()}
        self._ask("PUT", f"/connectors/{prefix}/config", {**common, **own, **more})
        self.wait(prefix)

    def wait(self, connector: str) -> None:
        """Until the connector and its task run.

        Raises:
            RuntimeError: They failed, or did not run in time.
        """
        status: Mapping[str, Any] = {}
        for _ in range(300):
            status = self.status(connector)
            states = [part["state"] for part in (status.get("connector"), *status.get("tasks", [])) if part]
            if len(states) > 1 and set(states) == {"RUNNING"}:
                return
            if "FAILED" in states:
                break
            time.sleep(0.1)
        raise RuntimeError(f"the connector {connector} does not run: {json.dumps(status)[:3000]}")

    def status(self, connector: str) -> dict[str, Any]:
        """What Kafka Connect says of a connector and its tasks; nothing of one that it does not know yet."""
        found: dict[str, Any] = self._ask("GET", f"/connectors/{connector}/status", missing={})
        return found

    def offsets(self, connector: str) -> list[dict[str, Any]]:
        """How far a connector has come, as last written down."""
        found = self._ask("GET", f"/connectors/{connector}/offsets")
        return [part["offset"] for part in found["offsets"]]

    def restart(self, connector: str) -> None:
        """Restart a connector with its task, and wait until it runs."""
        self._ask("POST", f"/connectors/{connector}/restart?includeTasks=true")
        self.wait(connector)

    def pause(self, connector: str) -> None:
        """Stop a connector's task; :meth:`resume` starts it again."""
        self._ask("PUT", f"/connectors/{connector}/stop")

    def resume(self, connector: str) -> None:
        """Go on where the connector had stopped."""
        self._ask("PUT", f"/connectors/{connector}/resume")
        self.wait(connector)

    def _ask(self, verb: str, path: str, body: Any = None, missing: Any = None) -> Any:
        answer = requests.request(verb, self.url + path, json=body, timeout=30)
        if answer.status_code == 404 and missing is not None:
            return missing
        if not answer.ok:
            raise RuntimeError(f"Kafka Connect: {verb} {path}: {answer.status_code} {answer.text[:2000]}")
        return answer.json() if answer.content else None


class OwnConnect:
    """A Kafka Connect of one test, which may kill it.

    Args:
        kafka: Its broker.
        folder: Empty.
    """

    def __init__(self, kafka: KafkaServer, folder: Path) -> None:
        self._folder = folder
        self._command, url = _prepare(kafka, folder)
        self.server = ConnectServer(url)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it answers; it goes on where its connectors' offsets were last written down."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", "--", *self._command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        _wait(self.server)

    def kill(self) -> None:
        """Stop as in a power failure, but not while it writes its offsets down.

        The file is written in place, and one cut short counts as none: it would take its snapshots again, and never
        tell what was deleted meanwhile.
        """
        if self._process is None:
            return
        for _ in range(500):
            self._process.send_signal(signal.SIGSTOP)
            time.sleep(0.01)
            if self._has_written():
                break
            self._process.send_signal(signal.SIGCONT)
        self._process.kill()
        self._process.wait(10)

    def _has_written(self) -> bool:
        """Whether the file of offsets is whole: a serialized map ends with the mark of an end."""
        file = self._folder / "offsets"
        return not file.exists() or file.read_bytes()[-1:] == b"x"


@contextmanager
def running_connect(kafka: KafkaServer) -> Iterator[OwnConnect]:
    """A Kafka Connect for as long as the block runs, for tests that kill it."""
    folder = Path(tempfile.mkdtemp(prefix="connect-"))
    own = OwnConnect(kafka, folder)
    try:
        own.start()
        yield own
    finally:
        own.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _drop_slot(postgres: PostgresServer, database: str, slot: str) -> None:
    """Its database could not be dropped otherwise."""
    free = f"FROM pg_replication_slots WHERE slot_name = '{slot}'"
    for _ in range(100):
        postgres.run(database, f"SELECT pg_drop_replication_slot(slot_name) {free} AND NOT active")
        if not postgres.rows(database, f"SELECT 1 {free}"):
            return
        time.sleep(0.1)


def _prepare(kafka: KafkaServer, folder: Path) -> tuple[list[str | Path], str]:
    plugins = folder / "plugins"
    plugins.mkdir()
    for coordinates in CONNECTORS:
        (plugins / coordinates.split(":")[1]).symlink_to(fetched([coordinates])[0].parent)
    (plugins / "avro").mkdir()
    for jar in fetched(AVRO):
        (plugins / "avro" / jar.name).symlink_to(jar)
    with ZipFile(plugins / "avro" / "services.jar", "w") as services:  # the converter's own jar lacks it
        services.writestr(f"META-INF/services/{_CONVERTER}", "io.apicurio.registry.utils.converter.AvroConverter\n")
    port = free_port()
    configuration = _CONFIGURATION.format(kafka=kafka.servers, folder=folder, plugins=plugins, port=port)
    (folder / "connect.properties").write_text(configuration)
    main, properties = "org.apache.kafka.connect.cli.ConnectStandalone", folder / "connect.properties"
    return [*java(folder, CONNECT), main, properties], f"http://127.0.0.1:{port}"


def _wait(server: ConnectServer) -> None:
    for _ in range(900):
        with suppress(requests.RequestException):
            if requests.get(f"{server.url}/connectors", timeout=2).ok:
                return
        time.sleep(0.1)
    raise RuntimeError(f"Kafka Connect at {server.url} does not answer")


@pytest.fixture(scope="session")
def connect(kafka: KafkaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """One Kafka Connect for the whole test run, on its one broker; each test makes connectors of its own."""
    with shared(run_folder(tmp_path_factory) / "connect", lambda folder: _prepare(kafka, folder)) as url:
        server = ConnectServer(url)
        _wait(server)
        yield server
