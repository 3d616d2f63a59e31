"""Inventory movements: goods that enter and leave three warehouses, reported by scanners as Parquet."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from incload_assets.shop.calendar import Calendar, moment, span
from incload_assets.shop.feed import Record, RecordFeed, send_twice

_WAREHOUSES = ("STO", "BER", "LIS")
_BAD: dict[str, dict[str, Any]] = {
    "value outside the set": {"warehouse": "???"},
    "NULL key": {"movement_id": None},
    "out of range": {"quantity": 1_000_000},
    "pattern": {"sku": "banana"},
}
"""Records that the contract rejects: their kinds, with the wrong values."""
_SECONDS, _HOURS, _DAYS = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
_SCHEMA = pa.schema(
    [
        ("movement_id", pa.int64()),
        ("sku", pa.string()),
        ("warehouse", pa.string()),
        ("quantity", pa.int32()),
        ("moved_at", pa.timestamp("us", "UTC")),
        ("recorded_at", pa.timestamp("us", "UTC")),
    ]
)
_PALLET = pa.field("pallet", pa.string())

_LATE, _DUPLICATE, _DUPLICATE_NEXT_DAY, _RECOUNTED, _UNKNOWN_FIELD = range(5)
_GROUP = 18


def parquet(records: Sequence[Record]) -> bytes:
    """Records as one Parquet file; a column that the table does not declare is included only if a record has it."""
    schema = _SCHEMA.append(_PALLET) if any("pallet" in record.fields for record in records) else _SCHEMA
    rows = [{name: record.fields.get(name) for name in schema.names} for record in records]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), file)
    return file.getvalue()


@dataclass(frozen=True)
class _Movement:
    movement_id: int
    sku: str
    warehouse: str
    quantity: int
    moved_at: datetime
    recorded_at: datetime

    def record(self) -> Record:
        fields = dict(vars(self))
        row = {**fields, "movement_date": self.moved_at.astimezone(UTC).date()}
        return Record(arrives=self.recorded_at, fields=fields, row=row)


def _movement(calendar: Calendar, day: date, position: int, chance: Random) -> _Movement:
    moved_at = moment(day, chance)
    return _Movement(
        movement_id=calendar.number(day, position),
        sku=f"SKU-{chance.randrange(1, 41):03}",
        warehouse=chance.choice(_WAREHOUSES),
        quantity=chance.choice((-1, -1, -1, -2, -3, 24, 48)),
        moved_at=moved_at,
        recorded_at=moved_at + span(chance, _SECONDS, 20 * _SECONDS),
    )


def _life(movement: _Movement, group: int, chance: Random) -> Iterator[Record]:
    scanned = movement.record()
    if group == _LATE:  # the scanner was out of reach
        yield replace(scanned, arrives=scanned.arrives + span(chance, 20 * _HOURS, 2 * _DAYS), trouble="late")
    elif group == _DUPLICATE:
        yield from send_twice(scanned, span(chance, _SECONDS, 3 * _HOURS))
    elif group == _DUPLICATE_NEXT_DAY:
        yield from send_twice(scanned, _DAYS)
    elif group == _RECOUNTED:
        recorded_at = movement.recorded_at + span(chance, _HOURS, _DAYS)
        recounted = replace(movement, quantity=movement.quantity - 1, recorded_at=recorded_at).record()
        # the first count is sent after the second one
        overtaken = recounted.arrives + span(chance, _SECONDS, 3 * _HOURS)
        yield from (recounted, replace(scanned, arrives=overtaken, trouble="out of order"))
    elif group == _UNKNOWN_FIELD:
        pallet = f"P-{chance.randrange(1000):03}"
        yield replace(scanned, fields={**scanned.fields, "pallet": pallet}, trouble="unknown field")
    else:
        yield scanned


def _bad(calendar: Calendar, day: date) -> Record:
    chance = calendar.chance("inventory", day, "bad")
    record = _movement(calendar, day, 900_000, chance).record()
    kind = tuple(_BAD)[calendar.index(day) % len(_BAD)]
    # in the afternoon, when the day's window already has enough good records
    arrives = record.arrives.replace(hour=max(13, record.arrives.hour))
    return replace(record, arrives=arrives, fields={**record.fields, **_BAD[kind]}, row=None, trouble=kind)


def _born(calendar: Calendar, day: date) -> list[Record]:
    records: list[Record] = []
    for position in range(calendar.volume(day, 80)):
        chance = calendar.chance("inventory", day, position)
        group = (calendar.index(day) + position) % _GROUP
        records += _life(_movement(calendar, day, position, chance), group, chance)
    return [*records, _bad(calendar, day)]


def _correct(record: Record, chance: Random) -> Record:
    counted = {"quantity": -chance.randrange(4, 9)}
    return replace(
        record, fields={**record.fields, **counted}, row={**(record.row or {}), **counted}, trouble="corrected"
    )


INVENTORY = RecordFeed(
    table="inventory",
    keys=("movement_id",),
    sequence=("recorded_at",),
    every=timedelta(hours=2),
    file_name="movements-%H.parquet",
    encode=parquet,
    born=_born,
    correct=_correct,
    lookback=5,
    rewritten_every=5,
    rewritten_on=4,
    rewritten_age=3,
)
"""Parquet every two hours; one row per movement; a file of three days ago is rewritten on every fifth day."""
