"""The file of rejected rows for the one who supplies the data."""

import csv
import json
from pathlib import Path

from pyspark.sql import SparkSession

from incload_assets.change_log.log import ChangeLog
from incload_assets.declaration.table import Table
from incload_assets.monitoring.rows.quarantine import DISCARDED, rejected_rows
from incload_assets.progress.audit import AuditEntry, record
from resources.lake import Lake

_COLUMNS = ("file", "row", "partition", "reasons", "payload")


def export_rows(spark: SparkSession, table: Table, lake: Lake, path: Path) -> int:
    """Writes the rejected rows that are not discarded, with their payloads, and records in the audit who read them.

    Args:
        spark: The session.
        table: The declaration.
        lake: The lake.
        path: A file that ends in .csv or .jsonl.

    Returns:
        The number of rows.
    """
    keys = [key for key, found in ChangeLog(table, lake).controls().items() if found.rejected]
    details = {"rows of": "quarantine", "file": path.name}
    record(lake, AuditEntry(action="read", table=table.name, partitions=sorted(keys), details=details))
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        if path.suffix == ".csv":
            writer.writerow(_COLUMNS)
        if not keys:
            return 0
        rows = rejected_rows(spark, table, lake, keys)
        ordered = rows.filter(rows["_state"] != DISCARDED).orderBy("_window", "_source.file", "_source.row")
        for row in ordered.select("_source", "_window", "_reasons", "_payload").toLocalIterator():
            place = row["_source"]
            values = (place["file"], place["row"], row["_window"], list(row["_reasons"]), row["_payload"])
            if path.suffix == ".csv":
                writer.writerow([*values[:3], "; ".join(values[3]), values[4]])
            else:
                file.write(json.dumps(dict(zip(_COLUMNS, values, strict=True)), ensure_ascii=False) + "\n")
            count += 1
    return count
