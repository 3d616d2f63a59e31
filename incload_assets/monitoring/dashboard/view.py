"""The data of the dashboards' page at an instant: the metrics then, the counters before, and the facts behind both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.history.loads_table import LoadsTable
from incload_assets.history.sums import Sums, sums_at
from incload_assets.monitoring.dashboard.evaluate import Line, Read, Reading, Values, evaluate, over_time
from incload_assets.monitoring.facts import Facts, TableFacts, gather
from incload_assets.monitoring.metrics import METRICS
from incload_assets.monitoring.panels import DASHBOARDS, Query
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import current_settings
from incload_assets.progress.slots import SlotRun, Slots, slot_runs, slots_in_use

COUNTERS = tuple(metric for metric in METRICS if metric.kind == "counter")
DAYS, HOURS = 14, 24
"""The number of values over time of a query whose increase is over a day or longer, and over a shorter time."""
_PANELS = [panel for dashboard in DASHBOARDS for panel in dashboard.panels]
_QUERIES = [query for panel in _PANELS for query in (panel.query, panel.query.divided_by) if query is not None]
GAUGES = {panel.query.metric for panel in _PANELS if panel.shape == "series" and panel.query.increase is None}
"""The metrics without a history that panels show over time."""


@dataclass(frozen=True, kw_only=True)
class View:
    """The data of the page at an instant.

    Args:
        past: The counters at earlier instants, see :func:`steps`.
        remembered: The samples of :data:`GAUGES` of earlier looks, as they have no history.
        slots: The pools and the run queue in which a run holds a slot or waits for one.
        slot_runs: These runs, by their identifiers.
    """

    facts: Facts
    now: Reading
    past: Mapping[datetime, Reading] = field(default_factory=dict)
    remembered: Mapping[datetime, Reading] = field(default_factory=dict)
    slots: Sequence[Slots] = ()
    slot_runs: Mapping[str, SlotRun] = field(default_factory=dict)

    @property
    def at(self) -> datetime:
        """The instant, aware."""
        return self.facts.at

    def values(self, query: Query) -> Values:
        """The present values of a query."""
        before = None if query.increase is None else self.past.get(self.at - query.increase)
        return evaluate(query, self.now, before)

    def lines(self, query: Query) -> Mapping[tuple[str, ...], Line]:
        """The values of a query over time, until the present ones; a counter did not grow before it began."""
        if query.increase is None:
            return over_time(query, {**self.remembered, self.at: self.now})
        readings = {at: self.past[at] for at in steps(query.increase, self.at) if at in self.past} | {self.at: self.now}
        instants = sorted(readings)[1:]
        found = {labels: dict(line) for labels, line in over_time(query, readings).items()}
        return {labels: [(at, line.get(at, 0.0)) for at in instants] for labels, line in found.items()}


def steps(increase: timedelta, at: datetime) -> list[datetime]:
    """The instants at which a counter has to be known for the values of its increase over time, oldest first."""
    count = DAYS if increase >= timedelta(days=1) else HOURS
    return [at - number * increase for number in range(count, -1, -1)]


def look(
    instance: dg.DagsterInstance,
    tables: Sequence[Table],
    lake: Lake,
    at: datetime,
    remembered: Mapping[datetime, Reading] | None = None,
) -> View:
    """The data of the page at an instant, from storage; the lake's ``_loads`` is up to date."""
    names = [table.name for table in tables]
    *before, now = sums_at(LoadsTable(lake), names, [*_instants(at), at])
    facts = gather(instance, tables, lake, at, sums=now, whole=True)
    slots = slots_in_use(instance)
    return View(
        facts=facts,
        now=Read(lambda: facts, METRICS),
        past=counters_at(tables, dict(zip(_instants(at), before, strict=True))),
        remembered=remembered or {},
        slots=slots,
        slot_runs=slot_runs(instance, (run_id for one in slots for run_id in (*one.holders, *one.waiting))),
    )


def counters_at(tables: Sequence[Table], sums: Mapping[datetime, Mapping[str, Sums]]) -> Mapping[datetime, Reading]:
    """The counters of tables at instants, as they would have been read then, by the sums of the tables at each."""
    price = current_settings().price_per_hour

    def facts(at: datetime) -> Facts:
        known = {table.name: TableFacts(table=table, **vars(sums[at][table.name])) for table in tables}
        return Facts(at=at, tables=known, price_per_hour=price)

    return {at: Read(partial(facts, at), COUNTERS) for at in sums}


def gauges(view: View) -> Reading:
    """The samples of :data:`GAUGES` that a view has."""
    return {name: view.now.get(name, ()) for name in GAUGES}


def _instants(at: datetime) -> list[datetime]:
    """The instants at which the panels of all dashboards need counters, oldest first."""
    return sorted({step for query in _QUERIES if query.increase is not None for step in steps(query.increase, at)})
