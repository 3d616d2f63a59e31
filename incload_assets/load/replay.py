"""Replay of the quarantine: the rejected rows of a window are validated again, by the present contract and function.

The records come from the payloads that the log keeps, so the source is not needed, not even a file that is gone. Rows
that now pass become changes of their window, at their old places; the others stay rejected, with their present reasons.
Rows that people have accepted keep their payloads, too, and are validated again, in case that was undone.

The window's other accepted rows stay as they are. So its record keeps the code version of these rows, and says that the
present code has validated the window only if it has validated all rows.
"""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import DELETE, REJECTED, TRUNCATE, UPSERTS
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.decisions import accepted_rows, decided_at
from incload_assets.change_log.payloads import keeps_payload
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.ingest.condition_errors import broken_condition_named
from incload_assets.ingest.facts import content_sum, facts_of
from incload_assets.ingest.gains import content_with, validates_each_alone, with_before
from incload_assets.ingest.validate import validate
from incload_assets.load.landing_again import check_count, facts_of_window, land_again, present_landing
from incload_assets.load.load import LoadReport
from incload_assets.load.revision import Revision, revise_and_merge
from incload_assets.load.validatable import can_be_validated, fields_of_payloads, records_of_payloads, refuse_expired
from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.wording import several
from incload_assets.protection.erasures import deny_list_of


def unreplayable(table: Table) -> str:
    """Why rejected rows of a table cannot be validated again; '' if they can."""
    if table.contract.protections and not table.source.is_text:
        return f"{table.source} gives typed values, and of a table with protected columns only texts are kept"
    return table.source.unreadable_payloads(fields_of_payloads(table))


def refuse_unreplayable(table: Table) -> None:
    """Refuses a table whose source cannot parse the payloads of rejected rows."""
    if why := unreplayable(table):
        raise SourceUnreadable(
            f"{table.name}: its rejected rows cannot be validated again: {why}",
            rule="a replay uses only what the payloads of rejected rows keep; it never guesses missing values",
            remedy=f"load their windows from the source: incload load {table.name} --partitions KEYS",
        )


def replay_window(load: LoadContext, window: Window) -> LoadReport:
    """Validates the rejected rows of a window again, and merges those that now pass."""
    refuse_unreplayable(load.table)
    return revise_and_merge(load, window, _land, doing="replay")


def _land(revision: Revision) -> bool | None:
    """One attempt; whether it was committed, or None if there is nothing to validate."""
    load, table, window, staged = revision.load, revision.load.table, revision.window, revision.staged
    before = present_landing(revision, rule="a replay validates the rejected rows of a loaded window again")
    was_decided = window.key in decided_at(load.lake, table)
    if not before.rejected and not was_decided:
        return None
    if revision.waits_for_removals:
        return False
    former = revision.former
    alone = validates_each_alone(table) and not was_decided
    rejected, with_payload = former.filter(F.col("_kind") == REJECTED), keeps_payload()
    good = former.filter(F.col("_kind").isin(*UPSERTS, DELETE, TRUNCATE))
    accepted = None if alone else good.filter(~with_payload)
    validated = rejected.unionByName(good.filter(with_payload)) if was_decided else rejected
    staged.write(validated_again(load, window, validated, accepted), load.log.validated)
    validatable, content = _counted(rejected, table)
    if unparsed := before.rejected - validatable:
        if unparsed == before.rejected and not was_decided:
            refuse_expired(table, window, rejected)
        staged.write(rejected.filter(~can_be_validated(table)), load.log.validated)
        load.info(f"{table.name} {window.key}: {several(unparsed, 'rejected row')} without a record must stay rejected")
    facts = facts_of(staged.read(), table, [window])[window.key]
    if alone:
        rows = before.rows_read - before.rejected
        others = replace(before, rows_read=rows, rejected=0, content=content_with(before, -content))
        check_count(table, window, before.rejected, facts.rows)
        facts = replace(with_before(load, others, facts), replaced=before.replaced)
    else:
        facts = facts_of_window(revision, before, facts, validated=before.code_version)
    passed = before.rejected - facts.rejected
    load.info(f"{table.name} {window.key}: validated {several(before.rejected, 'rejected row')} again, {passed} pass")
    validated_all = before.rows_read == before.rejected
    version = table.code_version if validated_all else before.code_version
    return land_again(revision, before, facts, validated=version, note=f"replayed {window.key}", adds=alone)


def _counted(rejected: DataFrame, table: Table) -> tuple[int, int]:
    """The number of rejected rows that can be validated, and the content hash of all."""
    counted = rejected.agg(F.count(F.when(can_be_validated(table), 1)), content_sum(table)).head()
    assert counted is not None
    return counted[0], int(counted[1])


def validated_again(load: LoadContext, window: Window, rejected: DataFrame, accepted: DataFrame | None) -> DataFrame:
    """The rejected rows as the present contract validates them, with the accepted rows that may collide with them."""
    table = load.table
    records = records_of_payloads(rejected.filter(can_be_validated(table)), table)
    with broken_condition_named(records, table, window.key):
        decided = accepted_rows(load.lake, table, [window.key], load.info)
        deny = deny_list_of(load.lake, table)
        return validate(records, table, [window], beside=accepted, accepted=decided, deny=deny)
