"""Full extracts that replace earlier rows: which one is the newest, and whether it is suspiciously small."""

from pyspark.sql import functions as F

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.window import Window
from incload_assets.ingest.facts import Facts
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.platform.errors import ContractViolation


def ingested_windows(load: LoadContext, log_version: int) -> list[Window]:
    """The windows in the log, oldest first.

    The newest one holds an extract: newer windows whose first load was undone are left out, unless there are no others.
    """
    delta = load.lake.delta(load.log.uri, log_version)
    assert delta is not None
    known = load.table.known_windows(load.log.ingested_keys(delta))
    for place in range(len(known), 0, -1):
        newest = known[place - 1].key
        if not load.log.records_in(delta, only=[newest])[newest].is_withdrawn:
            return known[:place]
    return known


def guard_shrinkage(
    load: LoadContext, ingestion: Ingestion, facts: Facts, max_shrink: float, scope: str | None = None
) -> None:
    """Stops a full extract that has lost too many rows, because it is more likely truncated than correct.

    The extract is compared with the earlier ingestion of its window; for a new window, with the extract of the window
    before it; if there is none, with the table's rows in ``scope`` (a SQL condition; None: all). An extract older than
    an ingested one is accepted, as it removes no rows.
    """
    table, window = load.table, ingestion.window
    ingested = ingested_windows(load, ingestion.log_version)
    if max_shrink >= 1 or any(other > window for other in ingested):
        return
    earlier = [other for other in ingested if other < window]
    before = ingestion.before
    if before is not None:
        place, rows_before = "the window", _accepted(before)
    elif earlier:
        former = load.log.record(earlier[-1].key, ingestion.log_version)
        assert former is not None
        place, rows_before = f"the extract before it, {earlier[-1].key},", _accepted(former)
    else:
        place, rows_before = "the table", load.newest_rows().filter(F.expr(scope or "true")).count()
    rows_now = facts.rows - facts.rejected
    if rows_before - rows_now > max_shrink * rows_before:
        raise ContractViolation(
            f"{table.name} {window.key}: the extract has {rows_now} acceptable rows, {place} had {rows_before}",
            rule=f"it may lack at most {max_shrink:.0%} of them (max_shrink); nothing was replaced",
            remedy="deliver the extract again in full; if so few rows are correct, declare "
            f"{type(table.write).__name__}(max_shrink=1.0) for this load",
        )


def _accepted(record: WindowRecord) -> int:
    return record.rows_read - record.rejected
