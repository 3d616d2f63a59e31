"""The pages of the dashboards: each panel as a number, bars, a table, or lines over time."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby

from incload_assets.monitoring.dashboard.drawing import Links, drawn
from incload_assets.monitoring.dashboard.grid import Grid
from incload_assets.monitoring.dashboard.view import View
from incload_assets.monitoring.panels import ON_CALL, Dashboard
from incload_assets.platform.wording import ago

BEATS = timedelta(minutes=5)
"""A daemon of Dagster that gave no sign of life for this long is missed."""


def dashboard_page(dashboard: Dashboard, view: View, links: Links) -> str:
    """The page of a dashboard."""
    grids = [Grid(panel, view) for panel in dashboard.panels]
    others = [grid for grid in grids if grid.panel.shape != "number"]
    slots = [
        (slots.of, view.slot_runs[run_id], waits)
        for slots in view.slots
        for waits, run_ids in ((False, slots.holders), (True, slots.waiting))
        for run_id in run_ids
    ]
    return drawn(
        "dashboard",
        view.at,
        links,
        title=dashboard.title.partition(": ")[2].capitalize() or dashboard.title,
        tab=dashboard.name,
        about=dashboard.about,
        notices=notices(view),
        numbers=[grid for grid in grids if grid.panel.shape == "number"],
        filled=_in_groups([grid for grid in others if grid.values]),
        empty=_in_groups([grid for grid in others if not grid.values]),
        slots=slots if dashboard is ON_CALL else None,
        known=view.facts.tables,
    )


def _in_groups(grids: Sequence[Grid]) -> list[list[Grid]]:
    """Panels next to each other, except those that need the width of the page."""
    return [[*group] for _, group in groupby(grids, key=lambda grid: grid.is_wide)]


def notices(view: View) -> list[str]:
    """The notices at the top of a page: what cannot be read, and why nothing is loaded by itself."""
    faults = [*view.facts.unreadable, *(one.unreadable for one in view.facts.tables.values() if one.unreadable)]
    if not view.facts.tables:
        return [*faults, "There are no tables yet: declare one, see `incload docs tables`."]
    beats = view.facts.heartbeats.values()
    if not beats:
        return [*faults, "Dagster's daemon has never run here: nothing is loaded by itself."]
    if view.at - max(beats) > BEATS:
        sign = ago(max(beats), view.at)
        return [*faults, f"Dagster's daemon last gave a sign of life {sign}: nothing is loaded by itself."]
    return faults
