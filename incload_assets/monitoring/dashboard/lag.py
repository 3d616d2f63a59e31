"""How far a table is behind its source: records by topic partition and the log of a slot, each with its target."""

from datetime import datetime

from incload_assets.monitoring.dashboard.human import number, size
from incload_assets.monitoring.dashboard.markup import Child, Markup
from incload_assets.monitoring.dashboard.parts import listing, right, section, since
from incload_assets.monitoring.facts import TableFacts


def lag(facts: TableFacts, at: datetime) -> Markup | None:
    """The part of a table's page about its lag; None if its source knows none.

    Args:
        facts: The table's facts.
        at: The present instant, aware.
    """
    rows: list[list[Child]] = []
    seen, slo, slot = facts.watch.seen, facts.table.slo, facts.checks.get("headroom")
    if seen is not None and (records := seen.waiting_records) is not None:
        late, target = records > slo.lag_records, f"up to {number(slo.lag_records)}"
        rows.append(["records", right(number(records), worrying=late), right(target), since(seen.time, at)])
        behind = sorted(seen.waiting_by_part.items(), key=lambda item: -item[1])
        rows += [[_named(part), right(number(count)), right(""), ""] for part, count in behind]
    if slot is not None and "bytes_kept" in slot.values:
        kept, target = float(slot.values["bytes_kept"]), f"up to {size(slo.slot_bytes)}"
        cell = right(size(kept), worrying=kept > slo.slot_bytes)
        rows.append(["log kept for the replication slot", cell, right(target), since(slot.at, at)])
    if not rows:
        return None
    return section("Lag", listing("Lag", ["not read by a load", "now", "target", "seen"], rows, fold="lag"))


def _named(part: str) -> str:
    """A topic partition, after the name of its source if the table has several; some of these have no partitions."""
    source, _, partition = part.rpartition(" ")
    if not partition.isdecimal():
        return part
    return f"{source}: topic partition {partition}".removeprefix(": ")
