"""Decisions of people about rejected rows: discarded, or accepted as they are.

The lake's Delta table ``_decisions`` only grows. A row is identified by a hash of its window, its file and its
payload, so a decision holds after its window is loaded again, as long as the file has the same record.

Former versions also recorded fixes, which gave a row other values. They are kept, and no longer applied: a table is the
fold of what its source holds. A fixed row stays in the table until its window is replayed or read from the source
again; that run reports it, and rejects the row.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.change_log.payloads import expired_row_id, is_expired
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.platform.attempts import in_attempts
from incload_assets.platform.errors import ConcurrentLoad
from incload_assets.platform.lake import DECISIONS_FOLDER, Lake
from incload_assets.platform.lake_rows import rows_where
from incload_assets.platform.wording import several

Kind = Literal["discard", "accept"]
FIX = "fix"
"""The kind of decision that only former versions recorded."""
KEEPING = ("accept", FIX)
"""The kinds of decisions about rows that are no longer rejected, and keep their payloads."""
WRITER = "incload/decisions"
ATTEMPTS = 20
_SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("table", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("audit", pa.int64()),
        pa.field("undoes", pa.int64()),
        pa.field("window", pa.string()),
        pa.field("fingerprint", pa.string()),
        pa.field("row", pa.string()),
        pa.field("values", pa.string()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A person's decision about a rejected row: ``accept`` it as it is, ``fix`` some values, or ``discard`` it.

    ``accept``: it is right although it breaks checks of the contract. ``discard``: it needs no correction.
    """

    kind: Kind
    window: str
    fingerprint: str
    row: str
    audit: int = 0
    at: datetime | None = None


def rejected_row_id() -> Column:
    """The identifier of a rejected row of a log: a hash of window, file and payload, of the place if it has none."""
    kept = F.when(~is_expired(), F.col("_payload"))
    of_row = F.coalesce(kept, F.concat_ws(":", "_source.block", "_source.row"))
    return F.coalesce(
        expired_row_id(), F.sha2(F.to_json(F.array("_window", F.coalesce("_source.file", F.lit("")), of_row)), 256)
    )


def decisions_in_force(
    lake: Lake, table: Table, kinds: Collection[str], only: Collection[str] | None = None
) -> list[Decision]:
    """The decisions of some kinds about rows of a table that were not undone, oldest first."""
    rows = _rows(lake, table)
    undone = {row["undoes"] for row in rows if row["undoes"] is not None}
    names = ("kind", "window", "fingerprint", "row", "audit", "at")
    found = [
        Decision(**{name: row[name] for name in names})
        for row in rows
        if row["kind"] in kinds and row["audit"] not in undone and (only is None or row["window"] in only)
    ]
    return sorted(found, key=lambda decision: decision.audit)


def discarded_rows(lake: Lake, table: Table) -> dict[str, Decision]:
    """The discarded rows of a table by identifier, without those whose discard was undone."""
    return {decision.row: decision for decision in decisions_in_force(lake, table, ["discard"])}


def accepted_rows(
    lake: Lake, table: Table, keys: Collection[str], info: Callable[[str], None] = lambda _: None
) -> set[str]:
    """The identifiers of the rows of some windows that people accepted.

    Args:
        lake: The lake.
        table: The declaration.
        keys: The partition keys.
        info: Hears of fixes that a former version recorded, and that are not applied.
    """
    found = decisions_in_force(lake, table, KEEPING, only=set(keys))
    if fixes := [one for one in found if one.kind == FIX]:
        windows_of = ", ".join(sorted({one.window for one in fixes}))
        info(
            f"{table.name} {windows_of}: {several(len(fixes), 'fix', 'fixes')} of a former version no longer applied: "
            "rows are loaded as their source has them; correct them at the source, or incload accept them"
        )
    return {one.row for one in found if one.kind == "accept"}


def decided_at(lake: Lake, table: Table) -> dict[str, tuple[int, datetime]]:
    """The number and instant of the last decision of :data:`KEEPING` in each window, or of its undo, by partition."""
    rows = _rows(lake, table)
    windows_of: dict[int, set[str]] = {}
    for row in rows:
        if row["kind"] in KEEPING:
            windows_of.setdefault(row["audit"], set()).add(row["window"])
    found: dict[str, tuple[int, datetime]] = {}
    for row in sorted(rows, key=lambda row: row["audit"]):
        for window in windows_of.get(row["audit"] if row["undoes"] is None else row["undoes"], ()):
            found[window] = (row["audit"], row["at"])
    return found


def decide(lake: Lake, table: Table, decisions: Iterable[Decision], audit: int) -> None:
    """Records decisions under the number of an entry of the audit; number and instant are filled in."""
    at = windows.now()
    entries = [
        {
            "at": at,
            "table": table.name,
            "kind": decision.kind,
            "audit": audit,
            "window": decision.window,
            "fingerprint": decision.fingerprint,
            "row": decision.row,
        }
        for decision in decisions
    ]
    _append(lake, entries)


def undo_decision(lake: Lake, table: Table, undone: int, audit: int) -> None:
    """Records that the decisions of an entry of the audit are undone by another one."""
    _append(lake, [{"at": windows.now(), "table": table.name, "audit": audit, "undoes": undone}])


def decisions_uri(lake: Lake) -> str:
    """The URI of the table of decisions."""
    return f"{lake.root}/{DECISIONS_FOLDER}"


def _rows(lake: Lake, table: Table) -> list[dict[str, Any]]:
    delta = lake.delta(decisions_uri(lake))
    return [] if delta is None else rows_where(delta, {"table": [table.name]}).to_pylist()


def values_by_row(lake: Lake, table: Table) -> dict[str, list[Mapping[str, str | None]]]:
    """The rows that people have ever decided about, each with the values of its former fixes, undone ones, too."""
    found: dict[str, list[Mapping[str, str | None]]] = {}
    for row in _rows(lake, table):
        if row["row"] is not None:
            found.setdefault(row["row"], []).append(json.loads(row["values"] or "{}"))
    return found


def forget_decisions(lake: Lake, rows: Collection[str]) -> int:
    """Removes the decisions about rows; returns their number."""

    def forgotten() -> int | None:
        if not rows or (delta := lake.delta(decisions_uri(lake))) is None:
            return 0
        everything = delta.to_pyarrow_table().cast(_SCHEMA)
        kept = everything.filter(pc.invert(pc.is_in(everything["row"], pa.array([*rows], pa.string()))))
        number = (delta.transaction_version(WRITER) or 0) + 1
        if kept.num_rows == everything.num_rows or lake.append(
            decisions_uri(lake), kept, WRITER, number, replacing=True
        ):
            return int(everything.num_rows - kept.num_rows)
        return None

    return in_attempts(ATTEMPTS, forgotten, _others_first(lake))


def _append(lake: Lake, entries: Sequence[Mapping[str, object]]) -> None:
    whole = pa.Table.from_pylist([dict(entry) for entry in entries], _SCHEMA)

    def appended() -> bool | None:
        number = (lake.transaction_version(decisions_uri(lake), WRITER) or 0) + 1
        return lake.append(decisions_uri(lake), whole, WRITER, number) or None

    in_attempts(ATTEMPTS, appended, _others_first(lake))


def _others_first(lake: Lake) -> ConcurrentLoad:
    return ConcurrentLoad(
        f"the decisions in {decisions_uri(lake)} were written by others in each of {ATTEMPTS} attempts",
        rule="decisions are written one after another",
        remedy="try again",
    )
