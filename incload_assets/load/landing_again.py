"""Landings of a window whose rows come from the log, and not from the source.

Like every landing it has the next number and is fenced: a load of the window that comes first makes it start again, and
one that was killed is refused.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.staged import Staged
from incload_assets.change_log.window_records import WindowRecord, window_records_of
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.delta.sql import combined
from incload_assets.delta.tuning import tune_ingest
from incload_assets.ingest.carry_over import replaced_rows
from incload_assets.ingest.facts import Facts, facts_of
from incload_assets.ingest.full_extracts import extracts_of, marks_of
from incload_assets.ingest.ingestion import Ingestion, ingestion_app_id
from incload_assets.load.apply import apply_changes
from incload_assets.load.compacted import hold_off
from incload_assets.load.load import LoadReport, report_of
from incload_assets.load.placement import refuse_misplaced
from incload_assets.load.range_fences import call_off_ingestions, call_off_merges
from incload_assets.load.tables import ensure_tables
from incload_assets.writes.merge_into import app_id
from incload_assets.writes.strategy import strategy_of
from resources.errors import ConcurrentLoad, DeclarationError, IncrementalLoadError
from resources.wording import several

LANDINGS = 5
LandOnce = Callable[[Ingestion, WindowRecord], bool | None]
"""One attempt to land; returns whether it was committed, or None if there is nothing to land."""


def load_from_log(load: LoadContext, window: Window, land: Callable[[], bool]) -> LoadReport:
    """Lands a window from the log, merges it in full, and reconciles.

    In full, because a landing that was killed before its merge is repeated by one that may find nothing to land.

    Args:
        load: The load's context.
        window: The window.
        land: Lands; returns whether there was anything to land.
    """
    with load.phases.timed("prepare"):
        refuse_misplaced(load, [window])
        ensure_tables(load)
        call_off_ingestions(load, window)
    landed = land()
    with load.phases.timed("prepare"):
        call_off_merges(load, window)
    applied = apply_changes(load, (window,), app_id(load.table, window), is_again=lambda _: True)
    return report_of(load, applied, window, ingested=landed)


def land_again(
    load: LoadContext, window: Window, is_due: Callable[[WindowRecord], bool], land_once: LandOnce, *, rule: str
) -> bool:
    """Lands a window again, in a bounded number of attempts; returns whether there was anything to land.

    Args:
        load: The load's context.
        window: The window.
        is_due: Whether the window, by its record, may have anything to land.
        land_once: One attempt.
        rule: For messages, what is landed and of which windows.

    Raises:
        IncrementalLoadError: The window was never loaded, or is held.
        ConcurrentLoad: Other loads committed first in every attempt.
    """
    table, log, held_off = load.table, load.log, False
    for _ in range(LANDINGS):
        at = log.open()
        before = window_records_of(at, only=[window.key]).get(window.key)
        if before is None or before.held is not None:
            raise IncrementalLoadError(
                f"{table.name} {window.key}: " + ("it was never loaded" if before is None else f"it is {before.hold}"),
                rule=f"{rule}, and leaves held windows alone",
                remedy=f"load it: incload load {table.name} --partitions {window.key}"
                if before is None
                else f"release it first: incload release {table.name} --partitions {window.key}",
            )
        if not is_due(before):
            return False
        if before.compacted_at is not None and not held_off:
            hold_off(load)
            held_off = True
            continue  # a landing has to start from the log after any removal
        fence = at.transaction_version(ingestion_app_id(table, window)) or 0
        ingestion = Ingestion(window, before.as_position(), before, at.version(), False, fence)
        with load.phases.timed("ingest"):
            tune_ingest(load.spark, at, [window.key], 0)
            landed = land_once(ingestion, before)
        if landed is None or landed:
            return bool(landed)
    raise ConcurrentLoad(
        f"{table.name} {window.key}: other loads of the window committed first in each of {LANDINGS} attempts",
        rule="a landing starts again from what another load has landed, a bounded number of times",
        remedy="try again",
    )


def with_former(load: LoadContext, ingestion: Ingestion, staged: Staged, former: DataFrame, facts: Facts) -> Facts:
    """Stages what depends on the whole window: the marks of full extracts, and markers of keys that lost a row.

    Args:
        load: The load's context.
        ingestion: The window.
        staged: All rows of the window.
        former: The window's rows in the log.
        facts: The facts of the staged rows.
    """
    table, key, content = load.table, ingestion.window.key, staged.read()
    more: list[DataFrame] = []
    if table.changes.snapshot_when:
        extracts = extracts_of(content, table, [key])
        facts = replace(facts, extracts=extracts[key])
        if (marks := marks_of(content, table, extracts)) is not None:
            content, more = content.unionByName(marks, allowMissingColumns=True), [marks]
    strategy_of(table).guard(load, ingestion, facts)
    if (markers := replaced_rows(load, ingestion, former, content)) is not None:
        more.append(markers)
    if not more or not staged.write(combined(partial(DataFrame.unionByName, allowMissingColumns=True), more)):
        return facts
    return replace(facts_of(staged.read(), table, [ingestion.window])[key], extracts=facts.extracts)


def check_count(table: Table, window: Window, expected: int, found: int) -> None:
    """Checks that each row became one row.

    Raises:
        DeclarationError: The function is not row-wise.
    """
    if expected != found:
        raise DeclarationError(
            f"{table.name} {window.key}: {several(expected, 'row')} of the log became {found}; nothing was committed",
            rule="each row becomes one row, and the function is row-wise",
            remedy="do not filter, explode, join or aggregate in the function",
        )


def record_again(
    load: LoadContext, ingestion: Ingestion, before: WindowRecord, facts: Facts, code_version: str
) -> WindowRecord:
    """The window record of such a landing: of the same position.

    Args:
        load: The load's context.
        ingestion: The window.
        before: Its record.
        facts: The facts of the window.
        code_version: The version of the code that has judged all rows of the window.
    """
    return replace(
        before,
        former=before.landing,
        landing=max(before.landing, ingestion.fence) + 1,
        code_version=code_version,
        run_id=load.run_id,
        landed_at=windows.now(),
        **facts.recorded,
    )
