"""Plans loads: previews each window, and describes what its load would change."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median, quantiles

import dagster as dg
from pyspark.sql import SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.layout import laid_out_by
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.load.detection import detect
from incload_assets.load.error_translation import translated
from incload_assets.load.pending import pending_windows
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import LOADS_FOLDER, Lake
from incload_assets.platform.lake_rows import rows_where
from incload_assets.progress.checkpoint import checkpoint_of
from incload_assets.what_if.plan_details import window_plan
from incload_assets.what_if.planned import (
    Pace,
    Plan,
    WindowPlan,
    log_digest,
    table_digest,
)
from incload_assets.what_if.preview import preview, scratch_of

PAST_LOADS = 50
"""Most loads of the past from which a time is estimated."""


def pending_untouched(instance: dg.DagsterInstance, table: Table, lake: Lake) -> list[str]:
    """The same as :func:`~incload_assets.load.pending.pending_windows`, without any write to the lake."""
    with scratch_of(lake) as scratch:
        return pending_windows(instance, table, scratch)


def plan_loads(
    spark: SparkSession,
    instance: dg.DagsterInstance,
    table: Table,
    lake: Lake,
    partitions: Sequence[str],
    *,
    tables: Iterable[Table] = (),
    values: bool = False,
    rewrite_compacted: bool = False,
    done: Callable[[int], None] = lambda _: None,
) -> Plan:
    """Plans the loads of some partitions, oldest first, each alone and against the table as it is; commits nothing.

    The session is for this plan alone; ``tables`` are all tables, among them the tables derived from this one. Samples
    show ``values`` if asked for, but no personal ones. ``done`` is called with the number of windows planned.
    """
    windows, every = [], list(tables)
    for number, key in enumerate(partitions, start=1):
        window = table.window_of(key)
        checkpoint = checkpoint_of(instance, table.key, table.partitions_def, key, "")
        look = preview(spark, table, lake, window, checkpoint=checkpoint, rewrite_compacted=rewrite_compacted)
        try:
            with look as found:
                windows.append(window_plan(found, every, values=values))
        except Exception as error:
            windows.append(WindowPlan(key, error=str(translated(error, f"{table.name} {key}", table, lake))))
        done(number)
    return Plan(table.name, table.code_version, now(), windows, pace_of(instance, table, lake))


def check_plan(spark: SparkSession, table: Table, lake: Lake, plan: Plan) -> None:
    """Checks that a load would now do what a plan says.

    Raises:
        IncrementalLoadError: With everything that differs from what the plan was made from.
    """
    differs = []
    if plan.code_version != table.code_version:
        differs.append(f"the code or contract has changed ({plan.code_version}, now {table.code_version})")
    of_windows = {each.partition: each.basis for each in plan.windows if each.basis is not None}
    with scratch_of(lake) as scratch:
        load = LoadContext(spark, table, scratch)
        windows = [table.window_of(key) for key in of_windows]
        positions = detect(load, windows) if windows else {}
        log, rows = load.lake.delta(load.log.uri), load.lake.delta(load.uri)
        for key, basis in of_windows.items():
            position = positions.get(key)
            if position is None or position.fingerprint != basis.source:
                held = (position.summary or position.fingerprint) if position else "nothing"
                was = basis.summary or basis.source
                again = ", with other content" if held == was else ""
                differs.append(f"{key}: the source held {was}, now it holds {held}{again}")
            if log_digest(log, key) != basis.log:
                differs.append(f"{key}: another load has changed the log of the partition")
            if table_digest(rows, laid_out_by(table), basis.touched) != basis.table:
                differs.append(f"{key}: another load has changed the part of the table that the partition touches")
    if differs:
        raise IncrementalLoadError(
            f"{table.name}: the plan of {plan.made_at:%Y-%m-%d %H:%M} UTC is outdated: {'; '.join(differs)}",
            rule="a load by plan does what the plan says, and nothing was loaded",
            remedy="plan again",
        )


def pace_of(instance: dg.DagsterInstance, table: Table, lake: Lake) -> Pace | None:
    """How long the newest loads of a table took, by the history of loads, or else by what Dagster recorded."""
    seconds = _seconds_in_history(table, lake) or _seconds_recorded(instance, table)
    if not seconds:
        return None
    tenths = quantiles(seconds, n=10, method="inclusive") if len(seconds) > 1 else [*seconds, *seconds]
    return Pace(len(seconds), round(median(seconds), 2), round(tenths[0], 2), round(tenths[-1], 2))


def _seconds_in_history(table: Table, lake: Lake) -> list[float]:
    delta = lake.delta(f"{lake.root}/{LOADS_FOLDER}")
    if delta is None:
        return []
    mine = {"table": [table.name], "outcome": ["loaded"]}
    rows = rows_where(delta, mine, columns=["ended_at", "seconds"]).sort_by("ended_at")
    return [value for value in rows["seconds"].to_pylist() if value][-PAST_LOADS:]


def _seconds_recorded(instance: dg.DagsterInstance, table: Table) -> list[float]:
    found = instance.fetch_materializations(table.key, limit=PAST_LOADS).records
    known = [record.asset_materialization for record in found]
    values = [event.metadata["seconds"].value for event in known if event and "seconds" in event.metadata]
    return [float(value) for value in values if isinstance(value, int | float)]
