"""Decisions of people about rejected rows: those that were discarded are no longer open.

The lake's Delta table ``_decisions`` only grows. A row is identified by a hash of its window, its file and its
payload, so a decision holds after its window is loaded again, as long as the file has the same record. No values are
stored.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from resources.errors import ConcurrentLoad
from resources.lake import DECISIONS_FOLDER, Lake

WRITER = "incload/decisions"
ATTEMPTS = 20
_SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("table", pa.string()),
        pa.field("audit", pa.int64()),
        pa.field("undoes", pa.int64()),
        pa.field("window", pa.string()),
        pa.field("fingerprint", pa.string()),
        pa.field("row", pa.string()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Discarded:
    """One discarded row.

    Args:
        window: The partition key of its window.
        fingerprint: The fingerprint of the window when the row was discarded.
        row: The row's identifier, see :func:`rejected_row_id`.
        audit: The number of the audit's entry.
        at: When it was discarded, aware.
    """

    window: str
    fingerprint: str
    row: str
    audit: int
    at: datetime


def rejected_row_id() -> Column:
    """The identifier of a rejected row of a log: a hash of window, file and payload, of the place if it has none."""
    of_row = F.coalesce("_payload", F.concat_ws(":", "_source.block", "_source.row"))
    return F.sha2(F.to_json(F.array("_window", F.coalesce("_source.file", F.lit("")), of_row)), 256)


def discarded_rows(lake: Lake, table: Table) -> dict[str, Discarded]:
    """The discarded rows of a table by identifier, without those whose discard was undone."""
    delta = lake.delta(decisions_uri(lake))
    if delta is None:
        return {}
    rows = delta.to_pyarrow_table(filters=[("table", "=", table.name)]).to_pylist()
    undone = {row["undoes"] for row in rows if row["undoes"] is not None}
    return {
        row["row"]: Discarded(**{name: row[name] for name in ("window", "fingerprint", "row", "audit", "at")})
        for row in rows
        if row["row"] is not None and row["audit"] not in undone
    }


def discard_rows(
    lake: Lake, table: Table, rows: Iterable[tuple[str, str]], fingerprints: Mapping[str, str], audit: int
) -> None:
    """Records that rows are discarded.

    Args:
        lake: The lake.
        table: The declaration.
        rows: Partition key and identifier of each row.
        fingerprints: The fingerprints of the windows by partition key.
        audit: The number of the audit's entry.
    """
    at = windows.now()
    entries = [
        {"at": at, "table": table.name, "audit": audit, "window": key, "fingerprint": fingerprints[key], "row": row}
        for key, row in rows
    ]
    _append(lake, entries)


def undo_discard(lake: Lake, table: Table, undone: int, audit: int) -> None:
    """Records that a discard is undone.

    Args:
        lake: The lake.
        table: The declaration.
        undone: The number of the audit's entry of the discard.
        audit: The number of the audit's entry of the undo.
    """
    _append(lake, [{"at": windows.now(), "table": table.name, "audit": audit, "undoes": undone}])


def decisions_uri(lake: Lake) -> str:
    """The URI of the table of decisions."""
    return f"{lake.root}/{DECISIONS_FOLDER}"


def _append(lake: Lake, entries: list[dict[str, object]]) -> None:
    whole = pa.Table.from_pylist(entries, _SCHEMA)
    for _ in range(ATTEMPTS):
        delta = lake.delta(decisions_uri(lake))
        number = ((delta.transaction_version(WRITER) or 0) if delta is not None else 0) + 1
        if lake.append(decisions_uri(lake), whole, WRITER, number):
            return
    raise ConcurrentLoad(
        f"the decisions in {decisions_uri(lake)} were written by others in each of {ATTEMPTS} attempts",
        rule="decisions are written one after another",
        remedy="try again",
    )
