"""Fill: columns that the contract declares now get the values that the log rescued before, without the source.

The accepted rows of a window are filled by :mod:`incload_assets.ingest.rescued`, its rejected rows are validated again
from their records as in a replay, and the window is landed again with all of them. Then it is merged and reconciled.

The window's record says that the present code has validated the window if the code differs from the former one by the
filled columns alone. Otherwise the other columns are still what the former code made of the records.
"""

import json
from collections.abc import Collection, Iterator, Sequence

import pyarrow.compute as pc
import sqlglot
from pyspark.sql import functions as F
from sqlglot import exp

from incload_assets.change_log.change import DELETE, REJECTED, TRUNCATE, UPSERTS
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.payloads import keeps_payload
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.contract.contract import MASK
from incload_assets.declaration.declare import version_without
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window, known_windows
from incload_assets.ingest.facts import facts_of
from incload_assets.ingest.rescued import changed_by_function, filled, is_fillable, rescued_in
from incload_assets.load.landing_again import facts_of_window, land_again, present_landing
from incload_assets.load.load import LoadReport
from incload_assets.load.replay import unreplayable, validated_again
from incload_assets.load.revision import Revision, revise_and_merge
from incload_assets.load.validatable import can_be_validated
from incload_assets.platform.errors import DeclarationError, SourceUnreadable, WindowCompacted
from incload_assets.platform.lake import Lake, data_files
from incload_assets.platform.lake_rows import dataset_of
from incload_assets.platform.wording import several


def unfillable(table: Table) -> str:
    """Why columns of a table cannot be filled from its log; '' if they can."""
    return (
        "of fields that its contract does not declare the log keeps the names alone, as it has protected columns"
        if table.contract.protections
        else "its changes may give rows new keys (moved_when)"
        if table.changes.moved_when
        else unreplayable(table)
        or ("" if table.source.is_text else f"{table.source} does not give every value as a text")
    )


def refuse_unfillable(table: Table) -> None:
    """Refuses a table whose rows cannot be filled from the log."""
    if why := unfillable(table):
        raise SourceUnreadable(
            f"{table.name}: its columns cannot be filled from the log: {why}",
            rule="a fill uses what the log has of a record, and never guesses what it does not tell",
            remedy=f"load the partitions from the source: incload load {table.name} --partitions KEYS",
        )


def windows_to_fill(table: Table, lake: Lake) -> dict[str, list[str]]:
    """The windows with rescued fields whose values a declared column lacks: the names, by partition key."""
    log = lake.delta(lake.log_uri(table.key.path))
    if log is None:
        return {}
    known = {name for name in table.columns if name in log.schema().to_arrow().names}
    found: dict[str, set[str]] = {}
    batches = dataset_of(log, data_files(log)).to_batches(
        columns=["_window", "_rescued", *sorted(known)], filter=pc.field("_rescued").is_valid()
    )
    for batch in batches:
        for row in batch.to_pylist():
            lacking = [
                name
                for name, value in json.loads(row["_rescued"]).items()
                if name in table.columns and row.get(name) is None and value != MASK
            ]
            if lacking:
                found.setdefault(row["_window"], set()).update(lacking)
    return {window.key: sorted(found[window.key]) for window in known_windows(table.partitions_def, list(found))}


def fill_window(load: LoadContext, window: Window) -> LoadReport:
    """Fills columns of a window's rows from their rescued fields, without the source; repeated it does nothing more.

    Raises:
        SourceUnreadable: The log does not hold enough of the records.
        WindowCompacted: Changes of the window are gone from the log.
        DeclarationError: The function changes rows of the log, or a condition or the sequence uses a filled column.
        ContractViolation: Too many rows do not fit.
    """
    refuse_unfillable(load.table)
    return revise_and_merge(load, window, _land, doing="fill")


def _refuse_compacted(table: Table, window: Window, before: WindowRecord) -> None:
    if before.compacted_at is not None:
        raise WindowCompacted(
            f"{table.name} {window.key}: its log was compacted on {before.compacted_at:%Y-%m-%d}, and changes that it "
            "superseded may be gone",
            rule="a fill lands all changes of a window again, and the log has to have them",
            remedy=f"if the source still has them: incload load {table.name} --partitions {window.key} "
            "--rewrite-compacted",
        )


def _land(revision: Revision) -> bool | None:
    """One attempt; whether it was committed, or None if the window has nothing to fill."""
    load, table, window, staged = revision.load, revision.load.table, revision.window, revision.staged
    before, former = present_landing(revision, rule="a fill uses the log of a loaded window"), revision.former
    _refuse_compacted(table, window, before)
    found = rescued_in(former, table, validated=before.code_version == table.code_version)
    if not found.due:
        load.info(f"{table.name} {window.key}: no rescued field that its columns lack")
        return None
    names, rows = found.columns, former.filter(is_fillable(table))
    _refuse_other_uses(table, window, names, changed_by_function(rows, table, names))
    rejected, has_record = former.filter(F.col("_kind") == REJECTED), keeps_payload()
    corrected = former.filter(F.col("_kind").isin(*UPSERTS, DELETE, TRUNCATE) & has_record)
    again = rejected.filter(can_be_validated(table)).unionByName(corrected)
    staged.write(validated_again(load, window, again, filled(rows, table, names)), load.log.validated)
    staged.write(rejected.filter(~can_be_validated(table) & ~is_fillable(table)), load.log.validated)
    facts = facts_of(staged.read(), table, [window])[window.key]
    is_present = before.code_version in (table.code_version, version_without(table, names))
    version = table.code_version if is_present else before.code_version
    # with the present code the other columns are what they would be, so that only keys of filled rows lose a row
    facts = facts_of_window(revision, before, facts, validated=version)
    load.info(
        f"{table.name} {window.key}: filled {', '.join(names)} from rescued fields, {facts.rejected} of "
        f"{several(facts.rows, 'row')} in quarantine"
        + ("" if is_present else "; other columns are as former code made them")
    )
    return land_again(revision, before, facts, validated=version, note=f"filled {window.key}")


def _refuse_other_uses(table: Table, window: Window, names: Collection[str], changed: Sequence[str]) -> None:
    """Refuses columns that decide about more than themselves."""
    in_conditions = sorted({*names} & {*_in_conditions(table)})
    in_order = [name for name in table.changes.sequence_by if name in names]
    if not (changed or in_conditions or in_order):
        return
    uses = [f"its function changes {', '.join(changed)} of rows of the log"] if changed else []
    uses += [f"conditions of its changes read {', '.join(in_conditions)}"] if in_conditions else []
    uses += [f"its changes are ordered by {', '.join(in_order)}"] if in_order else []
    raise DeclarationError(
        f"{table.name} {window.key}: {', '.join(names)} cannot be filled from the log: {'; '.join(uses)}",
        rule="the log has what the function returned, and not the records: a fill is of columns that it passes on",
        remedy=f"load the partition from its source: incload load {table.name} --partitions {window.key}",
    )


def _in_conditions(table: Table) -> Iterator[str]:
    changes = table.changes
    for condition in (changes.delete_when, changes.truncate_when, changes.snapshot_when, changes.skip_when):
        if condition is not None:
            for column in sqlglot.parse_one(condition, dialect="spark").find_all(exp.Column):
                yield column.parts[0].name
