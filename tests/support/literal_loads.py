"""Rows of ``_loads`` and tables that nothing ever loaded, for tests of what is computed from them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame

from incload_assets.assets import Changes, Files, Freshness, incremental_asset
from incload_assets.assets.incremental import table_of
from incload_assets.declaration.slo import Criticality, Slo
from incload_assets.declaration.source import Source
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import window_of
from incload_assets.history.load_row import LoadRow
from incload_assets.monitoring.facts import TableFacts
from tests.support.tables import Item

HOURS6 = Freshness(within=timedelta(hours=6))


def table_with(
    partitions_def: dg.TimeWindowPartitionsDefinition,
    *,
    name: str = "guests",
    freshness: Freshness | None = HOURS6,
    slo: Slo = Slo(),  # noqa: B008 - immutable
    owners: tuple[str, ...] = (),
    criticality: Criticality = "normal",
    source: Source | None = None,
    contract: Any = Item,
    log_retention: timedelta | None = None,
) -> Table:
    """A declared table."""

    @incremental_asset(
        name=name,
        partitions_def=partitions_def,
        source=source or Files("{landing}/guests/{window:%Y-%m-%d}/*.json"),
        contract=contract,
        changes=Changes(keys=["id"], sequence_by=["seq"]),
        freshness=freshness,
        slo=slo,
        owners=list(owners),
        criticality=criticality,
        log_retention=log_retention,
    )
    def guests(changes: DataFrame) -> DataFrame:
        return changes

    table = table_of(guests)
    assert table is not None
    return table


def at(text: str) -> datetime:
    """An instant of 2026 in UTC, as month, day, hour and minute: ``01-05 10:30``."""
    return datetime.strptime(f"2026-{text}", "%Y-%m-%d %H:%M").replace(tzinfo=UTC)


def attempt(
    table: Table, key: str, ended: datetime, outcome: str = "loaded", *, asked: datetime | None = None, **more: Any
) -> LoadRow:
    """An attempt that a sensor requested a minute before its end; each has another run."""
    window = window_of(table.partitions_def, key)
    return LoadRow(
        table=table.name,
        window=key,
        window_start=window.start,
        window_end=window.end,
        due_at=window.end + table.due_after,
        outcome=outcome,  # type: ignore[arg-type]
        asked_at=asked or ended - timedelta(minutes=1),
        ended_at=ended,
        instance="here",
        event=round(ended.timestamp()) if outcome == "loaded" else 0,
        run_id=f"{table.name}-{key}-{ended.isoformat()}",
        **{"trigger": "sensor", "why": "new"} | more,
    )


def facts_of(table: Table, rows: list[LoadRow], **more: Any) -> TableFacts:
    """Facts with these rows, and nothing else unless it is given."""
    loaded = [row.ended_at for row in rows if row.outcome == "loaded"]
    return TableFacts(
        table=table,
        recent=sorted(rows, key=lambda row: row.ended_at),
        first=min(loaded, default=None),
        newest=max(loaded, default=None),
        **more,
    )
