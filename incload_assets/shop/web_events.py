"""Web events: visitors' actions on the shop's pages, which its tracker sends to a Kafka topic every few minutes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

from incload_assets.shop.calendar import PLATFORM_AFTER, Calendar, clock_text, midnight, span
from incload_assets.shop.customers import a_customer
from incload_assets.shop.feed import Record, RecordFeed, json_lines, send_twice

_KINDS = ("view", "view", "view", "view", "search", "basket")
_PAGES = ("shoes", "café", "books", "sale", "👟")
_VISITORS = 400
"""Number of possible visitors a day at the default scale; some of them are very active."""
_BAD: dict[str, dict[str, Any]] = {
    "malformed": {},
    "wrong type": {"occurred_at": "just now"},
    "value outside the set": {"kind": "teleport"},
    "NULL key": {"event_id": None},
}
"""Messages that the contract rejects: their kinds, with the wrong values."""
_MINUTES, _MINUTES_A_DAY = timedelta(minutes=1), 24 * 60
_BAD_AT = 40
"""Minute at which the bad event of an hour is sent, when the day's window already has enough good events."""


def _event(calendar: Calendar, start: datetime, position: int, chance: Random) -> Record:
    day, occurred_at = start.date(), start + span(chance, timedelta(0), _MINUTES)
    visitor = int(_VISITORS * chance.random() ** 2)
    of_visitor = calendar.chance("web_events", "visitor", day, visitor)
    kind = chance.choice(_KINDS)
    row = {
        "event_id": f"{start:%Y%m%dT%H%M}-{position:04}",
        "visitor_id": f"v-{visitor:03}",
        "customer_id": a_customer(calendar, day, of_visitor) if of_visitor.random() < 0.4 else None,
        "kind": kind,
        "page": f"/shop/{chance.choice(_PAGES)}",
        "sku": f"SKU-{chance.randrange(1, 31):03}" if kind == "basket" else None,
        "occurred_at": occurred_at,
        "occurred_hour": occurred_at.replace(minute=0, second=0, microsecond=0),
    }
    fields = {name: value for name, value in row.items() if name != "occurred_hour"}
    fields["occurred_at"] = clock_text(occurred_at, chance)
    return Record(arrives=occurred_at + span(chance, timedelta(0), timedelta(seconds=5)), fields=fields, row=row)


def _sent(event: Record, chance: Random) -> Iterator[Record]:
    fate = chance.random()
    if fate < 0.02:  # a phone without a connection
        yield replace(event, arrives=event.arrives + span(chance, 10 * _MINUTES, 180 * _MINUTES), trouble="late")
    elif fate < 0.05:  # a browser that missed the acknowledgement of its event
        yield from send_twice(event, span(chance, timedelta(seconds=30), 90 * _MINUTES))
    else:
        yield event


def _bad(event: Record, kind: str) -> Record:
    line = json.dumps(dict(event.fields))[:-30] if kind == "malformed" else None
    return replace(event, fields={**event.fields, **_BAD[kind]}, row=None, trouble=kind, raw=line)


def _born(calendar: Calendar, day: date) -> list[Record]:
    if calendar.index(day) < PLATFORM_AFTER.days:
        return []
    records: list[Record] = []
    a_minute = calendar.volume(day, 3 * _MINUTES_A_DAY) / _MINUTES_A_DAY
    for minute in range(_MINUTES_A_DAY):
        chance, start = calendar.chance("web_events", day, minute), midnight(day) + minute * _MINUTES
        events = round(a_minute * chance.uniform(0.5, 1.5))
        for position in range(events):
            records += _sent(_event(calendar, start, position, chance), chance)
        hour, past = divmod(minute, 60)
        if past == _BAD_AT and hour % 3 == 0:
            kind = tuple(_BAD)[(calendar.index(day) + hour // 3) % len(_BAD)]
            records.append(_bad(_event(calendar, start, events, chance), kind))
    return records


WEB_EVENTS = RecordFeed(
    table="web_events",
    keys=("event_id",),
    sequence=("occurred_at",),
    every=timedelta(minutes=5),
    window=timedelta(hours=1),
    file_name="%H%M",
    encode=json_lines,
    born=_born,
    lookback=1,
)
"""JSON messages in batches of five minutes, no files; one row per event; from the platform's first day on."""
