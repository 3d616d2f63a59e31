"""Loads in a few words, for the pages of a table and of a run, and the page of a run."""

import json
from collections.abc import Sequence

from incload_assets.history.load_row import COUNTS, PHASES, LoadRow, landings_of
from incload_assets.history.sums import CHANGED
from incload_assets.monitoring.dashboard.drawing import Links, drawn
from incload_assets.monitoring.dashboard.page import notices
from incload_assets.monitoring.dashboard.view import View
from incload_assets.platform.failures import masked
from incload_assets.platform.wording import length

Chart = tuple[Sequence[tuple[int, float, float]], str]
"""Stretches of time, each by the number of its colour, its start and its length in seconds, and what they show."""


def reason(row: LoadRow) -> str:
    """The request of a load, and its reason."""
    number = f", attempt {row.attempt}" if row.attempt > 1 else ""
    return f"{row.trigger}{f': {row.why}' if row.why else ''}{number}"


def changed(row: LoadRow) -> int:
    """The number of rows that a load inserted, updated and deleted."""
    return sum(int(getattr(row, name)) for name in CHANGED)


def phases(row: LoadRow) -> Chart:
    """The phases of a load, one after another, and the time that belongs to none."""
    took = [float(getattr(row, name)) for name in PHASES]
    took.append(max(row.seconds - sum(took), 0.0))
    parts = [(n, sum(took[:n]), seconds) for n, seconds in enumerate(took)]
    return parts, _title(row, [(name, s) for name, s in zip((*PHASES, "other"), took, strict=True) if s])


def load_page(rows: Sequence[LoadRow], view: View, links: Links) -> str:
    """The page of a run: its attempts, one for each window, oldest first, at least one."""
    charts, whole = _time(rows)
    tables = sorted({row.table for row in rows})
    return drawn(
        "load",
        view.at,
        links,
        title=f"Load of {', '.join(tables)}",
        notices=notices(view),
        rows=rows,
        tables=tables,
        charts_by_window=charts,
        whole=whole,
        former=[_former(row, view) for row in rows],
        proofs=[_proof(row) for row in rows],
        phases=PHASES,
        counts=COUNTS,
        changed=changed,
        reason=reason,
        masked=masked,
    )


def _time(rows: Sequence[LoadRow]) -> tuple[list[Chart], float]:
    """The parts of all windows on one axis of time; windows that are loaded together share some."""
    starts = [start.timestamp() for row in rows for _, start, _ in row.spans]
    ends = [start.timestamp() + took.total_seconds() for row in rows for _, start, took in row.spans]
    if not starts:
        return [phases(row) for row in rows], max(row.seconds for row in rows)
    began = min(starts)
    charts: list[Chart] = []
    for row in rows:
        parts = [
            (PHASES.index(name) if name in PHASES else len(PHASES), start.timestamp() - began, took.total_seconds())
            for name, start, took in row.spans
        ]
        charts.append((parts, _title(row, [(name, took.total_seconds()) for name, _, took in row.spans])))
    return charts, max(ends) - began


def _title(row: LoadRow, parts: Sequence[tuple[str, float]]) -> str:
    return f"{row.window}: {', '.join(f'{name} {length(s)}' for name, s in parts) or 'no phase is known'}"


def _former(row: LoadRow, view: View) -> list[LoadRow]:
    """The loads of a window before one, the newest first."""
    recent = view.facts.tables[row.table].recent if row.table in view.facts.tables else ()
    landed = landings_of([*reversed(recent)]).get(row.window, ())
    return [one for one in landed if one.ended_at < row.ended_at][:6]


def _proof(row: LoadRow) -> str:
    """The numbers and hashes that the reconciliation compared."""
    found, verdict = json.loads(row.proof), ""
    if {"log_hash", "table_hash", "pending"} <= found.keys():
        same = found["log_hash"] == found["table_hash"] and not found["pending"]
        verdict = "log and table agree: " if same else "log and table differ: "
    return verdict + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found.items())
