"""Landings of a window whose rows come from the log, and not from the source: numbered and fenced like any other."""

from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from incload_assets.change_log.change import REJECTED
from incload_assets.change_log.payloads import payloads_read_at
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.ingest.carry_over import replaced_rows
from incload_assets.ingest.facts import Facts, facts_of
from incload_assets.ingest.full_extracts import extracts_of, marks_of
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.ingest.quarantine import check_threshold
from incload_assets.load.revision import Revision
from incload_assets.platform.errors import DeclarationError, IncrementalLoadError
from incload_assets.platform.sql import combined
from incload_assets.platform.wording import several
from incload_assets.writes.strategy import strategy_of


def present_landing(revision: Revision, *, rule: str) -> WindowRecord:
    """The record of the landing that is landed again; without one, or if it is held, an error with this ``rule``."""
    table, window, before = revision.load.table, revision.window, revision.before
    if before is None or before.held is not None:
        raise IncrementalLoadError(
            f"{table.name} {window.key}: " + ("it was never loaded" if before is None else f"it is {before.hold}"),
            rule=f"{rule}, and leaves held windows alone",
            remedy=f"load it: incload load {table.name} --partitions {window.key}"
            if before is None
            else f"release it first: incload release {table.name} --partitions {window.key}",
        )
    return before


def facts_of_window(revision: Revision, before: WindowRecord, facts: Facts, *, validated: str) -> Facts:
    """The facts of a window whose rows are all staged, with what depends on the whole window staged as well.

    ``validated`` is the version of the code that has validated the rows that stay as they are.
    """
    table, window = revision.load.table, revision.window
    gone = before.skipped + before.erased + before.removed
    check_count(table, window, before.rows_read - gone, facts.rows)
    facts = _with_former(revision, revision.ingestion(replace(before, code_version=validated)), facts)
    facts = replace(facts, rows=facts.rows + gone, skipped=before.skipped, erased=facts.erased + before.erased)
    if facts.rejected > before.rejected:
        check_threshold(revision.staged.read(), table, window, facts.rows, facts.rejected)
    return facts


def _with_former(revision: Revision, ingestion: Ingestion, facts: Facts) -> Facts:
    """Stages the marks of full extracts, and markers of keys that lost a row."""
    load, staged, former = revision.load, revision.staged, revision.former
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
    """Checks that each row became one row: the function has to be row-wise."""
    if expected != found:
        raise DeclarationError(
            f"{table.name} {window.key}: {several(expected, 'row')} of the log became {found}; nothing was committed",
            rule="each row becomes one row, and the function is row-wise",
            remedy="do not filter, explode, join or aggregate in the function",
        )


def land_again(
    revision: Revision, before: WindowRecord, facts: Facts, *, validated: str, note: str, adds: bool = False
) -> bool:
    """Lands the staged rows at the same position, replacing rejected rows alone if ``adds``; whether it did."""
    load, window = revision.load, revision.window
    now = replace(
        before,
        former=before.landing,
        code_version=validated,
        run_id=load.run_id,
        landed_at=windows.now(),
        **facts.recorded,
    )
    read_at = payloads_read_at(load.log.open(), [window.key])
    return revision.commit(now, note=note, adds=adds, replacing=[REJECTED] if adds else [], read_at=read_at)
