"""History: every version of each key, as sorting its changes and walking through them tells."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from incload_assets.assets import History
from tests.support.literal_source import Record
from tests.writes.case import Case, Order, crowds

COLUMNS = ("id", "value", "seq", "valid_from", "valid_to", "is_current")


def versions(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
    """Sort, keep the newest of each instant, walk."""
    found: set[tuple[Any, ...]] = set()
    changes = sorted((r for records in content.values() for r in records), key=lambda r: (str(r["id"]), order(r)))
    for id, of_key in groupby(changes, key=lambda r: r["id"]):
        moments = {r["seq"] and int(r["seq"]): r for r in of_key}
        open_: tuple[Any, ...] | None = None
        for at, record in moments.items():
            value = record["value"]
            if open_ and (record["op"] == "d" or open_[0] != value):
                found.add((id, *open_, at, False))
                open_ = None
            if record["op"] != "d":
                open_ = (value, at, open_[2] if open_ else at)
        if open_:
            found.add((id, *open_, None, True))
    return found


HISTORY = Case("history", History(buckets=3), versions, columns=COLUMNS)
HISTORY_IN_TIME = Case(
    "history in time", History(), versions, columns=COLUMNS, contents=crowds(null_sequences=False), daily=False
)
