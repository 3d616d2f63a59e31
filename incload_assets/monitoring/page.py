"""The pages of the dashboards: each panel as a number, bars, a table, or lines over time."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from incload_assets.monitoring.charts import COLOURS, bar, lines
from incload_assets.monitoring.evaluate import Line, Values
from incload_assets.monitoring.human import ago, over, several, shown
from incload_assets.monitoring.load_row import COUNTS, PHASES
from incload_assets.monitoring.markup import Child, Markup, element, joined
from incload_assets.monitoring.panels import Dashboard, Panel
from incload_assets.monitoring.parts import Links, folded, frame, listing, marked, notice, right, swatch
from incload_assets.monitoring.view import View

SPOKEN: Mapping[str, Mapping[float, str]] = {
    "incload_source_up": {1: "answers", 0: "does not answer"},
    "incload_check_passed": {1: "passed", 0: "failed"},
}
"""Words for the values of metrics that are yes or no."""
LABELS = {"in_progress": "running"}
ORDER = (
    "loaded", "failed", "cancelled", "missing", "drifted", "in_progress", "waiting", "queued", "started", *PHASES,
    *(name.removeprefix("rows_") for name in COUNTS),
)  # fmt: skip
"""The order of columns; others come after these, by name."""
QUIET = 3
"""From this many rows on, rows that all have the same value are folded."""
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
    return frame(
        dashboard.title.partition(": ")[2].capitalize() or dashboard.title,
        element("div", [_panel(panel, view, links) for panel in numbers], class_="numbers") if numbers else None,
        element("div", [_panel(panel, view, links) for panel in others], class_="panels"),
        at=view.at,
        tab=dashboard.name,
        about=dashboard.about,
        notices=notices(view),
    )


def notices(view: View) -> list[Markup]:
    """What every page says first: that nothing is loaded by itself, or that nothing is there to show."""
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
    """Whether a value of a panel needs attention."""
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
        element("p", panel.help, class_="help"),
        body,
        class_=" ".join(classes),
        aria_labelledby=f"{grid.identity}-title",
    )


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
        self.columns = sorted({labels[1:] for labels in known}, key=_in_order)
        self.rows = {first: {labels[1:]: values.get(labels) for labels in known if labels[:1] == (first,)}
                     for first in {labels[0] if labels else "" for labels in known}}  # fmt: skip
        self.identity = "".join(c if c.isalnum() else "-" for c in panel.title.lower())
        self.top = max((abs(value) for value in values.values()), default=0.0)

    @property
    def is_wide(self) -> bool:
        """Whether it needs the width of the page."""
        return len(self.columns) > 4

    def drawn(self) -> Markup:
        """The table; a sentence if there is nothing to see in it."""
        names = sorted(self.rows, key=self._rank)
        table = listing(self.panel.title, self._heads(), [self._row(name) for name in names], fold=self.identity)
        everything = {value for value in self.values.values()} | {v for line in self.lines.values() for _, v in line}
        if len(everything) > 1 or len(names) < QUIET or any(worries(self.panel, value) for value in everything):
            return table
        time = f" in {over(self._end - self._start)}" if self.panel.query.increase and self.lines else ""
        noun = (self.panel.query.by or ("value",))[0]
        sentence = f"All {several(len(names), noun)}: {self._text(everything.pop())}{time}."
        return joined(element("p", sentence, class_="quiet"), folded(f"{self.identity}-all", "show them", table))

    def _heads(self) -> list[Child]:
        first = (self.panel.query.by or ("",))[0]
        colours = self.panel.shape == "series" and len(self.columns) > 1
        values: list[Child] = (
            [
                joined(
                    swatch(n % COLOURS) if colours else None,
                    " ".join(LABELS.get(name, name) for name in names).replace("_", " "),
                )
                for n, names in enumerate(self.columns)
            ]
            if self.columns != [()]
            else ["latest" if self.panel.shape == "series" else ""]
        )
        if self.panel.shape == "bars":
            return [first, "", *values]
        if self.panel.shape == "series":
            return [first, self._chart_head(), *values]
        return [first, *values]

    def _chart_head(self) -> str:
        if self.panel.query.increase is not None:
            return over(self._end - self._start).removeprefix("the ")
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
        if self.panel.shape == "series":
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
        title = f"{name}: between {low} and {high} in {over(self._end - self._start)}"
        return lines(found, self._start, self._end, max(values), title)

    @property
    def _end(self) -> datetime:
        return self.view.at

    @property
    def _start(self) -> datetime:
        return min((line[0][0] for line in self.lines.values() if line), default=self.view.at)

    def _text(self, value: float) -> str:
        words = SPOKEN.get(self.panel.query.metric, {})
        return words.get(value) or shown(value, self.panel.unit, self.view.at)

    def _rank(self, name: str) -> tuple[bool, float, str]:
        """What needs attention first, then the greatest values, or the smallest where these are the worse ones."""
        values = [value for value in self.rows[name].values() if value is not None]
        upwards = self.panel.worry_below or self.panel.unit == "dateTimeFromNow"
        most = (min(values) if upwards else -max(values)) if values else 0.0
        return not any(worries(self.panel, value) for value in values), most, name


def _in_order(names: Sequence[str]) -> tuple[int, Sequence[str]]:
    known = [ORDER.index(name) for name in names if name in ORDER]
    return (known[0] if known else len(ORDER)), names
