"""The documentation as pages, so that the links of alerts and messages to runbooks have an address."""

import re
from datetime import datetime
from importlib.resources import files
from itertools import pairwise

from markdown_it import MarkdownIt

from incload_assets.monitoring.dashboard.markup import Markup
from incload_assets.monitoring.dashboard.parts import frame

RUNBOOKS = "/docs/runbooks.md"
"""The path of the page with the runbooks."""
_NAME = re.compile(r"[a-z_]+\.md")


def docs_page(name: str, at: datetime) -> str | None:
    """A page of the documentation, whose headings have the anchors that its links use; None if there is no such page.

    Args:
        name: The name of its file, for example ``runbooks.md``.
        at: The present instant, aware.
    """
    page = files("incload_assets").joinpath("docs", name)
    if not _NAME.fullmatch(name) or not page.is_file():
        return None
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(page.read_text(encoding="utf-8"))
    for heading, text in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", re.sub(r"[^\w\- ]", "", text.content.lower()).replace(" ", "-"))
    title, start = tokens[1].content, 3  # the heading of the page is the frame's
    return frame(title, Markup(markdown.renderer.render(tokens[start:], markdown.options, {})), at=at)
