"""The page of one run: its windows with their phases, counts and proof, and the trace that tells the same."""

import json
from collections.abc import Sequence

from incload_assets.history.load_row import COUNTS, PHASES, LoadRow, landings_of
from incload_assets.monitoring.dashboard.charts import stretches
from incload_assets.monitoring.dashboard.human import instant, length, number, share, size
from incload_assets.monitoring.dashboard.markup import Child, Markup, element, joined
from incload_assets.monitoring.dashboard.page import notices
from incload_assets.monitoring.dashboard.parts import (
    Links,
    folded,
    frame,
    identifier,
    legend,
    listing,
    pairs,
    right,
    section,
    since,
)
from incload_assets.monitoring.dashboard.table_page import landing, outcome, phases, reason
from incload_assets.monitoring.dashboard.view import View
from incload_assets.platform.failures import masked
from incload_assets.platform.wording import several


def load_page(rows: Sequence[LoadRow], view: View, links: Links) -> str:
    """The page of a run.

    Args:
        rows: The attempts of the run, one for each window, oldest first; at least one.
        view: What the pages show.
        links: The addresses that it points to.
    """
    return frame(
        f"Load of {', '.join(sorted({row.table for row in rows}))}",
        section("The run", _run(rows, view, links)),
        section("Its time", legend([*PHASES, "other"]), _time(rows)),
        section("Counts", _counts(rows)),
        *(_window(row, view, links, alone=len(rows) == 1) for row in rows),
        at=view.at,
        notices=notices(view),
    )


def _run(rows: Sequence[LoadRow], view: View, links: Links) -> Markup:
    first, last = rows[0], rows[-1]
    return pairs(
        ("Run", joined(element("code", first.run_id), " ", links.run(first.run_id))),
        ("Trace", element("code", first.trace_id)),
        ("Tables", [joined(links.table(name), " ") for name in sorted({row.table for row in rows})]),
        ("Asked for by", f"{first.trigger} {first.asked_by}".strip()),
        ("Asked for at", f"{instant(first.asked_at)} UTC" if first.asked_at else None),
        ("Ended", joined(since(last.ended_at, view.at), f" ({instant(last.ended_at)} UTC)")),
        ("Windows", several(len(rows), "window")),
        ("From the request to the end", length(last.waited.total_seconds()) if last.waited is not None else None),
    )


def _time(rows: Sequence[LoadRow]) -> Markup:
    """The parts of all windows on one axis of time; windows that are loaded together share some."""
    starts = [start.timestamp() for row in rows for _, start, _ in row.spans]
    ends = [start.timestamp() + took.total_seconds() for row in rows for _, start, took in row.spans]
    if not starts:
        longest = max(row.seconds for row in rows)
        return _timed(rows, [phases(row, longest) for row in rows], longest)
    began, whole = min(starts), max(ends) - min(starts)
    charts = []
    for row in rows:
        parts = [
            (PHASES.index(name) if name in PHASES else len(PHASES), start.timestamp() - began, took.total_seconds())
            for name, start, took in row.spans
        ]
        told = ", ".join(f"{name} {length(took.total_seconds())}" for name, _, took in row.spans)
        charts.append(stretches(parts, whole, f"{row.window}: {told or 'no phase is known'}"))
    return _timed(rows, charts, whole)


def _timed(rows: Sequence[LoadRow], charts: Sequence[Markup], whole: float) -> Markup:
    heads = ["window", f"0 to {length(whole)}", *PHASES, "took"]
    cells = [
        (
            row.window,
            element("td", chart, class_="chart"),
            *(right(length(getattr(row, name)) if getattr(row, name) else "") for name in PHASES),
            right(length(row.seconds) if row.seconds else ""),
        )
        for row, chart in zip(rows, charts, strict=True)
    ]
    return listing("Time by window", heads, cells, fold="time")


def _counts(rows: Sequence[LoadRow]) -> Markup:
    heads = ["window", "outcome", *(name.removeprefix("rows_") for name in COUNTS), "size in the log"]
    cells: list[Sequence[Child]] = [
        (row.window, outcome(row), *(right(number(getattr(row, name))) for name in COUNTS), right(size(row.bytes)))
        for row in rows
    ]
    return listing("Counts by window", heads, cells, fold="counts")


def _window(row: LoadRow, view: View, links: Links, *, alone: bool) -> Markup:
    """Everything else about one attempt; folded if there are many."""
    recent = view.facts.tables[row.table].recent if row.table in view.facts.tables else ()
    former = [one for one in landings_of([*reversed(recent)]).get(row.window, ()) if one.ended_at < row.ended_at]
    formers = [element("li", landing(one, links)) for one in former[:6]]
    told = pairs(
        ("Window", f"{instant(row.window_start)} to {instant(row.window_end)} UTC"),
        ("Due", f"{instant(row.due_at)} UTC, {'on time' if row.on_time else 'missed'}"),
        ("Why", reason(row)),
        ("Error", masked(row.error) if row.error else None),
        ("Position", masked(row.position)),
        ("Fingerprint", element("code", row.fingerprint) if row.fingerprint else None),
        ("Version of the code", element("code", row.code_version) if row.code_version else None),
        ("Version of the table", None if row.table_version is None else str(row.table_version)),
        ("Version of the log", None if row.log_version is None else str(row.log_version)),
        ("Commit", row.commit),
        ("Quarantined", _quarantined(row)),
        ("Proof", _proof(row)),
        ("Former loads of the window", element("ul", formers) if formers else "none known"),
    )
    title = f"{row.table} {row.window}"
    if alone:
        return section(title, told)
    return section(title, folded(identifier(f"window-{row.table}-{row.window}"), row.outcome, told))


def _quarantined(row: LoadRow) -> str | None:
    """The number of rows in quarantine, and their share of those that were read."""
    return f"{number(row.quarantined)} ({share(row.quarantined / row.rows_read)})" if row.quarantined else None


def _proof(row: LoadRow) -> Child:
    """The numbers and hashes that the reconciliation compared."""
    found = json.loads(row.proof)
    if not found:
        return None
    verdict = ""
    if {"log_hash", "table_hash", "pending"} <= found.keys():
        same = found["log_hash"] == found["table_hash"] and not found["pending"]
        verdict = "log and table agree: " if same else "log and table differ: "
    return joined(verdict, ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found.items()))
