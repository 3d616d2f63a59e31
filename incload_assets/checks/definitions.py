"""The asset checks of a table, as Dagster definitions."""

from collections.abc import Callable, Iterator

import dagster as dg

from incload_assets.checks import freshness, gaps, quarantine, reconciliation, source_files, uniqueness, volume
from incload_assets.checks.look import Look, look
from incload_assets.loading import window as windows
from incload_assets.loading.declaration import Table
from incload_assets.operations.status import rows_of
from resources.lake import Lake

LARGE = 5_000_000
"""Rows above which the keys of the whole table are not read with every load."""

CHEAP: dict[str, tuple[str, Callable[[Look], dg.AssetCheckResult]]] = {
    freshness.NAME: (freshness.DESCRIPTION, freshness.freshness),
    gaps.NAME: (gaps.DESCRIPTION, gaps.gaps),
    volume.NAME: (volume.DESCRIPTION, volume.volume),
    quarantine.NAME: (quarantine.DESCRIPTION, quarantine.quarantine),
    source_files.NAME: (source_files.DESCRIPTION, source_files.source_files),
}
"""The checks that need neither Spark nor the table's rows, by name."""


def checks_for(table: Table) -> list[dg.AssetChecksDefinition]:
    """All checks of a table; none blocks, because a load reconciles before its checkpoint.

    Freshness, gaps, volume, quarantine and source files are one step without Spark, which looks once at source, log and
    Dagster: cheap enough to run with every load. Uniqueness reads the key columns of the table; with a load it runs for
    tables of up to 5 million rows. Reconciliation reads the source again, and never runs with a load.

    Args:
        table: The declaration.

    Example:
        >>> [check.check_specs_by_output_name for check in checks_for(table)]  # doctest: +SKIP
    """
    return [_cheap(table), _uniqueness(table), _reconciliation(table)]


def _step(table: Table, name: str) -> str:
    return f"{'__'.join(table.key.path)}__{name}"


def _cheap(table: Table) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name=_step(table, "checks"),
        specs=[dg.AssetCheckSpec(name, asset=table.key, description=about) for name, (about, _) in CHEAP.items()],
        can_subset=True,
        required_resource_keys={"lake"},
    )
    def check(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        seen = look(context.instance, table, context.resources.lake, windows.now())
        for key in sorted(context.selected_asset_check_keys, key=lambda key: list(CHEAP).index(key.name)):
            yield CHEAP[key.name][1](seen)

    return check


def _uniqueness(table: Table) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name=_step(table, uniqueness.NAME),
        specs=[dg.AssetCheckSpec(uniqueness.NAME, asset=table.key, description=uniqueness.DESCRIPTION)],
        can_subset=True,  # so that the result may be left out
        required_resource_keys={"spark", "lake"},
    )
    def check(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        if _with_load(context, table) and _is_large(table, context.resources.lake):
            context.log.info(f"{table.name} has more than {LARGE:,} rows: uniqueness runs in runs of its own only")
            return
        with context.resources.spark.session() as spark:
            yield uniqueness.uniqueness(spark, table, context.resources.lake)

    return check


def _reconciliation(table: Table) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name=_step(table, reconciliation.NAME),
        specs=[dg.AssetCheckSpec(reconciliation.NAME, asset=table.key, description=reconciliation.DESCRIPTION)],
        can_subset=True,  # so that the result may be left out
        required_resource_keys={"spark", "lake"},
    )
    def check(
        context: dg.AssetCheckExecutionContext, config: reconciliation.ReconciliationConfig
    ) -> Iterator[dg.AssetCheckResult]:
        if _with_load(context, table):
            context.log.info(f"{table.name}: the load has just reconciled; reconciliation runs in runs of its own only")
            return
        lake = context.resources.lake
        seen = look(context.instance, table, lake, windows.now())
        with context.resources.spark.session() as spark:
            yield reconciliation.reconciliation(spark, seen, config, context.log.info)

    return check


def _with_load(context: dg.AssetCheckExecutionContext, table: Table) -> bool:
    """Whether the run also materializes the table: unless told otherwise, a run includes every check of its assets."""
    return table.key in context.job_def.asset_layer.selected_asset_keys


def _is_large(table: Table, lake: Lake) -> bool:
    delta = lake.delta(lake.table_uri(table.key.path))
    rows = None if delta is None else rows_of(delta)
    return rows is None or rows > LARGE
