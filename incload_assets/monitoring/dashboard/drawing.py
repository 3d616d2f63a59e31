"""Pages are drawn by the templates of the folder ``templates``, which escape every text."""

from dataclasses import dataclass
from datetime import datetime

from jinja2 import Environment, PackageLoader, StrictUndefined

from incload_assets.monitoring.panels import DASHBOARDS
from incload_assets.platform import page_addresses, wording

LISTED = 12
"""Rows of a list that are shown at once; the others are folded."""
MOST = 200
"""Rows of a list that are on the page at all."""
LONG = 400
"""The number of characters of a record that are shown."""
REFRESH_SECONDS = 30


@dataclass(frozen=True)
class Links:
    """The addresses that the pages link to: the Dagster UI, without a trailing slash; empty: no links to it."""

    dagster: str = ""


def drawn(page: str, at: datetime, links: Links | None = None, **content: object) -> str:
    """A whole page, or a part of one: the template of that name, filled with ``content``; ``at`` is aware."""
    return _PAGES.get_template(f"{page}.html").render(at=at, links=links or Links(), **content)


def cut(text: str) -> str:
    """A text without what is beyond its first :data:`LONG` characters."""
    return text if len(text) <= LONG else f"{text[:LONG]}…"


def identifier(text: str) -> str:
    """A text as the identity of an element."""
    return "".join(c if c.isalnum() else "-" for c in text.lower())


_PAGES = Environment(
    loader=PackageLoader(__package__),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    extensions=["jinja2.ext.do"],
)
_PAGES.globals.update(
    dashboards=DASHBOARDS,
    tabs={"executive": "Executive", "on-call": "On call", "debug": "Debug"},
    listed=LISTED,
    most=MOST,
    refresh_seconds=REFRESH_SECONDS,
)
_PAGES.filters.update(
    {each.__name__: each for each in (cut, identifier)}
    | {name: getattr(wording, name) for name in ("ago", "instant", "number", "several", "share", "size")}
    | {name: getattr(page_addresses, name) for name in ("table_path", "trace_path", "load_path")}
    | {"time": wording.length}  # Jinja's own `length` counts
)
