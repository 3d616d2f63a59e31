"""How fresh a table of files is kept by its sensor: from a file's arrival until its rows are reconciled.

    python -m tests.benchmarks.freshness TABLE [MINUTES]

To be run in a project where `incload dev` has been running for a while, with a landing area in a local folder. Each
file that arrived in the last MINUTES (default 30) and is loaded is one measurement.
"""

import statistics
import sys
import time
from pathlib import Path

import dagster as dg

from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.window_records import window_records_of
from incload_assets.cli.support.project import open_project
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.sources.files.position import File, files_in

Landed = dict[tuple[str, str], set[File]]
"""By partition key and fingerprint: the files of a position."""


def main() -> None:
    """Print the distribution."""
    name, minutes = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 30
    since = time.time() - 60 * minutes
    with open_project() as project:
        table = project.table(name)
        lake, landing = Lake.of(Settings()), Path(Settings().landing_root)
        filter_ = dg.AssetRecordsFilter(asset_key=table.key, after_timestamp=since)
        records = project.instance.fetch_materializations(filter_, limit=10_000).records
        landed = _landed(ChangeLog(table, lake), {record.partition_key for record in records if record.partition_key})
        seconds: dict[File, float] = {}
        for record in sorted(records, key=lambda record: record.timestamp):
            version = record.asset_materialization.tags or {} if record.asset_materialization else {}
            for file in landed.get((record.partition_key or "", version.get("dagster/data_version", "")), ()):
                path = landing / file.key
                if path.exists() and (arrived := path.stat().st_mtime) >= since:
                    seconds.setdefault(file, record.timestamp - arrived)
    if len(seconds) < 2:
        sys.exit(f"{len(seconds)} files of {name} arrived in the last {minutes} minutes and are loaded")
    cuts = statistics.quantiles(seconds.values(), n=20, method="inclusive")
    print(
        f"{name}: {len(seconds)} files, {len(records)} loads; seconds from arrival to reconciled: "
        f"p50 {cuts[9]:.0f}, p95 {cuts[18]:.0f}, worst {max(seconds.values()):.0f}"
    )


def _landed(log: ChangeLog, keys: set[str]) -> Landed:
    found: Landed = {}
    for version in range((log.version() or 0) + 1):
        delta = log.lake.delta(log.uri, version)
        for key, record in (window_records_of(delta, only=keys) if delta else {}).items():
            found[key, record.fingerprint] = set(files_in(record.as_position()))
    return found


if __name__ == "__main__":
    main()
