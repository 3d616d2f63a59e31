"""The page of one table: how late it is, its last loads phase by phase, errors, quarantine and checks."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

import dagster as dg

from incload_assets.history.load_row import PHASES, LoadRow, landings_of
from incload_assets.monitoring.dashboard.drawing import Links, drawn
from incload_assets.monitoring.dashboard.grid import LABELS
from incload_assets.monitoring.dashboard.loads import changed, phases, reason
from incload_assets.monitoring.dashboard.page import notices
from incload_assets.monitoring.dashboard.trace_page import fields_of
from incload_assets.monitoring.dashboard.view import View
from incload_assets.monitoring.facts import TableFacts
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.failures import masked, without_texts
from incload_assets.platform.lake import Lake
from incload_assets.platform.wording import number, size
from incload_assets.quarantine.quarantine import RejectedRow, newest_rejected

SHOWN = 60
"""The number of loads that are listed."""


def table_page(facts: TableFacts, view: View, links: Links, rejected: Sequence[RejectedRow] | str = ()) -> str:
    """The page of a table, with its newest rejected rows, or why they cannot be read."""
    newest_first = [*reversed(facts.recent)]
    failed: dict[str, list[LoadRow]] = defaultdict(list)
    for row in newest_first:
        if row.outcome == "failed":
            failed[row.error_class].append(row)

    return drawn(
        "table",
        view.at,
        links,
        title=facts.table.name,
        about=facts.table.function.__doc__,
        notices=notices(view),
        facts=facts,
        table=facts.table,
        seen=facts.watch.seen,
        waiting=_not_loaded(facts),
        lag=_lag(facts),
        rows=newest_first[:SHOWN],
        longest=max((row.seconds for row in newest_first[:SHOWN]), default=0.0),
        again={window: found for window, found in landings_of(newest_first).items() if len(found) > 1},
        failed=failed,
        quarantined=_quarantined(facts),
        reasons=_reasons(facts),
        rejected=rejected,
        fields=fields_of(facts.table),
        checks=sorted(facts.checks.items(), key=lambda item: (item[1].passed, item[0])),
        phases=PHASES,
        labels=LABELS,
        chart=phases,
        changed=changed,
        reason=reason,
        masked=masked,
    )


def _not_loaded(facts: TableFacts) -> list[tuple[str, str, datetime | None, str]]:
    """The windows that are not loaded: their state, when they were first seen, and why."""
    seen = facts.watch.seen
    if seen is None:
        return []
    stopped = [(key, "waits for a person", None, masked(why)) for key, why in seen.stopped.items()]
    failing = [(key, "failed", None, cause) for key, cause in seen.failing.items() if key not in seen.stopped]
    return [*stopped, *failing, *((key, "", datetime.fromisoformat(at), "") for key, at in seen.pending.items())]


def _lag(facts: TableFacts) -> list[tuple[str, str, bool, str, datetime | None]]:
    """The data that loads have not read yet: where, how much, whether it is too much, the target, when it was seen."""
    rows: list[tuple[str, str, bool, str, datetime | None]] = []
    seen, slo, slot = facts.watch.seen, facts.table.slo, facts.checks.get("headroom")
    if seen is not None and (records := seen.waiting_records) is not None:
        late = records > slo.lag_records
        rows.append(("records", number(records), late, f"up to {number(slo.lag_records)}", seen.time))
        behind = sorted(seen.waiting_by_part.items(), key=lambda item: -item[1])
        rows += [(_named(part), number(count), False, "", None) for part, count in behind]
    if slot is not None and "bytes_kept" in slot.values:
        kept = float(slot.values["bytes_kept"])
        target = f"up to {size(slo.slot_bytes)}"
        rows.append(("log kept for the replication slot", size(kept), kept > slo.slot_bytes, target, slot.at))
    return rows


def _named(part: str) -> str:
    """A topic partition, after the name of its source if the table has several; some of these have no partitions."""
    source, _, partition = part.rpartition(" ")
    return f"{source}: topic partition {partition}".removeprefix(": ") if partition.isdecimal() else part


def _quarantined(facts: TableFacts) -> list[LoadRow]:
    """The present load of each window that has rows in quarantine, the newest first."""
    loaded = [rows[0] for rows in landings_of([*reversed(facts.recent)]).values()]
    return [row for row in loaded if row.quarantined]


def _reasons(facts: TableFacts) -> list[tuple[str, str, str]]:
    """The reasons that the check ``quarantine`` counted, in which values are left out or masked."""
    check = facts.checks.get("quarantine")
    found = check.values.get("reasons") if check else None
    rows = [record.data for record in found.records] if isinstance(found, dg.TableMetadataValue) else []
    return [(str(row.get("reason")), str(row.get("rows")), str(row.get("for example"))) for row in rows]


def rejected_of(facts: TableFacts, lake: Lake) -> Sequence[RejectedRow] | str:
    """The newest rejected rows of a table, or why they cannot be read; if loads rejected nothing, no log is read."""
    windows = [row.window for row in _quarantined(facts)]
    try:
        with without_texts(f"{facts.table.name}: rejected rows"):
            return newest_rejected(facts.table, lake, windows) if windows else ()
    except IncrementalLoadError as error:
        return masked(str(error))
