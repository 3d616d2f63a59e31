"""Windows with rescued fields that the contract declares now, found in the log without Spark."""

import json

import pyarrow.compute as pc

from incload_assets.contract.contract import MASK
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import known_windows
from incload_assets.platform.lake import Lake, data_files
from incload_assets.platform.lake_rows import dataset_of


def windows_to_fill(table: Table, lake: Lake) -> dict[str, list[str]]:
    """The windows with rescued fields whose values a declared column lacks: the names, by partition key.

    Args:
        table: The declaration.
        lake: The lake.
    """
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
