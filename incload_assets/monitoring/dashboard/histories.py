"""The counters at past instants, computed from one reading of ``_loads``, so that no server has to keep them."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from incload_assets.declaration.table import Table
from incload_assets.monitoring.dashboard.evaluate import Reading, reading
from incload_assets.monitoring.facts import CHANGED, COLLECTED_WITHIN, Facts, TableFacts
from incload_assets.monitoring.load_row import COUNTS, PHASES
from incload_assets.monitoring.loads_table import LoadsTable
from incload_assets.monitoring.metrics import METRICS, samples
from resources.settings import current_settings

SUMMED = (*COUNTS, "bytes", *PHASES, "seconds")
COUNTERS = tuple(metric for metric in METRICS if metric.kind == "counter")


def counters_at(
    loads: LoadsTable, tables: Iterable[Table], wanted: Mapping[datetime, Collection[str]]
) -> dict[datetime, Reading]:
    """The counters of tables at instants, as they would have been read then.

    Args:
        loads: The history of loads.
        tables: The tables.
        wanted: The names of the counters by instant, aware.

    Example:
        >>> counters_at(LoadsTable(lake), [orders], {yesterday: ["incload_rows_total"]})  # doctest: +SKIP
    """
    found = facts_at(loads, list(tables), sorted(wanted))
    chosen = {facts.at: [counter for counter in COUNTERS if counter.name in wanted[facts.at]] for facts in found}
    return {facts.at: reading(samples(facts, chosen[facts.at])) for facts in found}


def facts_at(loads: LoadsTable, tables: Sequence[Table], instants: Sequence[datetime]) -> list[Facts]:
    """The facts from ``_loads`` as of each instant, without sensors, checks and recent attempts.

    Args:
        loads: The history of loads.
        tables: The tables.
        instants: The instants, aware, ascending.
    """
    names = [table.name for table in tables]
    needed = ["table", "window", "window_end", "due_at", "ended_at", "outcome", "error_class", *SUMMED]
    rows = loads.columns(needed, tables=names)
    parts = _parts(rows, instants)
    in_time = _in_time(rows)
    price = current_settings().price_per_hour
    running, found = {name: _Sums() for name in names}, []
    for number, at in enumerate(instants):
        for part in parts.get(number, ()):
            running[part["table"]].add(part)
        told = {table.name: running[table.name].facts(table, in_time.get(table.name, ()), at) for table in tables}
        found.append(Facts(at=at, tables=told, price_per_hour=price))
    return found


def _parts(rows: pa.Table, instants: Sequence[datetime]) -> dict[int, list[dict[str, Any]]]:
    """Sums by table, outcome and kind of error of the loads between two instants, by the number of the later one."""
    numbers = [bisect_left(instants, ended_at) for ended_at in rows["ended_at"].to_pylist()]
    rows = rows.append_column("part", pa.array(numbers, pa.int64()))
    rows = rows.append_column("late", _late(rows))
    for name in (*CHANGED, "bytes"):
        rows = rows.append_column(f"late_{name}", pc.if_else(rows["late"], rows[name], 0))
    summed = [*SUMMED, *(f"late_{name}" for name in (*CHANGED, "bytes"))]
    bounds = [("ended_at", "min"), ("ended_at", "max"), ("window_end", "max")]
    groups = rows.group_by(["table", "part", "outcome", "error_class"])
    found = groups.aggregate([*((name, "sum") for name in summed), *bounds, ([], "count_all")])
    parts: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in found.to_pylist():
        parts[row["part"]].append(row)
    return parts


def _late(rows: pa.Table) -> pa.Array:
    """A mask of the loads of windows that had been loaded after their end before."""
    loaded = rows.filter((pc.field("outcome") == "loaded") & (pc.field("ended_at") > pc.field("window_end")))
    firsts = loaded.group_by(["table", "window"]).aggregate([("ended_at", "min")])
    first = {(row["table"], row["window"]): row["ended_at_min"] for row in firsts.to_pylist()}
    columns = zip(*(rows[name].to_pylist() for name in ("table", "window", "outcome", "ended_at")), strict=True)
    found = []
    for table, window, outcome, ended_at in columns:
        since = first.get((table, window))
        found.append(outcome == "loaded" and since is not None and ended_at > since)
    return pa.array(found, pa.bool_())


def _in_time(rows: pa.Table) -> dict[str, list[datetime]]:
    """When the windows were due that were loaded when they were due, by table, ascending."""
    loaded = rows.filter((pc.field("outcome") == "loaded") & (pc.field("ended_at") <= pc.field("due_at")))
    found: dict[str, list[datetime]] = defaultdict(list)
    for row in loaded.group_by(["table", "window", "due_at"]).aggregate([]).to_pylist():
        found[row["table"]].append(row["due_at"])
    return {table: sorted(times) for table, times in found.items()}


@dataclass
class _Sums:
    """The sums of a table until an instant."""

    loads: dict[tuple[str, str], int] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SUMMED, 0))
    late_rows: int = 0
    late_bytes: int = 0
    first: datetime | None = None
    newest: datetime | None = None
    newest_window: datetime | None = None

    def add(self, part: Mapping[str, Any]) -> None:
        """Adds the loads of one part."""
        kind = (part["outcome"], part["error_class"])
        self.loads[kind] = self.loads.get(kind, 0) + part["count_all"]
        for name in SUMMED:
            self.totals[name] += part[f"{name}_sum"]
        self.late_rows += sum(part[f"late_{name}_sum"] for name in CHANGED)
        self.late_bytes += part["late_bytes_sum"]
        if part["outcome"] == "loaded":
            self.first = min(filter(None, (self.first, part["ended_at_min"])))
            self.newest = max(filter(None, (self.newest, part["ended_at_max"])))
            self.newest_window = max(filter(None, (self.newest_window, part["window_end_max"])))

    def facts(self, table: Table, in_time: Sequence[datetime], at: datetime) -> TableFacts:
        """The table's facts at an instant."""
        judged = bisect_right(in_time, at - COLLECTED_WITHIN)
        return TableFacts(
            table=table,
            loads=dict(self.loads),
            totals=dict(self.totals) if self.loads else {},
            late_rows=self.late_rows,
            late_bytes=self.late_bytes,
            on_time=max(judged - bisect_right(in_time, self.first), 0) if self.first else 0,
            first=self.first,
            newest=self.newest,
            newest_window=self.newest_window,
        )
