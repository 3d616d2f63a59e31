"""Parts that all pages of the dashboards have: links, lists that are cut, tables, and the frame around them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from incload_assets.monitoring.dashboard.human import ago, instant
from incload_assets.monitoring.dashboard.markup import Child, Markup, document, element, joined
from incload_assets.monitoring.panels import DASHBOARDS
from incload_assets.platform.page_addresses import load_path, table_path

LISTED = 12
"""Rows of a list that are shown at once; the others are folded."""
MOST = 200
"""Rows of a list that are on the page at all."""
REFRESH_SECONDS = 30
TABS = {"executive": "Executive", "on-call": "On call", "debug": "Debug"}


@dataclass(frozen=True)
class Links:
    """The addresses that the pages point to.

    Args:
        dagster: The address of the Dagster UI, without a trailing slash; empty: no links to it.
    """

    dagster: str = ""

    def table(self, name: str) -> Markup:
        """A table's name, which leads to its page, and a link to its asset."""
        return joined(element("a", name, href=table_path(name)), " ", self.asset(name))

    def asset(self, name: str, text: str = "") -> Markup | None:
        """A link to a table's asset in the Dagster UI, an arrow if it has no text; None if its address is unknown."""
        if not self.dagster:
            return None
        href, words = f"{self.dagster}/assets/{quote(name)}", f"{name} in the Dagster UI"
        if text:
            return element("a", text, href=href)
        return element("a", "↗", href=href, class_="out", title=words, aria_label=words)

    def load(self, run_id: str) -> Markup:
        """The first characters of a run's identifier, which lead to its page."""
        return element("a", run_id[:8], href=load_path(run_id), class_="code")

    def run(self, run_id: str, text: str = "the run in the Dagster UI") -> Markup | None:
        """A link to a run in the Dagster UI; None if its address is unknown."""
        return element("a", text, href=f"{self.dagster}/runs/{run_id}") if self.dagster else None


def frame(
    title: str,
    *main: Child,
    at: datetime,
    tab: str = "",
    about: Child = None,
    notices: Iterable[Markup] = (),
    refreshed: bool = True,
) -> str:
    """A whole page.

    Args:
        title: Its heading.
        main: What is on it.
        at: The instant that it shows, aware.
        tab: The name of the dashboard that it is; empty: another page.
        about: A sentence below the heading.
        notices: Messages above everything.
        refreshed: Whether the browser asks for it again every :data:`REFRESH_SECONDS`.
    """
    tabs = [
        element("a", TABS.get(d.name, d.title), href=f"/{d.name}", aria_current="page" if d.name == tab else None)
        for d in DASHBOARDS
    ]
    shown_at = element("time", f"{instant(at)} UTC", datetime=at.isoformat(timespec="seconds"))
    return document(
        "en",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", f"{title} – incload"),
            element("link", rel="stylesheet", href="/page.css"),
            element("link", rel="icon", href="data:,"),
            [
                element("noscript", element("meta", http_equiv="refresh", content=REFRESH_SECONDS)),
                element("script", src="/page.js", defer=True, data_seconds=REFRESH_SECONDS),
            ]
            if refreshed
            else None,
        ),
        element(
            "body",
            element("a", "To the content", href="#main", class_="skip"),
            element(
                "header",
                element("span", "incload", class_="brand"),
                element("nav", tabs, aria_label="Dashboards"),
                element("p", "As of ", shown_at, class_="at"),
            ),
            element(
                "main",
                element("p", class_="notice stale", role="status", hidden=True),
                notices,
                element("h1", title),
                element("p", about, class_="about") if about else None,
                main,
                id="main",
            ),
        ),
    )


def notice(*children: Child) -> Markup:
    """A message above everything."""
    return element("p", children, class_="notice", role="status")


def section(title: str, *children: Child) -> Markup:
    """A part of a page with a heading."""
    identity = f"{identifier(title)}-title"
    heading = element("h2", title, id=identity)
    return element("section", heading, children, class_="panel wide", aria_labelledby=identity)


def identifier(text: str) -> str:
    """A text as the identity of an element."""
    return "".join(c if c.isalnum() else "-" for c in text.lower())


def listing(
    caption: str, heads: Sequence[Child], rows: Sequence[Sequence[Child]], *, fold: str, left: int = 0
) -> Markup:
    """A table; rows beyond the first :data:`LISTED` are folded, and those beyond :data:`MOST` are counted.

    Args:
        caption: What it lists, for those who cannot see it.
        heads: The columns' headings. A column whose cells are :func:`right` has a heading that is, too.
        rows: The cells; the first one of each is the row's heading.
        fold: The identity of the folded part on the page.
        left: The number of rows that were left out already.
    """
    left += max(len(rows) - MOST, 0)
    first = _table(caption, heads, rows[:LISTED])
    if len(rows) <= LISTED:
        return first
    rest = _table(caption, heads, rows[LISTED:MOST])
    counted = element("p", f"{left:,} more are not shown.", class_="none") if left else None
    return joined(first, folded(fold, f"and {len(rows[LISTED:MOST]) + left:,} more", rest, counted))


def folded(identity: str, summary: str, *children: Child) -> Markup:
    """A part that is shown when somebody opens it; the page remembers that while it is refreshed."""
    return element("details", element("summary", summary), children, id=identity)


def right(*children: Child, worrying: bool = False) -> Markup:
    """A cell with a number."""
    return element("td", marked(*children) if worrying else children, class_="right worry" if worrying else "right")


def marked(*children: Child) -> Markup:
    """A value that needs attention: by colour, by a sign, and by a word for those who see neither."""
    sign = element("span", "▲", class_="sign", aria_hidden="true")
    return joined(sign, element("span", "needs attention: ", class_="hidden"), children)


def pairs(*found: tuple[str, Child]) -> Markup:
    """Names with their values; those without a value are left out."""
    return element(
        "dl",
        [element("div", element("dt", name), element("dd", value)) for name, value in found if value not in (None, "")],
    )


def since(then: datetime, at: datetime) -> Markup:
    """How long ago an instant was; the instant itself is its title."""
    return element("time", ago(then, at), datetime=then.isoformat(timespec="seconds"), title=f"{instant(then)} UTC")


def legend(names: Sequence[str]) -> Markup:
    """The colours of names, in order."""
    return element("p", [joined(swatch(n), name, " ") for n, name in enumerate(names)], class_="legend")


def swatch(colour: int) -> Markup:
    """A spot of a colour."""
    return element("span", class_=f"swatch c{colour}", aria_hidden="true")


def _table(caption: str, heads: Sequence[Child], rows: Sequence[Sequence[Child]]) -> Markup:
    def cell(number: int, child: Child) -> Markup:
        if isinstance(child, Markup) and child.startswith(("<td", "<th")):
            return child
        return element("th", child, scope="row") if number == 0 else element("td", child)

    numbers = {n for row in rows for n, child in enumerate(row) if str(child).startswith('<td class="right')}
    head = [element("th", h, scope="col", class_="right" if n in numbers else None) for n, h in enumerate(heads)]
    body = [element("tr", [cell(n, child) for n, child in enumerate(row)]) for row in rows]
    table = element(
        "table",
        element("caption", caption, class_="hidden"),
        element("thead", element("tr", head)),
        element("tbody", body),
        class_="few" if len(heads) <= 5 and not any('class="chart"' in one for one in body) else None,
    )
    return element("div", table, class_="scroll")
