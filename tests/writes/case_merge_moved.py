"""Merge of rows that get new keys, where a source does not repeat large values: they are those of the old key."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
from hypothesis import strategies as st

from incload_assets.assets import Merge
from incload_assets.declaration.changes import Changes
from incload_assets.trial.literal_source import Record
from tests.support.tables import Item, day, item
from tests.writes.case import CROWD, WINDOWS, Case, Content, Order

MARKER = "__unavailable"
LARGE = ("value", "other")
OLDEST = -(2**63)
CHANGES = Changes(
    keys=["id"],
    sequence_by=["seq"],
    delete_when="op = 'd'",
    truncate_when="op = 't'",
    unavailable=MARKER,
    moved_when="op = 'c'",
)


class TwoLarge(Item):
    """An item with a second value."""

    other: T.StringType = pa.Field(nullable=True)


@st.composite
def moving_crowds(draw: st.DrawFn) -> Content:
    """Many small tables that lived: inserts, updates that repeat only some values, new keys, deletes, a truncate."""
    chance = Random(draw(st.integers(0, 2**32)))
    content: Content = {day(n): [] for n in range(1, WINDOWS + 1)}
    for number in range(CROWD):
        keys: set[int] = set()
        steps = chance.randint(1, 12)
        for step in range(steps):
            seq = step * CROWD + number  # no two changes share one, but a delete and the upsert under a new key
            records = _statement(chance, number, keys, seq)
            about = WINDOWS * step / steps
            for record in records:
                window = min(WINDOWS, max(1, 1 + int(about + chance.choice([0, 0, 0, -1, 1]))))
                content[day(window)].append(record)
    if chance.random() < 0.3:
        content[day(chance.randint(1, WINDOWS))].append(item(None, None, chance.randint(0, 4) * CROWD, "t"))
    return content


def _statement(chance: Random, number: int, keys: set[int], seq: int) -> list[Record]:
    """What one SQL statement says, the keys of the table being these."""

    def row(key: int, op: str, given: float) -> Record:
        values = {name: chance.choice("xyz") if chance.random() < given else MARKER for name in LARGE}
        return item(f"{number}/{key}", values["value"], seq, op, other=values["other"])

    free = [key for key in range(1, 4) if key not in keys]
    if not keys or (free and chance.random() < 0.2):
        keys.add(new := chance.choice(free))
        return [row(new, "c", 1)]
    key, what = chance.choice(sorted(keys)), chance.random()
    if what < 0.45 and free:
        keys.symmetric_difference_update({key, new := chance.choice(free)})
        return [item(f"{number}/{key}", None, seq, "d"), row(new, "c", 0.2)]
    if what < 0.6:
        keys.remove(key)
        return [item(f"{number}/{key}", None, seq, "d")]
    return [row(key, "u", 0.4)]


def moved_values(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
    """Ask the newest change of a column; where it does not know, an older one, or the row under its old key."""
    records = [record for batch in content.values() for record in batch]

    def age(record: Record) -> Any:
        if record["op"] == "t":
            return (True, int(record["seq"] or 0), False, OLDEST)
        return order(record | {name: None for name in LARGE if record.get(name) == MARKER})

    truncates = [age(record) for record in records if record["op"] == "t"]
    deleted: dict[int, str] = {}
    for record in records:
        if record["op"] == "d":
            seq = int(record["seq"] or 0)
            deleted[seq] = min(str(record["id"]), deleted.get(seq, "~"))

    def life(key: str, before: float) -> list[Record]:
        """The upserts of a key since its last deletion, the newest first."""
        own = [r for r in records if r["id"] == key and r["op"] != "t" and int(r["seq"] or 0) < before]
        ends = [age(r) for r in own if r["op"] == "d"] + [end for end in truncates if end[1] < before]
        lives = [r for r in own if r["op"] != "d" and (not ends or age(r) > max(ends))]
        return sorted(lives, key=age, reverse=True)

    def value(key: str, name: str, before: float) -> tuple[bool, str | None]:
        """Whether a move left it unknown, or no change ever told; and the value."""
        for record in life(key, before):
            if record[name] != MARKER:
                return True, record[name]
            if record["op"] == "c":
                seq = int(record["seq"] or 0)
                return value(deleted[seq], name, seq) if seq in deleted else (False, None)
        return False, None

    def hidden(key: str, name: str) -> bool:
        """Whether nobody knows it although somebody should: a move came before any other change that tells."""
        told = next((r for r in life(key, float("inf")) if r[name] != MARKER or r["op"] == "c"), None)
        return told is not None and not value(key, name, float("inf"))[0]

    table = set()
    for key in {str(r["id"]) for r in records if r["op"] != "t"}:
        if (lives := life(key, float("inf"))) and not any(hidden(key, name) for name in LARGE):
            values = [value(key, name, float("inf"))[1] for name in LARGE]
            table.add((key, values[0], int(lives[0]["seq"] or 0), values[1]))
    return table


MERGE_MOVED = Case(
    "merge_moved",
    Merge(buckets=3),
    moved_values,
    columns=("id", "value", "seq", "other"),
    contract=TwoLarge,
    changes=CHANGES,
    contents=moving_crowds(),
)
