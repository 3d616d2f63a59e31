"""History: every version of each key, as sorting its changes and walking through them tells."""

from collections.abc import Mapping, Sequence
from typing import Any

from incload_assets.assets import History
from incload_assets.trial import oracle
from incload_assets.trial.literal_source import Record
from tests.support.tables import Loaded
from tests.writes.case import Case, Order, crowds, every, hash_of, hashed, is_delete

COLUMNS = ("id", "value", "seq", "valid_from", "valid_to", "is_current")


def versions(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
    """Of each version its newest change, and the time that it was in effect."""
    found = oracle.versions(hashed(every(content), order), ["id"], ["seq"], ["value"], is_delete, hash_of)
    return {(row["id"], row["value"], row["seq"], *period) for row, *period in found}


def held_versions(table: Loaded) -> set[tuple[Any, ...]]:
    """The rows that are still believed."""
    return {row[:-2] for row in table.rows(*COLUMNS, "known_from", "is_known") if row[-1]}


HISTORY = Case("history", History(buckets=3), versions, columns=COLUMNS)
HISTORY_IN_TIME = Case(
    "history in time", History(), versions, columns=COLUMNS, contents=crowds(null_sequences=False), daily=False
)
HISTORY_KNOWN = Case("history of beliefs", History(known=True, buckets=3), versions, rows=held_versions)
