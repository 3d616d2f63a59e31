"""HTML and SVG elements. Every text is escaped here, so that no name and no message can become markup."""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

Child: TypeAlias = "str | int | Iterable[Child] | None"


class Markup(str):
    """A text that is markup already; only :func:`element` and :func:`joined` make it."""

    __slots__ = ()


EMPTY = frozenset({"meta", "link", "rect", "polyline", "line", "col", "br", "input"})
"""Elements without an end."""


def element(tag: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """An element.

    Args:
        tag: Its name.
        children: Texts, which are escaped, elements, and sequences of them; None is left out.
        attributes: With ``_`` for ``-``; one at the end is left out, as in ``class_``. None and False are left out.

    Example:
        >>> element("a", "a < b", href="/?x=1&y=2", aria_current="page")
        '<a href="/?x=1&amp;y=2" aria-current="page">a &lt; b</a>'
    """
    given = "".join(_attribute(*each) for each in attributes.items())
    if tag in EMPTY and not children:
        return Markup(f"<{tag}{given}/>")
    return Markup(f"<{tag}{given}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Markup:
    """Texts, escaped, and elements, one after another."""
    return Markup("".join(_text(child) for child in children))


def document(language: str, *children: Child) -> str:
    """A whole page."""
    return f"<!doctype html>\n{element('html', *children, lang=language)}\n"


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int):
        return escape(str(child))
    return joined(*child)


def _attribute(name: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = name.removesuffix("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(_plain(value))}"'


def _plain(value: str | float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
