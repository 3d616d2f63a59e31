"""News in Dagster's history: the tables about which it has recorded something since the sensor looked last.

One question for all tables, where each look at one of them asks several. Events and runs that were recorded meanwhile,
by a transaction that ended later than others, are found by the next question: each covers the time of two.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import dagster as dg

from incload_assets.platform.dagster_private import RunsFilter
from incload_assets.progress.checkpoint import planned_assets
from incload_assets.progress.observed import Mark
from incload_assets.progress.run_tags import LOADS_NOTHING

MOST = 500
"""Number of events or runs from which on all tables count as changed."""
CLOCKS = timedelta(seconds=10)
"""How far the clock of Dagster's storage may be behind ours."""


class News:
    """The news of Dagster's history for the sensor, which starts over with each process, or for others since its tick.

    Args:
        marks: How much of the history is known, the last two times.
    """

    def __init__(self, marks: Sequence[Mark] = ()) -> None:
        self.marks = [*marks][-2:]
        self._known: set[dg.AssetKey] = set()

    def since_last_time(self, instance: dg.DagsterInstance, at: datetime) -> set[dg.AssetKey] | None:
        """The assets that were materialized, wiped or part of a run since the last two calls; None: maybe all."""
        storage = instance.event_log_storage
        newest = storage.get_maximum_record_id() or 0
        marks, self.marks = self.marks, [*self.marks, (newest, at.isoformat())][-2:]
        known, self._known = self._known, {*instance.all_asset_keys()}
        if not marks or newest < marks[-1][0]:  # the latter: it is another storage
            return None
        wanted = dg.EventRecordsFilter(dg.DagsterEventType.ASSET_MATERIALIZATION, after_cursor=marks[0][0])
        records = storage.get_event_records(wanted, limit=MOST)
        if len(records) == MOST:
            return None
        found = known - self._known  # these were wiped
        found |= {record.asset_key for record in records if record.asset_key is not None}
        since = datetime.fromisoformat(marks[0][1]) - CLOCKS
        runs = instance.get_run_records(RunsFilter(updated_after=since), limit=MOST)
        if len(runs) == MOST:
            return None
        for record in runs:
            if (keys := _assets_of(instance, record.dagster_run)) is None:
                return None
            found.update(keys)
        return found


def _assets_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Iterable[dg.AssetKey] | None:
    """The assets that a run may have changed for the sensor; None: maybe all."""
    if run.asset_selection:
        return run.asset_selection
    if run.asset_check_selection:
        return [check.asset_key for check in run.asset_check_selection]
    if LOADS_NOTHING.items() <= run.tags.items():
        if not run.is_finished:
            return []
        steps: Any = run.run_config.get("ops", {})
        forms = [step.get("config") or {} for step in steps.values()]
        names = [name for form in forms for name in (form.get("tables") or filter(None, [form.get("table")]))]
        return [dg.AssetKey.from_user_string(name) for name in names] or None
    plan = run.execution_plan_snapshot_id
    return None if plan is None else planned_assets(instance, plan)
