"""A panel's values as a grid: a row for each table (or first label), a column for each other label."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property

from incload_assets.history.load_row import COUNTS, PHASES
from incload_assets.monitoring.dashboard.evaluate import Line
from incload_assets.monitoring.dashboard.view import View
from incload_assets.monitoring.panels import Panel, Unit
from incload_assets.platform.wording import ago, length, number, several, share, size

SPOKEN: Mapping[str, Mapping[float, str]] = {
    "incload_source_up": {1: "answers", 0: "does not answer"},
    "incload_check_passed": {1: "passed", 0: "failed"},
}
"""Words for the values of metrics that are yes or no."""
LABELS = {"in_progress": "running", "0.5": "p50", "0.95": "p95", "0.99": "p99"}
ORDER = (
    "loaded", "failed", "cancelled", "missing", "drifted", "in_progress", "waiting", "queued", "started", *PHASES,
    *(name.removeprefix("rows_") for name in COUNTS),
)  # fmt: skip
"""The order of columns; others come after these, by name."""
QUIET = 3
"""From this many rows on, rows that all have the same value are folded."""


def worries(panel: Panel, value: float) -> bool:
    """True if a value has reached the limit that its panel declares."""
    if panel.worry is None:
        return False
    return value <= panel.worry if panel.worry_below else value >= panel.worry


def shown(value: float, unit: Unit, at: datetime) -> str:
    """A value of a panel as text; a ``dateTimeFromNow`` is in milliseconds since 1970."""
    if value != value or value in (float("inf"), float("-inf")):
        return number(value)
    if unit == "dateTimeFromNow":
        return ago(datetime.fromtimestamp(value / 1000, UTC), at)
    return {"s": length, "bytes": size, "percentunit": share}.get(unit, number)(value)


def over(time: timedelta) -> str:
    """A length of time in words, for example ``the last 14 days``."""
    hours = round(time.total_seconds() / 3600)
    if hours >= 48 and hours % 24 == 0:
        return f"the last {hours // 24} days"
    return f"the last {hours} hours" if hours > 1 else f"the last {max(round(time.total_seconds() / 60), 1)} minutes"


class Grid:
    """The values of a panel, as its template draws them."""

    def __init__(self, panel: Panel, view: View) -> None:
        self.panel, self.view, self.values = panel, view, view.values(panel.query)
        self.lines: Mapping[tuple[str, ...], Line] = view.lines(panel.query) if panel.shape == "series" else {}
        self.by = (panel.query.by or ("",))[0]
        self.alarm = any(worries(panel, value) for value in self.values.values())
        self.has_lines = any(len(line) > 1 for line in self.lines.values())
        known = {*self.values, *self.lines}
        used = {one for one in known if self.values.get(one) or any(value for _, value in self.lines.get(one, ()))}
        self.columns = sorted({one[1:] for one in (used if self.has_lines and used else known)}, key=_in_order)
        self.is_wide = bool(self.values) and len(self.columns) > (1 if panel.shape == "series" else 4)
        self.rows: dict[str, dict[tuple[str, ...], float | None]] = {}
        for labels in known:
            self.rows.setdefault(labels[0] if labels else "", {})[labels[1:]] = self.values.get(labels)
        self.top = max((abs(value) for value in self.values.values()), default=0.0)
        self.start = min((line[0][0] for line in self.lines.values() if line), default=view.at)

    @cached_property
    def calm(self) -> Sequence[str]:
        """The rows with nothing to see in them, which are folded."""
        calm = [name for name in self.names if self._is_calm(name)]
        calm = self.names if len({*self.values.values()} | self._former(self.names)) == 1 else calm
        worrying = any(worries(self.panel, value) for name in calm for value in self._present(name))
        return [] if len(calm) < QUIET or worrying else calm

    @cached_property
    def names(self) -> list[str]:
        """All rows: first those that need attention, then by value, the worst one first."""
        return sorted(self.rows, key=self._rank)

    @property
    def loud(self) -> list[str]:
        """The rows that are not folded."""
        calm = {*self.calm}
        return [name for name in self.names if name not in calm]

    @property
    def said(self) -> str:
        """A sentence with what the folded rows have."""
        values = sorted({self.text(value) for name in self.calm for value in self._present(name)} or {"no value now"})
        time = f" in {self.span}" if self.panel.query.increase and self.lines else ""
        which = "The other" if self.loud else "All"
        return f"{which} {several(len(self.calm), self.by or 'value')}: {' or '.join(values)}{time}"

    @property
    def heads(self) -> list[str]:
        """The headings of the columns with values."""
        if self.columns != [()]:
            return [" ".join(LABELS.get(name, name) for name in names).replace("_", " ") for names in self.columns]
        increase = self.panel.query.increase
        return ["now" if increase is None else over(increase).removeprefix("the ")]

    @property
    def chart_head(self) -> str:
        """The heading of the column with lines."""
        counts = self.panel.query.increase is not None
        return self.span.removeprefix("the ") if counts else f"since {self.start:%H:%M} UTC"

    @property
    def span(self) -> str:
        """The time that the values over time are about."""
        return over(self.view.at - self.start + (self.panel.query.increase or timedelta(0)))

    def cells(self, name: str) -> list[tuple[str, bool]]:
        """The values of a row, and whether each is marked."""
        values = [self.rows[name].get(column) for column in self.columns]
        return [("" if v is None else self.text(v), v is not None and worries(self.panel, v)) for v in values]

    def lines_of(self, name: str) -> list[tuple[int, Line]]:
        """The lines of a row, each after the number of its column."""
        labelled = [(n, (name, *column) if self.panel.query.by else ()) for n, column in enumerate(self.columns)]
        return [(n, self.lines[labels]) for n, labels in labelled if labels in self.lines]

    def bar(self, name: str) -> tuple[float, str, bool]:
        """The length of a row's bar, 0 to 1, its title, and whether it is marked."""
        value = next(iter(self.rows[name].values())) or 0.0
        title = f"{name}: {self.text(value)}"
        return abs(value) / self.top if self.top else 0.0, title, worries(self.panel, value)

    def text(self, value: float) -> str:
        """A value as people read it."""
        return SPOKEN.get(self.panel.query.metric, {}).get(value) or shown(value, self.panel.unit, self.view.at)

    def _is_calm(self, name: str) -> bool:
        """True if every value of a row, now and before, is 0 or, of a metric that is 0 or 1, the good one."""
        good = 1.0 if self.panel.query.metric in SPOKEN else 0.0
        return {*self._present(name)} | self._former([name]) <= {good}

    def _present(self, name: str) -> list[float]:
        return [value for value in self.rows[name].values() if value is not None]

    def _former(self, names: Sequence[str]) -> set[float]:
        return {value for name in names for line in self._of_row.get(name, ()) for _, value in line}

    @cached_property
    def _of_row(self) -> Mapping[str, Sequence[Line]]:
        """The lines by row."""
        found: dict[str, list[Line]] = defaultdict(list)
        for labels, line in self.lines.items():
            found[(labels or ("",))[0]].append(line)
        return found

    def _rank(self, name: str) -> tuple[bool, float, str]:
        values = self._present(name)
        upwards = self.panel.worry_below or self.panel.unit == "dateTimeFromNow"
        most = (min(values) if upwards else -max(values)) if values else 0.0
        return not any(worries(self.panel, value) for value in values), most, name


def _in_order(names: Sequence[str]) -> tuple[int, Sequence[str]]:
    known = [ORDER.index(name) for name in names if name in ORDER]
    return (known[0] if known else len(ORDER)), names
