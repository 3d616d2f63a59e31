"""The page of one table: how late it is, its last loads phase by phase, errors, quarantine and checks."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from incload_assets.history.load_row import PHASES, LoadRow, landings_of
from incload_assets.history.sums import CHANGED
from incload_assets.monitoring.dashboard.charts import stretches
from incload_assets.monitoring.dashboard.human import ago, instant, length, number
from incload_assets.monitoring.dashboard.lag import lag
from incload_assets.monitoring.dashboard.markup import Child, Markup, element, joined
from incload_assets.monitoring.dashboard.page import LABELS, notices
from incload_assets.monitoring.dashboard.parts import (
    Links,
    frame,
    legend,
    listing,
    marked,
    pairs,
    right,
    section,
    since,
)
from incload_assets.monitoring.dashboard.quarantine import quarantine
from incload_assets.monitoring.dashboard.trace_page import trace_form
from incload_assets.monitoring.dashboard.view import View
from incload_assets.monitoring.facts import TableFacts
from incload_assets.platform.failures import masked
from incload_assets.platform.wording import several
from incload_assets.quarantine.quarantine import RejectedRow

OTHER = len(PHASES)
"""The colour of the time that belongs to no phase."""


def table_page(facts: TableFacts, view: View, links: Links, rejected: Sequence[RejectedRow] | str = ()) -> str:
    """The page of a table.

    Args:
        facts: The table's facts.
        view: What the pages show.
        links: The addresses that it points to.
        rejected: The newest rejected rows, or why they cannot be read.
    """
    newest_first = [*reversed(facts.recent)]
    return frame(
        facts.table.name,
        section("Now", _now(facts, view.at, links)),
        section("Windows", _windows(facts, view.at)),
        lag(facts, view.at),
        section("Last loads", _loads(newest_first, view.at, links)),
        section("Windows that were loaded again", _landings(newest_first, links)),
        section("Errors", _errors(newest_first, view.at, links)),
        section("Quarantine", quarantine(facts, links, rejected)),
        section("Trace of a row", trace_form(facts.table)),
        section("Checks", _checks(facts, view.at)),
        at=view.at,
        about=facts.table.function.__doc__,
        notices=notices(view),
    )


def _now(facts: TableFacts, at: datetime, links: Links) -> Markup:
    table, seen = facts.table, facts.watch.seen
    asset = links.asset(table.name, "its asset in the Dagster UI")
    return pairs(
        ("State", _state(facts, at)),
        ("Loads", element("strong", marked(f"{facts.pause}"), class_="worry") if facts.pause else None),
        ("Last load", since(facts.newest, at) if facts.newest else "never"),
        ("Newest loaded window ended", since(facts.newest_window, at) if facts.newest_window else None),
        (
            "News waiting for",
            length((seen.oldest + (at - seen.time)).total_seconds()) if seen and seen.pending else None,
        ),
        ("Due after a window's end", length(table.due_after.total_seconds())),
        ("Criticality", table.criticality),
        ("Owners", ", ".join(table.owners) or "nobody"),
        ("Sensor", _sensor(facts, at)),
        ("Runs", ", ".join(f"{count} {status}" for status, count in sorted(facts.under_way.items())) or "none now"),
        ("Dagster", asset),
    )


def _state(facts: TableFacts, at: datetime) -> Child:
    seen = facts.watch.seen
    if seen is None:
        return "unknown: its sensor has not run yet"
    if seen.verdict == "late":
        return element(
            "strong", marked(f"late by {length(seen.overdue + (at - seen.time).total_seconds())}"), class_="worry"
        )
    return {"undeclared": "no freshness is declared", "idle": "fresh: its source is idle"}.get(
        seen.verdict, seen.verdict
    )


def _sensor(facts: TableFacts, at: datetime) -> Child:
    watch = facts.watch
    if not watch.running:
        return element("strong", marked("off"), class_="worry")
    if watch.tick is None:
        return "on, has not run yet"
    if watch.failed:
        why = f": {watch.trouble}" if watch.trouble else ""
        return element("strong", marked(f"its last look at the source failed{why}"), class_="worry")
    return joined("looked ", since(watch.tick, at))


def _windows(facts: TableFacts, at: datetime) -> Child:
    seen = facts.watch.seen
    if seen is None:
        return element("p", "The table's sensor has not run yet.", class_="none")
    heads = ["", *(LABELS.get(status, status) for status in seen.windows)]
    counts = [("windows", *(right(number(count)) for count in seen.windows.values()))]
    waiting = [
        (key, joined("waiting, first seen ", since(datetime.fromisoformat(first), at)), "")
        for key, first in seen.pending.items()
    ]
    failing = [(key, element("strong", marked("failed"), class_="worry"), cause) for key, cause in seen.failing.items()]
    stopped = [
        (key, element("strong", marked("waits for a person"), class_="worry"), masked(why))
        for key, why in seen.stopped.items()
    ]
    rows = [*stopped, *(row for row in failing if row[0] not in seen.stopped), *waiting]
    return joined(
        listing("Windows by status", heads, counts, fold="windows-by-status"),
        listing("Windows that are not loaded", ["window", "state", "why"], rows, fold="windows-not-loaded")
        if rows
        else element("p", f"Nothing waited {ago(seen.time, at)}, when the sensor last looked.", class_="quiet"),
    )


def _loads(newest_first: Sequence[LoadRow], at: datetime, links: Links) -> Child:
    if not newest_first:
        return element("p", "It has never been loaded, or not for long.", class_="none")
    longest = max(row.seconds for row in newest_first[:60])
    heads = [
        "window",
        "ended",
        "outcome",
        f"phases, 0 to {length(longest)}",
        "took",
        "read",
        "changed",
        "quarantined",
        "why",
        "run",
    ]
    rows = [
        (
            row.window,
            since(row.ended_at, at),
            outcome(row),
            element("td", phases(row, longest), class_="chart"),
            right(length(row.seconds) if row.seconds else ""),
            right(number(row.rows_read)),
            right(number(changed(row))),
            right(number(row.quarantined)),
            reason(row),
            links.load(row.run_id),
        )
        for row in newest_first[:60]
    ]
    return joined(legend([*PHASES, "other"]), listing("Last loads", heads, rows, fold="last-loads"))


def outcome(row: LoadRow) -> Child:
    """How an attempt ended; a failure is marked."""
    if row.outcome == "failed":
        return element("strong", marked(row.error_class or "failed"), class_="worry")
    return row.outcome


def reason(row: LoadRow) -> str:
    """What requested a load, and why."""
    number = f", attempt {row.attempt}" if row.attempt > 1 else ""
    return f"{row.trigger}{f': {row.why}' if row.why else ''}{number}"


def changed(row: LoadRow) -> int:
    """The number of rows that a load inserted, updated and deleted."""
    return sum(int(getattr(row, name)) for name in CHANGED)


def phases(row: LoadRow, longest: float) -> Markup:
    """The phases of a load, one after another.

    Args:
        row: The load.
        longest: Seconds of the whole chart.
    """
    took = [float(getattr(row, name)) for name in PHASES]
    took.append(max(row.seconds - sum(took), 0.0))
    parts = [(n, sum(took[:n]), seconds) for n, seconds in enumerate(took)]
    told = ", ".join(f"{name} {length(s)}" for name, s in zip((*PHASES, "other"), took, strict=True) if s)
    return stretches(parts, longest, f"{row.window}: {told or 'no phase is known'}")


def landing(row: LoadRow, links: Links) -> Markup:
    """A load of a window in a few words."""
    return joined(f"{instant(row.ended_at)}, {several(changed(row), 'row')} changed, ", links.load(row.run_id))


def _landings(newest_first: Sequence[LoadRow], links: Links) -> Child:
    again = {window: found for window, found in landings_of(newest_first).items() if len(found) > 1}
    if not again:
        return element("p", "None: each window was loaded once.", class_="quiet")
    rows = [
        (
            window,
            right(number(len(found))),
            landing(found[0], links),
            element("ul", [element("li", landing(row, links)) for row in found[1:6]]),
        )
        for window, found in again.items()
    ]
    return listing(
        "Windows that were loaded again", ["window", "loads", "present", "former (UTC)"], rows, fold="landings"
    )


def _errors(newest_first: Sequence[LoadRow], at: datetime, links: Links) -> Child:
    failed: dict[str, list[LoadRow]] = defaultdict(list)
    for row in newest_first:
        if row.outcome == "failed":
            failed[row.error_class].append(row)
    if not failed:
        return element("p", "None.", class_="quiet")
    rows = [
        (kind or "unknown", right(number(len(found))), since(found[0].ended_at, at), found[0].window,
         masked(found[0].error) or "the process left no message", links.load(found[0].run_id))
        for kind, found in failed.items()
    ]  # fmt: skip
    return listing("Errors", ["kind", "attempts", "last", "window", "message", "run"], rows, fold="errors")


def _checks(facts: TableFacts, at: datetime) -> Child:
    if not facts.checks:
        return element("p", "No check has run yet.", class_="none")
    rows = [
        (
            name,
            "passed"
            if check.passed
            else element("strong", marked("failed" if check.severity == "ERROR" else "warning"), class_="worry"),
            since(check.at, at),
            check.description,
        )
        for name, check in sorted(facts.checks.items(), key=lambda item: (item[1].passed, item[0]))
    ]
    return listing("Checks", ["check", "result", "seen", "says"], rows, fold="checks")
