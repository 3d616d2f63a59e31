"""Replay of the quarantine: the rejected rows of a window are judged again, by the present contract and function.

The records come from the payloads that the log keeps, so the source is not needed, not even a file that is gone. Rows
that now pass become changes of their window, at their old places; the others stay rejected, with their present reasons.
A replay is a landing of the window under the next number, then an ordinary merge and reconciliation: a load of the
window that comes first makes it start again, and one that was killed is refused by the fences.

Rows that people have fixed or accepted keep their payloads, too, and are judged again, in case that was undone.

The window's other accepted rows stay as they are. So its record keeps the code version of these rows, and says that the
present code has validated the window only if it has validated all rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import dagster as dg
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.change import DELETE, REJECTED, TRUNCATE, UPSERTS
from incload_assets.change_log.commit import commit
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.decisions import corrected_at
from incload_assets.change_log.erasures import deny_list_of
from incload_assets.change_log.staged import Staged
from incload_assets.change_log.window_records import WindowRecord, window_records_of
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.delta.sql import combined
from incload_assets.delta.tuning import tune_ingest
from incload_assets.ingest.carry_over import replaced_rows
from incload_assets.ingest.condition_errors import broken_condition_named
from incload_assets.ingest.corrections import corrections_of
from incload_assets.ingest.facts import Facts, facts_of
from incload_assets.ingest.full_extracts import extracts_of, marks_of
from incload_assets.ingest.gains import validates_each_alone, with_before
from incload_assets.ingest.ingestion import Ingestion, ingestion_app_id
from incload_assets.ingest.protect import is_kept_protected, protected_records
from incload_assets.ingest.quarantine import check_threshold
from incload_assets.ingest.validate import validate
from incload_assets.load.apply import apply_changes
from incload_assets.load.compacted import hold_off
from incload_assets.load.load import LoadReport, report_of
from incload_assets.load.placement import refuse_misplaced
from incload_assets.load.range_fences import call_off_ingestions, call_off_merges
from incload_assets.load.tables import ensure_tables
from incload_assets.progress.audit import AuditEntry, actor_of, record
from incload_assets.sources.files.csv import UNPARSED
from incload_assets.writes.merge_into import app_id
from incload_assets.writes.strategy import strategy_of
from resources.errors import ConcurrentLoad, DeclarationError, IncrementalLoadError, SourceUnreadable
from resources.lake import Lake

REPLAY_TAG = "incload/replay"
"""The tag of a run that replays the quarantine of its partitions instead of reading their source; its value is why."""
NO_REASON = "-"
"""The value of the tag if no reason is given, because Dagster keeps no empty tags."""
LANDINGS = 5
_SENSOR_TAG = "dagster/sensor_name"


def unreplayable(table: Table) -> str:
    """Why rejected rows of a table cannot be judged again; '' if they can."""
    if table.contract.protections and not table.source.is_text:
        return f"{table.source} gives typed values, and of a table with protected columns only texts are kept"
    return table.source.unreadable_payloads(_fields(table))


def refuse_unreplayable(table: Table) -> None:
    """Refuses a table whose source cannot parse the payloads of rejected rows.

    Raises:
        SourceUnreadable: With the source, and what to do instead.
    """
    if why := unreplayable(table):
        raise SourceUnreadable(
            f"{table.name}: its rejected rows cannot be judged again: {why}",
            rule="a replay parses the payloads of rejected rows, and never guesses what they do not tell",
            remedy=f"load their windows from the source: incload load {table.name} --partitions KEYS",
        )


def replay_window(
    spark: SparkSession,
    table: Table,
    lake: Lake,
    window: Window,
    *,
    run_id: str = "",
    info: Callable[[str], None] = lambda _: None,
) -> LoadReport:
    """Judges the rejected rows of a window again, and merges those that now pass.

    Args:
        spark: A session used by this replay only, because the fence is a session setting.
        table: The declaration.
        lake: The lake with the table.
        window: The window.
        run_id: The run, recorded in the window record and the commits.
        info: Logs one line for each step.

    Raises:
        SourceUnreadable: The source cannot parse the payloads.
        ContractViolation: Accepted rows collide with rows that now pass, so that too many are rejected.
        IncrementalLoadError: The window was never loaded, or is held; or an error of any other step.

    Example:
        >>> replay_window(spark, orders, lake, window).merged.inserted  # doctest: +SKIP
        25
    """
    refuse_unreplayable(table)
    load = LoadContext(spark, table, lake.followed(), run_id, info)
    with load.phases.timed("prepare"):
        refuse_misplaced(load, [window])
        ensure_tables(load)
        call_off_ingestions(load, window)
    landed = _land(load, window)
    with load.phases.timed("prepare"):
        call_off_merges(load, window)
    # in full: a replay that was killed after its landing is repeated by this one, which may find nothing to land
    applied = apply_changes(load, (window,), app_id(table, window), is_again=lambda _: True)
    return report_of(load, applied, window, ingested=landed)


def audit_replay(lake: Lake, table: Table, partitions: Sequence[str], run: dg.DagsterRun) -> None:
    """Records in the audit that a person replayed partitions; what a sensor asks for is no action of a person."""
    if _SENSOR_TAG not in run.tags:
        because = run.tags[REPLAY_TAG]
        entry = AuditEntry(
            action="replay",
            table=table.name,
            partitions=partitions,
            actor=actor_of(run),
            because="" if because == NO_REASON else because,
            run_id=run.run_id,
        )
        record(lake, entry)


def _fields(table: Table) -> list[str]:
    return [*table.columns, *table.control_fields]


def _land(load: LoadContext, window: Window) -> bool:
    """Lands the window with its rejected rows judged again; whether there was anything to judge."""
    table, log, held_off = load.table, load.log, False
    for _ in range(LANDINGS):
        at = log.open()
        before = window_records_of(at, only=[window.key]).get(window.key)
        if before is None or before.held is not None:
            raise IncrementalLoadError(
                f"{table.name} {window.key}: " + ("it was never loaded" if before is None else f"it is {before.hold}"),
                rule="a replay judges the rejected rows of a loaded window again, and leaves held windows alone",
                remedy=f"load it: incload load {table.name} --partitions {window.key}"
                if before is None
                else f"release it first: incload release {table.name} --partitions {window.key}",
            )
        was_corrected = window.key in corrected_at(load.lake, table)
        if not before.rejected and not was_corrected:
            return False
        if before.compacted_at is not None and not held_off:
            hold_off(load)
            held_off = True
            continue  # a landing has to start from the log after any removal
        fence = at.transaction_version(ingestion_app_id(table, window)) or 0
        ingestion = Ingestion(window, before.as_position(), before, at.version(), False, fence)
        with load.phases.timed("ingest"):
            tune_ingest(load.spark, at, [window.key], 0)
            if _land_once(load, ingestion, before, was_corrected=was_corrected):
                return True
    raise ConcurrentLoad(
        f"{table.name} {window.key}: other loads of the window committed first in each of {LANDINGS} attempts",
        rule="a replay starts again from what another load has landed, a bounded number of times",
        remedy="try again",
    )


def _land_once(load: LoadContext, ingestion: Ingestion, before: WindowRecord, *, was_corrected: bool) -> bool:
    """One attempt; whether it was committed."""
    table, window = load.table, ingestion.window
    former = load.log.read(load.spark, ingestion.log_version, [window.key])
    alone = validates_each_alone(table) and not was_corrected
    rejected, with_payload = former.filter(F.col("_kind") == REJECTED), F.col("_payload").isNotNull()
    staged = Staged(load.log, load.spark, [window.key])
    try:
        good = former.filter(F.col("_kind").isin(*UPSERTS, DELETE, TRUNCATE))
        accepted = None if alone else good.filter(~with_payload)
        judged = rejected.unionByName(good.filter(with_payload)) if was_corrected else rejected
        staged.write(_judged(load, window, judged, accepted), load.log.validated)
        if unparsed := before.rejected - _judgeable(rejected, table).count():
            staged.write(rejected.filter(~_can_be_judged(table)), load.log.validated)
            load.info(f"{table.name} {window.key}: {unparsed} rejected rows keep no record, and stay as they are")
        facts = facts_of(staged.read(), table, [window])[window.key]
        if alone:
            others = replace(before, rows_read=before.rows_read - before.rejected, rejected=0)
            _check_count(table, window, before.rejected, facts.rows)
            facts = replace(with_before(load, others, facts), replaced=before.replaced)
        else:
            gone = before.skipped + before.erased + before.removed
            _check_count(table, window, before.rows_read - gone, facts.rows)
            facts = _with_former(load, ingestion, staged, former, facts)
            facts = replace(facts, rows=facts.rows + gone, skipped=before.skipped, erased=facts.erased + before.erased)
            if facts.rejected > before.rejected:
                check_threshold(staged.read(), table, window, facts.rows, facts.rejected)
        passed = before.rejected - facts.rejected
        load.info(f"{table.name} {window.key}: judged {before.rejected} rejected rows again, {passed} pass")
        landed = _record(load, ingestion, before, facts)
        return commit(
            load,
            staged,
            {window.key: landed},
            ingestion_app_id(table, window),
            landed.landing,
            note=f"replayed {window.key}, run {load.run_id}",
            base=before if alone else None,
            anew=[REJECTED] if alone else [],
        )
    finally:
        staged.discard()


def _can_be_judged(table: Table) -> Column:
    """Whether a rejected row keeps the whole record: it could be parsed, or it is JSON, which shows by itself."""
    if table.contract.protections:
        return is_kept_protected()
    first = F.element_at("_reasons", 1)
    return F.col("_payload").isNotNull() & ~F.coalesce((F.size("_reasons") == 1) & first.rlike(UNPARSED), F.lit(False))


def _judgeable(rejected: DataFrame, table: Table) -> DataFrame:
    return rejected.filter(_can_be_judged(table))


def records_of_payloads(kept: DataFrame, table: Table) -> DataFrame:
    """The records of the payloads that rejected rows keep, parsed by the source, or as protected before.

    Args:
        kept: The rejected rows, as the log has them.
        table: The declaration.
    """
    if table.contract.protections:
        return protected_records(kept.filter(is_kept_protected()), table)
    rows = kept.filter(F.col("_payload").isNotNull()).select("_payload", "_source", "_window")
    return table.source.read_payloads(rows, _fields(table))


def _judged(load: LoadContext, window: Window, rejected: DataFrame, accepted: DataFrame | None) -> DataFrame:
    """The rejected rows as the present contract judges them, and the accepted rows that were judged beside them."""
    table = load.table
    records = records_of_payloads(_judgeable(rejected, table), table)
    with broken_condition_named(records, table, window.key):
        corrections = corrections_of(load.lake, table, [window.key])
        deny = deny_list_of(load.lake, table)
        return validate(records, table, [window], beside=accepted, corrections=corrections, deny=deny)


def _with_former(load: LoadContext, ingestion: Ingestion, staged: Staged, former: DataFrame, facts: Facts) -> Facts:
    """Stages what depends on the whole window: the marks of full extracts, and markers of keys that lost a row."""
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


def _check_count(table: Table, window: Window, expected: int, found: int) -> None:
    if expected != found:
        raise DeclarationError(
            f"{table.name} {window.key}: a replay made {found} rows of {expected}; nothing was committed",
            rule="each rejected row becomes one row, and the function is row-wise",
            remedy="do not filter, explode, join or aggregate in the function",
        )


def _record(load: LoadContext, ingestion: Ingestion, before: WindowRecord, facts: Facts) -> WindowRecord:
    """The window record: of the same position, and of the code that validated the accepted rows."""
    judged_all = before.rows_read == before.rejected
    return replace(
        before,
        former=before.landing,
        landing=max(before.landing, ingestion.fence) + 1,
        code_version=load.table.code_version if judged_all else before.code_version,
        run_id=load.run_id,
        landed_at=windows.now(),
        rows_read=facts.rows,
        rejected=facts.rejected,
        skipped=facts.skipped,
        erased=facts.erased,
        replaced=facts.replaced,
        partitions=facts.partitions,
        first_sequence=facts.first_sequence,
    )
