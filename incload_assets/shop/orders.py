"""Orders: placed, paid, sent or cancelled, and some purged later; the till reports each change as a JSON line."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from incload_assets.shop.calendar import Calendar, clock_text, moment, span
from incload_assets.shop.customers import a_customer
from incload_assets.shop.feed import Record, RecordFeed, json_lines, send_twice

_CURRENCIES = ("EUR", "EUR", "EUR", "SEK", "GBP", "USD")
_BAD: dict[str, dict[str, Any]] = {
    "malformed": {},
    "wrong type": {"amount": "twelve"},
    "value outside the set": {"status": "teleported"},
    "NULL key": {"order_id": None},
    "NULL sequence": {"updated_at": None},
}
"""Records that the contract rejects: their kinds, with the wrong values."""
_SECONDS, _MINUTES = timedelta(seconds=1), timedelta(minutes=1)
_HOURS, _DAYS = timedelta(hours=1), timedelta(days=1)

# One order in each group of sixteen has the trouble; the rest are ordinary.
_PURGED, _UPDATED_AFTER_DELETE, _CANCELLED, _LATE_UPDATE, _OUT_OF_ORDER = 0, 1, 2, 3, 4
_DUPLICATE, _DUPLICATE_NEXT_DAY, _UNKNOWN_FIELD, _LATE_ORDER = 5, 6, 7, 8
_GROUP = 16


@dataclass(frozen=True)
class _Order:
    order_id: int
    customer_id: int
    amount: Decimal
    currency: str
    ordered_at: datetime

    def change(self, op: str, status: str, updated_at: datetime, chance: Random) -> Record:
        row = {
            "order_id": self.order_id,
            "customer_id": self.customer_id,
            "status": status,
            "amount": self.amount,
            "currency": self.currency,
            "ordered_at": self.ordered_at,
            "updated_at": updated_at,
            "order_date": self.ordered_at.astimezone(UTC).date(),
        }
        fields = {
            "op": op,
            "order_id": self.order_id,
            "customer_id": self.customer_id,
            "status": status,
            "amount": str(self.amount),
            "currency": self.currency,
            "ordered_at": clock_text(self.ordered_at, chance),
            "updated_at": clock_text(updated_at, chance),
        }
        arrives = updated_at + span(chance, _SECONDS, 90 * _SECONDS)
        return Record(arrives=arrives, fields=fields, row=row, delete=op == "d")


def _order(calendar: Calendar, day: date, position: int, chance: Random) -> _Order:
    return _Order(
        order_id=calendar.number(day, position),
        customer_id=a_customer(calendar, day, chance),
        amount=Decimal(chance.randrange(500, 30_000)) / 100,
        currency=chance.choice(_CURRENCIES),
        ordered_at=moment(day, chance),
    )


def _delayed(record: Record, by: timedelta, trouble: str) -> Record:
    return replace(record, arrives=record.arrives + by, trouble=trouble)


def _life(order: _Order, group: int, chance: Random) -> Iterator[Record]:
    placed = order.change("c", "new", order.ordered_at, chance)
    if group in (_PURGED, _UPDATED_AFTER_DELETE, _CANCELLED):
        yield placed
        yield from _cancelled_life(order, group, chance)
        return
    paid_at = order.ordered_at + span(chance, 2 * _MINUTES, 4 * _HOURS)
    paid = order.change("u", "paid", paid_at, chance)
    sent = order.change("u", "sent", paid_at + span(chance, 3 * _HOURS, 2 * _DAYS), chance)
    if group == _LATE_UPDATE:
        yield from (placed, paid, _delayed(sent, span(chance, 20 * _HOURS, 2 * _DAYS), "late"))
    elif group == _LATE_ORDER:
        offline = span(chance, _DAYS, 30 * _HOURS)
        yield from (_delayed(placed, offline, "late"), _delayed(paid, offline, "late"), sent)
    elif group == _OUT_OF_ORDER:
        overtaken = sent.arrives - paid.arrives + span(chance, _MINUTES, 3 * _HOURS)
        yield from (placed, _delayed(paid, overtaken, "out of order"), sent)
    elif group == _DUPLICATE:
        yield from (*send_twice(placed, span(chance, _SECONDS, _HOURS)), paid, sent)
    elif group == _DUPLICATE_NEXT_DAY:
        yield from (placed, *send_twice(paid, _DAYS), sent)
    elif group == _UNKNOWN_FIELD:
        fields = {**placed.fields, "coupon": chance.choice(("SPRING10", "FRIEND", "🎁"))}
        yield from (replace(placed, fields=fields, trouble="unknown field"), paid, sent)
    else:
        yield from (placed, paid)
        # some parcels wait for stock longer than these days
        if chance.random() < 0.85:
            yield sent


def _cancelled_life(order: _Order, group: int, chance: Random) -> Iterator[Record]:
    cancelled_at = order.ordered_at + span(chance, _HOURS, 20 * _HOURS)
    cancelled = order.change("u", "cancelled", cancelled_at, chance)
    purged = order.change("d", "cancelled", cancelled_at + span(chance, _DAYS, 2 * _DAYS), chance)
    if group == _UPDATED_AFTER_DELETE:
        after = purged.arrives - cancelled.arrives + span(chance, 2 * _HOURS, _DAYS)
        yield from (purged, _delayed(cancelled, after, "update after delete"))
    else:
        yield cancelled
        if group == _PURGED:
            yield purged


def _bad(calendar: Calendar, day: date) -> Iterator[Record]:
    """Records that the contract rejects, all in the afternoon, when the day's window already has enough good ones."""
    count = max(1, round(2 * calendar.scale))
    for position in range(count):
        chance = calendar.chance("orders", day, "bad", position)
        order = replace(
            _order(calendar, day, 900_000 + position, chance), ordered_at=moment(day, chance).replace(hour=13)
        )
        record = order.change("c", "new", order.ordered_at + span(chance, _MINUTES, 8 * _HOURS), chance)
        kind = tuple(_BAD)[(calendar.index(day) * count + position) % len(_BAD)]
        line = json.dumps(dict(record.fields))[:-40] if kind == "malformed" else None
        yield replace(record, fields={**record.fields, **_BAD[kind]}, row=None, trouble=kind, raw=line)


def _born(calendar: Calendar, day: date) -> list[Record]:
    records: list[Record] = []
    for position in range(calendar.volume(day, 40)):
        chance = calendar.chance("orders", day, position)
        group = (calendar.index(day) + position) % _GROUP
        records += _life(_order(calendar, day, position, chance), group, chance)
    return records + list(_bad(calendar, day))


def _correct(record: Record, chance: Random) -> Record:
    amount = Decimal(chance.randrange(500, 30_000)) / 100
    row = {**(record.row or {}), "amount": amount}
    return replace(record, fields={**record.fields, "amount": str(amount)}, row=row, trouble="corrected")


ORDERS = RecordFeed(
    table="orders",
    keys=("order_id",),
    sequence=("updated_at",),
    every=timedelta(minutes=30),
    file_name="orders-%H%M.json",
    encode=json_lines,
    born=_born,
    correct=_correct,
    lookback=8,
    rewritten_every=3,
    rewritten_on=2,
)
"""JSON lines every half hour; one row per order; a file of two days ago is rewritten on every third day."""
