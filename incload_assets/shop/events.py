"""User events: clicks in the shop and its app, sent as gzipped JSON lines a few minutes later."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

from incload_assets.shop.calendar import Calendar, clock_text, moment, span
from incload_assets.shop.customers import a_customer
from incload_assets.shop.feed import Record, RecordFeed, gzipped_json_lines, send_twice

_TYPES = ("view", "view", "view", "search", "search", "cart", "checkout", "login")
_BAD: dict[str, dict[str, Any]] = {
    "malformed": {},
    "wrong type": {"user_id": "guest"},
    "value outside the set": {"event_type": "teleport"},
    "NULL key": {"user_id": None},
    "out of range": {"occurred_at": "1970-01-01T00:00:07+00:00"},  # a phone that forgot the time
}
"""Records that the contract rejects: their kinds, with the wrong values."""
_SECONDS, _MINUTES = timedelta(seconds=1), timedelta(minutes=1)
_HOURS, _DAYS = timedelta(hours=1), timedelta(days=1)

_LATE, _DUPLICATE, _DUPLICATE_NEXT_DAY, _OUT_OF_ORDER, _UNKNOWN_FIELD = range(5)
_GROUP = 18


def _event(calendar: Calendar, day: date, position: int, chance: Random, at: datetime | None = None) -> Record:
    occurred_at = at or moment(day, chance)
    row = {
        "event_id": f"e-{calendar.number(day, position)}",
        "user_id": a_customer(calendar, day, chance),
        "event_type": chance.choice(_TYPES),
        "page": f"/shop/{chance.choice(('shoes', 'café', 'books', 'sale', '👟'))}",
        "occurred_at": occurred_at,
        "event_date": occurred_at.astimezone(UTC).date(),
    }
    fields = {name: value for name, value in row.items() if name != "event_date"}
    fields["occurred_at"] = clock_text(occurred_at, chance)
    return Record(arrives=occurred_at + span(chance, _SECONDS, 3 * _MINUTES), fields=fields, row=row)


def _life(event: Record, group: int, chance: Random) -> Iterator[Record]:
    if group == _LATE:  # a phone in flight mode
        yield replace(event, arrives=event.arrives + span(chance, 20 * _HOURS, 2 * _DAYS), trouble="late")
    elif group == _OUT_OF_ORDER:
        yield replace(event, arrives=event.arrives + span(chance, _HOURS, 6 * _HOURS), trouble="out of order")
    elif group == _DUPLICATE:
        yield from send_twice(event, span(chance, _SECONDS, _HOURS))
    elif group == _DUPLICATE_NEXT_DAY:
        yield from send_twice(event, _DAYS)
    elif group == _UNKNOWN_FIELD:
        yield replace(event, fields={**event.fields, "experiment": {"name": "b", "arm": 2}}, trouble="unknown field")
    else:
        yield event


def _bad(calendar: Calendar, day: date) -> Iterator[Record]:
    count = max(1, round(2 * calendar.scale))
    for position in range(count):
        chance = calendar.chance("events", day, "bad", position)
        # in the afternoon, when the day's window already has enough good records
        at = moment(day, chance).replace(hour=13 + position % 10)
        record = _event(calendar, day, 900_000 + position, chance, at)
        kind = tuple(_BAD)[(calendar.index(day) * count + position) % len(_BAD)]
        line = json.dumps(dict(record.fields))[:-30] if kind == "malformed" else None
        yield replace(record, fields={**record.fields, **_BAD[kind]}, row=None, trouble=kind, raw=line)


def _born(calendar: Calendar, day: date) -> list[Record]:
    records: list[Record] = []
    for position in range(calendar.volume(day, 110)):
        chance = calendar.chance("events", day, position)
        group = (calendar.index(day) + position) % _GROUP
        records += _life(_event(calendar, day, position, chance), group, chance)
    return records + list(_bad(calendar, day))


EVENTS = RecordFeed(
    table="events",
    keys=("user_id", "event_date"),
    sequence=("occurred_at", "event_id"),
    every=timedelta(minutes=15),
    file_name="events-%H%M.json.gz",
    encode=gzipped_json_lines,
    born=_born,
    lookback=4,
)
"""Gzipped JSON lines every quarter of an hour; one row per user and day with the latest event; never rewritten."""
