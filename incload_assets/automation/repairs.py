"""Windows that the last reconciliation found wrong and that a load puts right: asked for once per finding."""

from collections.abc import Sequence
from dataclasses import replace

import dagster as dg

from incload_assets.checks import reconciliation
from incload_assets.checks.within_runs import last_verdict
from incload_assets.loading.declaration import Table
from incload_assets.loading.sources.base import Position
from incload_assets.operations.progress import WindowProgress

_PREFIX = "repair of "


def is_repair(fingerprint: str | None) -> bool:
    """Whether a window was asked for because of a finding, and not because of its source's position."""
    return fingerprint is not None and fingerprint.startswith(_PREFIX)


def with_repairs(
    instance: dg.DagsterInstance, table: Table, progress: Sequence[WindowProgress]
) -> list[WindowProgress]:
    """The progress, where loaded windows that are to be repaired have drifted, each finding being another position.

    Args:
        instance: Where verdicts and checkpoints are.
        table: The declaration.
        progress: As seen from source and checkpoints.
    """
    verdict = last_verdict(instance, dg.AssetCheckKey(table.key, reconciliation.NAME))
    listed = verdict and (verdict[1].metadata or {}).get(reconciliation.REPAIR)
    if verdict is None or not isinstance(listed, dg.JsonMetadataValue):
        return list(progress)
    found, wrong = verdict[0], set(listed.data or ())

    def is_wrong(window: WindowProgress) -> bool:
        if window.status != "loaded" or window.key not in wrong:
            return False
        loads = instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=table.key, asset_partitions=[window.key]), limit=1
        ).records
        return not loads or loads[0].timestamp < found.timestamp()

    asked = Position(f"{_PREFIX}{found:%Y-%m-%d %H:%M:%S.%f}", summary="found wrong by the reconciliation")
    return [replace(w, status="drifted", position=asked) if is_wrong(w) else w for w in progress]
