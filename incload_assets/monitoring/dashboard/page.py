"""The pages of the dashboards: each panel as a number, bars, a table, or lines over time."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from incload_assets.history.load_row import COUNTS, PHASES
from incload_assets.monitoring.dashboard.charts import COLOURS, bar, lines
from incload_assets.monitoring.dashboard.evaluate import Line, Values
from incload_assets.monitoring.dashboard.human import ago, over, shown
from incload_assets.monitoring.dashboard.markup import Child, Markup, element, joined
from incload_assets.monitoring.dashboard.parts import (
    MOST,
    Links,
    folded,
    frame,
    identifier,
    listing,
    marked,
    notice,
    right,
    section,
    swatch,
)
from incload_assets.monitoring.dashboard.slots import slots_in
from incload_assets.monitoring.dashboard.view import View
from incload_assets.monitoring.panels import ON_CALL, Dashboard, Panel
from incload_assets.platform.wording import several

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
_WIDE = 'class="panel wide'
BEATS = timedelta(minutes=5)
"""A daemon of Dagster that gave no sign of life for this long is missed."""


def dashboard_page(dashboard: Dashboard, view: View, links: Links) -> str:
    """The page of a dashboard.

    Args:
        dashboard: The dashboard.
        view: What it shows.
        links: The addresses that it points to.
    """
    numbers = [panel for panel in dashboard.panels if panel.shape == "number"]
    others = [panel for panel in dashboard.panels if panel.shape != "number"]
    told, empty = ([p for p in others if bool(view.values(p.query)) is filled] for filled in (True, False))
    return frame(
        dashboard.title.partition(": ")[2].capitalize() or dashboard.title,
        element("div", [_panel(panel, view, links) for panel in numbers], class_="numbers") if numbers else None,
        _in_groups([_panel(panel, view, links) for panel in told]),
        section("Slots", slots_in(view, links)) if dashboard is ON_CALL else None,
        _in_groups([_panel(panel, view, links) for panel in empty]),
        at=view.at,
        tab=dashboard.name,
        about=dashboard.about,
        notices=notices(view),
    )


def _in_groups(panels: Sequence[Markup]) -> list[Markup]:
    """Panels side by side, except those that need the width of the page."""
    return [element("div", [*group], class_="group") for _, group in groupby(panels, key=lambda p: _WIDE in p)]


def notices(view: View) -> list[Markup]:
    """The notices at the top of a page: what cannot be read, and why nothing is loaded by itself."""
    faults = [*view.facts.unreadable, *(one.unreadable for one in view.facts.tables.values() if one.unreadable)]
    return [notice(fault) for fault in faults] + _of_all(view)


def _of_all(view: View) -> list[Markup]:
    """The notice that no daemon loads anything, or that there is nothing to show yet."""
    if not view.facts.tables:
        return [notice("There are no tables yet: declare one, see ", element("code", "incload docs tables"), ".")]
    beats = view.facts.heartbeats.values()
    if not beats:
        return [notice("Dagster's daemon has never run here: nothing is loaded by itself.")]
    if view.at - max(beats) > BEATS:
        return [
            notice(
                f"Dagster's daemon last gave a sign of life {ago(max(beats), view.at)}: nothing is loaded by itself."
            )
        ]
    return []


def worries(panel: Panel, value: float) -> bool:
    """Whether a value has reached the limit that its panel declares."""
    if panel.worry is None:
        return False
    return value <= panel.worry if panel.worry_below else value >= panel.worry


def _panel(panel: Panel, view: View, links: Links) -> Markup:
    values = view.values(panel.query)
    grid = _Grid(panel, view, links, values)
    body: Child
    if not values:
        body = element("p", "No data yet.", class_="none")
    elif panel.shape == "number":
        body = _number(panel, view, values)
    else:
        body = grid.drawn()
    alarm = any(worries(panel, value) for value in values.values())
    classes = ["panel", *(["wide"] if values and grid.is_wide else []), *(["alarm"] if alarm else [])]
    return element(
        "section",
        element("h2", panel.title, id=f"{grid.identity}-title"),
        element("p", _with_code(panel.help), class_="help"),
        body,
        class_=" ".join(classes),
        aria_labelledby=f"{grid.identity}-title",
    )


def _with_code(text: str) -> Markup:
    """A text whose parts between backticks are code."""
    return joined(element("code", part) if n % 2 else part for n, part in enumerate(text.split("`")))


def _number(panel: Panel, view: View, values: Values) -> Markup:
    value = next(iter(values.values()))
    text = shown(value, panel.unit, view.at)
    worrying = worries(panel, value)
    return element("p", marked(text) if worrying else text, class_="number worry" if worrying else "number")


class _Grid:
    """The values of a panel as a table: a row for each table (or first label), a column for each other label."""

    def __init__(self, panel: Panel, view: View, links: Links, values: Values) -> None:
        self.panel, self.view, self.links, self.values = panel, view, links, values
        self.lines = view.lines(panel.query) if panel.shape == "series" else {}
        known = {*values, *self.lines}
        used = {
            labels for labels in known if values.get(labels) or any(value for _, value in self.lines.get(labels, ()))
        }
        self.has_lines = any(len(line) > 1 for line in self.lines.values())
        shown = used if self.has_lines and used else known
        self.columns = sorted({labels[1:] for labels in shown}, key=_in_order)
        self.rows = {first: {labels[1:]: values.get(labels) for labels in known if labels[:1] == (first,)}
                     for first in {labels[0] if labels else "" for labels in known}}  # fmt: skip
        self.identity = identifier(panel.title)
        self.top = max((abs(value) for value in values.values()), default=0.0)

    @property
    def is_wide(self) -> bool:
        """Whether the panel takes the whole width of the page."""
        return len(self.columns) > (1 if self.panel.shape == "series" else 4)

    def drawn(self) -> Markup:
        """The table; rows with nothing to see in them are folded, and a sentence says what they have."""
        names = sorted(self.rows, key=self._rank)
        calm = [name for name in names if self._is_calm(name)]
        calm = names if len({*self.values.values()} | self._former(names)) == 1 else calm
        if len(calm) < QUIET or any(worries(self.panel, value) for name in calm for value in self._present(name)):
            calm = []
        loud = [name for name in names if name not in calm]
        table = self._table(loud, self.identity) if loud else None
        if not calm:
            return joined(table)
        told = sorted({self._text(value) for name in calm for value in self._present(name)} or {"no value now"})
        time = f" in {self._span}" if self.panel.query.increase and self.lines else ""
        noun = (self.panel.query.by or ("value",))[0]
        said = f"{'The other' if loud else 'All'} {several(len(calm), noun)}: {' or '.join(told)}{time}"
        rest = self._table(calm, f"{self.identity}-calm")
        return joined(table, folded(f"{self.identity}-all", said, rest))

    def _table(self, names: Sequence[str], fold: str) -> Markup:
        rows = [self._row(name) for name in names[:MOST]]
        return listing(self.panel.title, self._heads(), rows, fold=fold, left=len(names[MOST:]))

    def _is_calm(self, name: str) -> bool:
        """Whether every value of a row, now and before, is 0 or, of a metric that is 0 or 1, the good one."""
        good = 1.0 if self.panel.query.metric in SPOKEN else 0.0
        return {*self._present(name)} | self._former([name]) <= {good}

    def _present(self, name: str) -> list[float]:
        return [value for value in self.rows[name].values() if value is not None]

    def _former(self, names: Sequence[str]) -> set[float]:
        chosen = {*names}
        return {v for labels, line in self.lines.items() if (labels or ("",))[0] in chosen for _, v in line}

    def _heads(self) -> list[Child]:
        first = (self.panel.query.by or ("",))[0]
        colours = self.has_lines and len(self.columns) > 1
        values: list[Child] = (
            [
                joined(
                    swatch(n % COLOURS) if colours else None,
                    " ".join(LABELS.get(name, name) for name in names).replace("_", " "),
                )
                for n, names in enumerate(self.columns)
            ]
            if self.columns != [()]
            else [self._latest]
        )
        if self.panel.shape == "bars":
            return [first, "", *values]
        if self.has_lines:
            return [first, self._chart_head(), *values]
        return [first, *values]

    @property
    def _latest(self) -> str:
        increase = self.panel.query.increase
        return over(increase).removeprefix("the ") if increase is not None else "now"

    def _chart_head(self) -> str:
        if self.panel.query.increase is not None:
            return self._span.removeprefix("the ")
        return f"since {self._start:%H:%M} UTC"

    def _row(self, name: str) -> list[Child]:
        cells = self.rows[name]
        numbers = [self._cell(cells[column]) if column in cells else right("") for column in self.columns]
        head: Child = name or "(none)"
        if (self.panel.query.by or ("",))[0] == "table" and name:
            head = self.links.table(name)
        if self.panel.shape == "bars":
            value = next(iter(cells.values())) or 0.0
            share = abs(value) / self.top if self.top else 0.0
            title = f"{name}: {self._text(value)}"
            chart = bar(share, title, worrying=worries(self.panel, value))
            return [head, element("td", chart, class_="chart"), *numbers]
        if self.has_lines:
            return [head, element("td", self._chart(name), class_="chart"), *numbers]
        return [head, *numbers]

    def _cell(self, value: float | None) -> Markup:
        return right(
            "" if value is None else self._text(value), worrying=value is not None and worries(self.panel, value)
        )

    def _chart(self, name: str) -> Markup:
        found: list[tuple[int, Line]] = [
            (number, self.lines[(name, *column)] if self.panel.query.by else self.lines[()])
            for number, column in enumerate(self.columns)
            if (name, *column) in self.lines or not self.panel.query.by
        ]
        values = [value for _, line in found for _, value in line]
        if not values:
            return element("span", "")
        low, high = self._text(min(values)), self._text(max(values))
        title = f"{name}: between {low} and {high} in {self._span}"
        return lines(found, self._start, self._end, max(values), title)

    @property
    def _end(self) -> datetime:
        return self.view.at

    @property
    def _start(self) -> datetime:
        return min((line[0][0] for line in self.lines.values() if line), default=self.view.at)

    @property
    def _span(self) -> str:
        """The time that the values over time are about."""
        return over(self._end - self._start + (self.panel.query.increase or timedelta(0)))

    def _text(self, value: float) -> str:
        words = SPOKEN.get(self.panel.query.metric, {})
        return words.get(value) or shown(value, self.panel.unit, self.view.at)

    def _rank(self, name: str) -> tuple[bool, float, str]:
        """What needs attention first, then the greatest values, or the smallest where these are the worse ones."""
        values = self._present(name)
        upwards = self.panel.worry_below or self.panel.unit == "dateTimeFromNow"
        most = (min(values) if upwards else -max(values)) if values else 0.0
        return not any(worries(self.panel, value) for value in values), most, name


def _in_order(names: Sequence[str]) -> tuple[int, Sequence[str]]:
    known = [ORDER.index(name) for name in names if name in ORDER]
    return (known[0] if known else len(ORDER)), names
