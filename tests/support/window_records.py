"""Windows that a log holds without a load, for tests of what only looks at logs and checkpoints."""

from collections.abc import Mapping
from datetime import UTC, datetime

import dagster as dg
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from incload_assets.change_log.change import CONTROL
from incload_assets.change_log.log import ChangeLog
from incload_assets.progress.checkpoint import DATA_VERSION_TAG

_CONTROL = pa.struct(
    [
        *((name, pa.string()) for name in ("fingerprint", "position", "summary", "code_version", "run_id")),
        *((name, pa.int64()) for name in ("landing", "rows_read", "rejected", "replaced")),
        ("landed_at", pa.timestamp("us", "UTC")),
    ]
)
_ROW = pa.schema([("_window", pa.string()), ("_kind", pa.string()), ("_control", _CONTROL)])


def land(log: ChangeLog, fingerprints: Mapping[str, str], details: Mapping[str, str] | None = None) -> None:
    """Have a log say that windows are ingested with these positions.

    Args:
        log: Of a table that no real load writes to.
        fingerprints: By partition key.
        details: The positions' details as JSON, by partition key; None: empty ones.
    """
    if not fingerprints:
        return
    record = {
        "summary": "", "code_version": log.table.code_version, "run_id": "", "landing": 1,
        "rows_read": 1, "rejected": 0, "replaced": 0, "landed_at": datetime.now(UTC),
    }  # fmt: skip
    rows = pa.Table.from_pylist(
        [
            {
                "_window": key,
                "_kind": CONTROL,
                "_control": {**record, "fingerprint": fingerprint, "position": (details or {}).get(key, "{}")},
            }
            for key, fingerprint in fingerprints.items()
        ],
        _ROW,
    )
    if DeltaTable.is_deltatable(log.uri):
        DeltaTable(log.uri).delete(f"_window IN ({', '.join(map(repr, fingerprints))})")
    fence = CommitProperties(app_transactions=[Transaction("landed by a test", 1)])  # as each commit to a log ends
    write_deltalake(log.uri, rows, mode="append", partition_by=["_window", "_kind"], commit_properties=fence)


def checkpoint(instance: dg.DagsterInstance, log: ChangeLog, fingerprints: Mapping[str, str]) -> None:
    """Have log and Dagster say that windows are loaded with these positions."""
    land(log, fingerprints)
    for key, fingerprint in fingerprints.items():
        tags = {DATA_VERSION_TAG: fingerprint}
        instance.report_runless_asset_event(dg.AssetMaterialization(log.table.key, partition=key, tags=tags))
