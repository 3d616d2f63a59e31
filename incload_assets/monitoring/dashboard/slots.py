"""The runs that hold a slot of a pool or of the run queue on the on-call page, and the runs that wait for one."""

from incload_assets.monitoring.dashboard.markup import Child, Markup, element, joined
from incload_assets.monitoring.dashboard.parts import Links, listing, marked, since
from incload_assets.monitoring.dashboard.view import View
from incload_assets.progress.slots import SlotRun


def slots_in(view: View, links: Links) -> Markup:
    """The runs that hold a slot of a pool or of the run queue, and the runs that wait for one."""
    found = [
        (slots.of, view.slot_runs[run_id], waits)
        for slots in view.slots
        for waits, run_ids in ((False, slots.holders), (True, slots.waiting))
        for run_id in run_ids
    ]
    if not found:
        return element("p", "No run holds a slot or waits for one.", class_="quiet")
    rows = [
        (
            name,
            _at_slot(run, waits=waits),
            links.table(run.table) if run.table in view.facts.tables else run.table,
            run.window,
            since(run.since, view.at) if run.since else "",
            element("span", links.run(run.run_id, run.run_id[:8]) or run.run_id[:8], class_="code"),
            run.process,
        )
        for name, run, waits in found
    ]
    heads = ["slots of", "state", "table", "window", "since", "run", "process"]
    return joined(
        element("p", "Runs that hold a slot of a pool or of the run queue, and runs that wait for one.", class_="help"),
        listing("Slots", heads, rows, fold="slots"),
    )


def _at_slot(run: SlotRun, *, waits: bool) -> Child:
    """The state of a run at a slot: it holds it or waits for it; a run that has ended and holds it is marked."""
    if waits or not run.over:
        return "waits" if waits else "holds it"
    return element("strong", marked(f"holds it. {run.over}"), class_="worry")
