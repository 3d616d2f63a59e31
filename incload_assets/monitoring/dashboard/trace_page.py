"""The trace of a row as a page, and the form that asks for it: what ``incload trace`` says, personal values masked."""

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.history.row_trace import Change, RowTrace, trace_row
from incload_assets.monitoring.dashboard.human import cut, instant
from incload_assets.monitoring.dashboard.markup import Child, Markup, element, joined
from incload_assets.monitoring.dashboard.parts import Links, frame, listing, marked, notice, right, section
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.failures import masked, without_texts
from incload_assets.platform.lake import Lake
from incload_assets.platform.page_addresses import trace_path
from incload_assets.protection.row_key import key_columns, key_of, needed_columns

Key = Sequence[tuple[str, str]]
"""The columns and values of a row's key as the form sends them."""


def traced(table: Table, lake: Lake, query: str, links: Links) -> tuple[HTTPStatus, str]:
    """The page with the trace of the row that a form asks for; with what is wrong with its key, or with just the form.

    Args:
        table: The declaration.
        lake: The lake with table and log.
        query: What the form has sent, for example ``order_id=17``.
        links: The addresses that the page points to.
    """
    status = HTTPStatus.OK
    found: RowTrace | str | None = None
    given = [(name, value) for name, value in parse_qsl(query) if name and "=" not in name]  # no column has it
    if query:
        try:
            key = key_of(table, (f"{name}={value}" for name, value in given))
        except IncrementalLoadError as error:
            status, found = HTTPStatus.BAD_REQUEST, masked(str(error))
        else:
            with without_texts(f"{table.name}: the trace of a row"):
                found = trace_row(table, lake, key, values=True)
    return status, trace_page(table, given, found, now(), links)


def trace_form(table: Table, given: Key = ()) -> Markup:
    """The form that asks for a row, with a field for each column of its key.

    Args:
        table: The declaration.
        given: What was asked for; personal values are not repeated.
    """
    if not (needed := needed_columns(table)):
        hint = element("code", f"incload trace {table.name} COLUMN=VALUE")
        return element("p", "Its rows have no key. Rows with some values are traced by ", hint, ".", class_="quiet")
    shown = {name: value for name, value in given if name not in table.contract.personal}
    fields = [
        element(
            "label",
            joined(name, None if name in needed else " (optional)"),
            element("input", name=name, value=shown.get(name), required=name in needed, autocomplete="off"),
        )
        for name in key_columns(table)
    ]
    return element("form", fields, element("button", "Trace"), method="get", action=trace_path(table.name))


def trace_page(table: Table, given: Key, found: RowTrace | str | None, at: datetime, links: Links) -> str:
    """The page with the trace of a row.

    Args:
        table: The declaration.
        given: What was asked for.
        found: The trace, or why there is none; None: nothing was asked for.
        at: The present instant, aware.
        links: The addresses that it points to.
    """
    return frame(
        f"Trace of a row of {table.name}",
        section("Row", trace_form(table, given)),
        _trace(table, found, links) if isinstance(found, RowTrace) else None,
        at=at,
        about=joined("Every change of one row, oldest first, and its outcome. ", links.table(table.name)),
        notices=[notice(found)] if isinstance(found, str) else (),
        refreshed=False,
    )


def _trace(table: Table, found: RowTrace, links: Links) -> list[Markup]:
    named = " ".join(f"{name}={value}" for name, value in found.key.items())
    verdict = f"{named}: {found.now}."
    sequence = table.changes.sequence_by
    heads = ["#", "change", *sequence, "window", "from", "landed (UTC)", "became", "why", "landing", "run"]
    rows = [[str(change.number), *_cells(change, links)] for change in found.changes]
    values = [(str(change.number), ", ".join(change.sets), _as_json(change.values)) for change in found.changes]
    present = [(str(number), _as_json(row)) for number, row in enumerate(found.present, 1)]
    return [
        section(
            "Now",
            element("p", marked(verdict), class_="worry") if found.agrees is False else element("p", verdict),
            listing("The table's rows", ["#", "row"], present, fold="present") if present else None,
            element("ul", [element("li", f"{note}.") for note in found.notes]) if found.notes else None,
        ),
        section(
            "Changes",
            [
                listing("Changes", heads, rows, fold="changes"),
                element("h3", "Their values"),
                listing("Values of the changes", ["#", "sets only", "values"], values, fold="values"),
            ]
            if rows
            else element("p", "None.", class_="quiet"),
        ),
    ]


def _cells(change: Change, links: Links) -> list[Child]:
    return [
        change.operation,
        *(_text(value) for value in change.sequence.values()),
        change.window,
        change.place,
        instant(change.landed_at),
        change.fate + (f" by {change.by}" if change.by else ""),
        change.why,
        right(str(change.landing)),
        links.load(change.run_id) if change.run_id else "",
    ]


def _as_json(values: Mapping[str, Any]) -> Markup:
    return element("span", cut(json.dumps(values, default=_text, ensure_ascii=False)), class_="code")


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)
