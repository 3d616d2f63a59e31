"""Sums over the history of loads by table, as of one instant or many, from one reading of ``_loads``."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from incload_assets.history.load_row import COUNTS, PHASES
from incload_assets.history.loads_table import LoadsTable

COLLECTED_WITHIN = timedelta(minutes=5)
"""A load is in ``_loads`` this long after its end at the latest; windows that were due since do not count yet."""
CHANGED = ("inserted", "updated", "deleted")
_SUMMED = (*COUNTS, "bytes", *PHASES, "seconds")
_LATE = {f"late_{name}": name for name in (*CHANGED, "bytes")}
_NEEDED = ("table", "window", "window_end", "due_at", "ended_at", "outcome", "error_class", *_SUMMED)
_INSTANT = pa.timestamp("us", "UTC")

_Parts = Mapping[int, Sequence[Mapping[str, Any]]]
"""Sums by table of what is between two instants, by the number of the later one."""


@dataclass(kw_only=True)
class Sums:
    """The sums of a table until an instant; the fields are :class:`~incload_assets.monitoring.facts.TableFacts`'s."""

    loads: dict[tuple[str, str], int] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    late_rows: int = 0
    late_bytes: int = 0
    on_time: int = 0
    first: datetime | None = None
    newest: datetime | None = None
    newest_window: datetime | None = None

    def add(self, part: Mapping[str, Any]) -> None:
        """Adds loads with one outcome and kind of error."""
        kind = (part["outcome"], part["error_class"])
        self.loads[kind] = self.loads.get(kind, 0) + part["count_all"]
        for name in _SUMMED:
            self.totals[name] = self.totals.get(name, 0) + part[f"{name}_sum"]
        self.late_rows += sum(part[f"late_{name}_sum"] for name in CHANGED)
        self.late_bytes += part["late_bytes_sum"]
        if part["outcome"] == "loaded":
            self.first = min(filter(None, (self.first, part["ended_at_min"])))
            self.newest = max(filter(None, (self.newest, part["ended_at_max"])))
            self.newest_window = max(filter(None, (self.newest_window, part["window_end_max"])))


def sums_at(loads: LoadsTable, tables: Sequence[str], instants: Sequence[datetime]) -> list[dict[str, Sums]]:
    """The sums of tables, by name, at each of ascending aware instants."""
    rows = loads.columns(_NEEDED, tables=tables)
    parts, in_time = _parts(rows, instants), _in_time(rows, instants)
    running, found = {name: Sums() for name in tables}, []
    for number in range(len(instants)):
        for part in parts[number]:
            running[part["table"]].add(part)
        for part in in_time[number]:
            running[part["table"]].on_time += part["count_all"]
        found.append(
            {name: replace(sums, loads=dict(sums.loads), totals=dict(sums.totals)) for name, sums in running.items()}
        )
    return found


def _parts(rows: pa.Table, instants: Sequence[datetime]) -> _Parts:
    """Sums of the loads that ended, by table, outcome and kind of error."""
    after_end = rows.filter((pc.field("outcome") == "loaded") & (pc.field("ended_at") > pc.field("window_end")))
    firsts = after_end.group_by(["table", "window"]).aggregate([("ended_at", "min")])
    windows = rows.select(["table", "window"]).append_column("place", pa.array(range(len(rows)), pa.int64()))
    firsts = firsts.rename_columns(["table", "window", "loaded_at"])
    windows = windows.join(firsts, ["table", "window"]).sort_by("place")
    is_late = pc.and_(pc.equal(rows["outcome"], "loaded"), pc.greater(rows["ended_at"], windows["loaded_at"]))
    late = pc.fill_null(is_late, False)
    for name, of in _LATE.items():
        rows = rows.append_column(name, pc.if_else(late, rows[of], 0))
    rows = rows.append_column("part", _number(rows["ended_at"], instants))
    bounds = [("ended_at", "min"), ("ended_at", "max"), ("window_end", "max"), ([], "count_all")]
    groups = rows.group_by(["table", "part", "outcome", "error_class"])
    return _by_part(groups.aggregate([*((name, "sum") for name in (*_SUMMED, *_LATE)), *bounds]))


def _in_time(rows: pa.Table, instants: Sequence[datetime]) -> _Parts:
    """The number of windows that were due since the table's first load and were loaded then, by table."""
    loaded = rows.filter(pc.field("outcome") == "loaded")
    firsts = loaded.group_by("table").aggregate([("ended_at", "min")])
    windows = loaded.filter(pc.field("ended_at") <= pc.field("due_at"))
    windows = windows.group_by(["table", "window", "due_at"]).aggregate([]).join(firsts, "table")
    windows = windows.filter(pc.field("ended_at_min") < pc.field("due_at"))
    known_until = [instant - COLLECTED_WITHIN for instant in instants]
    windows = windows.append_column("part", _number(windows["due_at"], known_until))
    return _by_part(windows.group_by(["table", "part"]).aggregate([([], "count_all")]))


def _number(times: pa.ChunkedArray, instants: Sequence[datetime]) -> pa.Array | pa.ChunkedArray:
    """For each time the number of instants before it."""
    number = pa.repeat(pa.scalar(0, pa.int64()), len(times))
    for instant in instants:
        number = pc.add(number, pc.cast(pc.greater(times, pa.scalar(instant, _INSTANT)), pa.int64()))
    return number


def _by_part(sums: pa.Table) -> _Parts:
    parts: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in sums.to_pylist():
        parts[row["part"]].append(row)
    return parts
