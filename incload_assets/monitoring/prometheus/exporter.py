"""The metrics in Prometheus's text format, gathered again for each scrape.

Nothing is kept between scrapes: counters come from ``_loads``, which outlives this process and the records of runs in
Dagster. If lake or Dagster's storage do not answer, the scrape succeeds with ``incload_up 0`` and without the series of
the tables. An HTTP error would look to Prometheus as if this process were gone, which has another remedy.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

import dagster as dg
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.monitoring.facts import Facts, gather
from incload_assets.monitoring.metrics import ALL_SILENCED, HEARTBEAT, LAKE_READABLE, METRICS, OBSERVED, samples
from incload_assets.monitoring.telemetry.emitters import collect_and_send
from incload_assets.platform.lake import Lake
from incload_assets.platform.memory import unsearched

UP = "incload_up"
GATHERING = "incload_gathering_seconds"
WHOLE = {
    UP: "0 if lake or Dagster's storage did not answer; the series of the tables are left out then.",
    GATHERING: "How long it took to gather the metrics.",
    OBSERVED: "When the metrics were gathered.",
    LAKE_READABLE: "0 if the audit or the decisions about rejected rows cannot be read.",
    ALL_SILENCED: "1 if somebody has silenced messages about all tables and the machinery.",
    HEARTBEAT: "When each of Dagster's daemons last gave a sign of life.",
}
"""The metrics that are not of a table, by name, with their help."""


@dataclass(frozen=True)
class Gathered:
    """The facts, or None if they could not be gathered, and how long that took."""

    facts: Facts | None
    seconds: float


class Exporter(Collector):
    """A collector for prometheus-client that gathers when it is asked; scrapes at the same time share a gathering.

    ``report`` gets an error that made a gathering fail, and None at the first success after it.
    """

    def __init__(
        self,
        instance: dg.DagsterInstance,
        tables: Iterable[Table],
        lake: Lake,
        report: Callable[[Exception | None], None] = lambda _: None,
    ) -> None:
        self.instance, self.tables, self.lake, self.report = instance, list(tables), lake, report
        self._lock, self._ended, self._last, self._failed = threading.Lock(), 0.0, Gathered(None, 0.0), False

    def describe(self) -> Iterator[Family]:
        """No names: to know them, prometheus-client would gather when the collector is registered."""
        return iter(())

    def collect(self) -> Iterator[Family]:
        """The metrics now."""
        with unsearched():
            found = self._gathered()
        yield from families(found)

    def text(self) -> str:
        """The metrics now, as a scrape gets them."""
        return generate_latest(registry_of(self)).decode()

    @property
    def unreadable(self) -> list[str]:
        """The faults of lake and tables when the metrics were last gathered, one line each."""
        facts = self._last.facts
        if facts is None:
            return []
        return [*facts.unreadable, *(one.unreadable for one in facts.tables.values() if one.unreadable)]

    def _gathered(self) -> Gathered:
        """The facts now; if another scrape was gathering them when this one came, what that one found."""
        came = time.monotonic()
        with self._lock:
            if self._ended < came:
                self._last = Gathered(None, 0.0)  # two of them would need twice the memory
                self._last = self._gather()
                self._ended = time.monotonic()
            return self._last

    def _gather(self) -> Gathered:
        began = time.monotonic()
        facts, error = None, None
        try:
            collect_and_send(self.instance, self.tables, self.lake)
            facts = gather(self.instance, self.tables, self.lake, now())
        except Exception as raised:  # whatever it is, the next scrape may succeed
            error = raised
        if (error is not None) or self._failed:
            self.report(error)
        self._failed = error is not None
        return Gathered(facts, time.monotonic() - began)


def families(found: Gathered) -> Iterator[Family]:
    """The metrics in prometheus-client's model."""
    facts = found.facts
    yield _whole(UP, [({}, float(facts is not None))])
    yield _whole(GATHERING, [({}, found.seconds)])
    if facts is None:
        return
    yield _whole(OBSERVED, [({}, facts.at.timestamp())])
    yield _whole(LAKE_READABLE, [({}, float(not facts.unreadable))])
    yield _whole(ALL_SILENCED, [({}, float(facts.silenced))])
    beats = sorted(facts.heartbeats.items())
    yield _whole(HEARTBEAT, [({"daemon": kind}, at.timestamp()) for kind, at in beats])
    known = {metric.name: metric for metric in METRICS}
    for name, of_one in groupby(samples(facts), key=lambda sample: sample.metric):
        family = Family(name.removesuffix("_total"), known[name].help, known[name].kind)
        for sample in of_one:
            family.add_sample(name, {**sample.labels}, sample.value)
        yield family


def _whole(name: str, values: Sequence[tuple[dict[str, str], float]]) -> Family:
    family = Family(name, WHOLE[name], "gauge")
    for labels, value in values:
        family.add_sample(name, labels, value)
    return family


def registry_of(exporter: Exporter) -> CollectorRegistry:
    """A registry with nothing but an exporter."""
    registry = CollectorRegistry()
    registry.register(exporter)
    return registry


@contextmanager
def served(exporter: Exporter, host: str, port: int) -> Iterator[int]:
    """The metrics at ``http://HOST:PORT/metrics`` for as long as the block runs; yields the port, for 0 a free one.

    Raises:
        OSError: Address or port are not available.
    """
    server, thread = start_http_server(port, host, registry_of(exporter))
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
