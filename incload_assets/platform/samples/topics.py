"""Finding or starting the sample Kafka of this workspace.

``incload dev`` on a laptop must need only Python and Java, so this Kafka is one process on Spark's Java, with jars from
Maven. As with the sample PostgreSQL, the first process that needs it starts it, and none owns it: see
:mod:`incload_assets.platform.local_servers.on_demand`. All files are in ``<home>/kafka``.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta

from incload_assets.platform.errors import SourceUnavailable, SparkUnavailable
from incload_assets.platform.kafka import KafkaCluster
from incload_assets.platform.local_servers.on_demand import OnDemand
from incload_assets.platform.samples.kafka import JARS, KafkaFiles
from incload_assets.platform.samples.kafka_supervisor import Order, login
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import jars
from incload_assets.platform.spark.java import java_home

_FAULT = re.compile(r"^(Caused by: )?([a-z0-9]+\.)+\w+(Exception|Error): |^[Ee]rror: |FATAL")
_PATIENCE = timedelta(minutes=5)
"""Time after a failure to fetch the jars before Maven is tried again, because sensors need the broker every few
seconds."""


def find_or_start(name: str, settings: Settings, topics: Mapping[str, int], timeout: float = 150.0) -> KafkaCluster:
    """The cluster of this workspace, whose broker is up when this returns.

    Args:
        name: The cluster's name, see :class:`KafkaCluster`.
        settings: Settings with the location of the workspace and the idle time of servers (Spark's).
        topics: Topics with their numbers of partitions, created at the start of a broker if they are missing.
        timeout: Seconds to wait for a broker that is starting or stopping, which usually takes five. Fetching its jars
            for the first time is extra.

    Raises:
        SourceUnavailable: ``INCLOAD_KAFKA`` is false, there are no jars, or the broker does not start; the message
            says why.

    Example:
        >>> find_or_start("sample_shop", Settings(), {"web_events": 2}).servers  # doctest: +SKIP
        '127.0.0.1:49152'
    """
    if settings.kafka is False:
        raise _unavailable(name, None, "INCLOAD_KAFKA is false, which prevents its start")
    server = _server(name, settings).find_or_start(lambda: _order(name, settings, topics), timeout)
    options = login(server.port, server.password)
    return KafkaCluster(name, options.pop("bootstrap.servers"), options)


def stop(settings: Settings, timeout: float = 30.0) -> bool:
    """Ends this workspace's broker even if it is in use; returns whether there was one. Its messages stay.

    Raises:
        SourceUnavailable: The broker does not end.
    """
    return _server("sample", settings).stop(timeout)


def _server(name: str, settings: Settings) -> OnDemand:
    files = KafkaFiles.of(settings.home_root)
    return OnDemand(files, "incload_assets.platform.samples.kafka_supervisor", _FAULT,
                    lambda problem: _unavailable(name, files, problem))  # fmt: skip


def _order(name: str, settings: Settings, topics: Mapping[str, int]) -> bytes:
    try:
        home = java_home(settings)
        found = jars.resolved(settings, JARS, home, again_after=_PATIENCE)
    except SparkUnavailable as error:
        raise _unavailable(name, None, error.problem) from None
    order = Order(settings.spark_idle_minutes * 60, str(home), jars.classpath(found[0].parent), dict(topics))
    return json.dumps(asdict(order)).encode()


def _unavailable(name: str, files: KafkaFiles | None, problem: str) -> Exception:
    look = f"see {files.log}; or " if files else "unset INCLOAD_KAFKA, and give this machine Java and Maven; or "
    begin = f"; or remove {files.folder} to start with an empty one" if files else ""
    return SourceUnavailable(
        f"Kafka cluster {name!r}: the Kafka that comes with the samples: {problem}",
        rule="it runs on this machine, on Java, with jars that are fetched from Maven once; only the tables that read "
        "from it need it",
        remedy=f"{look}configure your own Kafka by INCLOAD_KAFKA_{name.upper()}_SERVERS{begin}",
    )
