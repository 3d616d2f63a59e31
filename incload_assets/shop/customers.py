"""Customers: the address book, exported once a day as CSV with all changes since the last export."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

from incload_assets.shop.calendar import Calendar, clock_text, midnight, moment, span
from incload_assets.shop.feed import Record, RecordFeed, csv_with_header, send_twice

COLUMNS = ("customer_id", "name", "email", "country", "tier", "updated_at", "deleted")
"""The header of the export."""

_FIRST = ("Ada", "Björn", "Chloé", "Dmitri", "Elif", "Fatima", "Grace", "Håkan", "Ines", "Jürgen", "Kofi", "Mei")
_LAST = ("Larsson", "Okafor", "Müller", "O'Brien", "Çelik", "Rossi", "García", "Smith", "Tanaka", "Nowak")
_COUNTRIES = ("SE", "DE", "FR", "GB", "US", "IN")
_TIERS = ("bronze", "silver", "gold")
_BAD: dict[str, dict[str, Any]] = {
    "malformed": {},
    "wrong type": {"updated_at": "yesterday"},
    "value outside the set": {"tier": "platinum"},
    "NULL key": {"customer_id": None},
    "pattern": {"email": "at home"},
}
"""Records that the contract rejects: their kinds, with the wrong values."""
_HOURS, _DAYS = timedelta(hours=1), timedelta(days=1)

_LEAVES, _DUPLICATE_NEXT_DAY, _LATE, _OUT_OF_ORDER, _QUOTED, _NO_EMAIL = 0, 1, 2, 3, 4, 5
_GROUP = 14


def _newcomers(calendar: Calendar, day: date) -> int:
    """The number of new customers on a day: the initial address book at the opening, then a few a day."""
    return calendar.volume(day, 60 if day == calendar.opened else 20)


def a_customer(calendar: Calendar, day: date, chance: Random) -> int:
    """The number of a random customer who registered before ``day``, or is in the initial address book."""
    known = chance.choice(calendar.days(calendar.opened, max(calendar.opened, day - _DAYS))[-10:])
    return calendar.number(known, chance.randrange(_newcomers(calendar, known)))


def _change(person: dict[str, Any], at: datetime, *, deleted: bool = False) -> Record:
    row = {**person, "updated_at": at}
    fields = {**person, "updated_at": clock_text(at), "deleted": "true" if deleted else "false"}
    return Record(arrives=at, fields=fields, row=row, delete=deleted)


def _person(calendar: Calendar, day: date, position: int, chance: Random) -> dict[str, Any]:
    number = calendar.number(day, position)
    first, last = chance.choice(_FIRST), chance.choice(_LAST)
    return {
        "customer_id": number,
        "name": f"{first} {last}",
        "email": f"customer{number}@mail.example",
        "country": chance.choice(_COUNTRIES),
        "tier": "bronze",
    }


def _life(person: dict[str, Any], registered: datetime, group: int, chance: Random) -> Iterator[Record]:
    if group == _QUOTED:
        person = {**person, "name": f'{person["name"]}, "The Boss"'}
    if group == _NO_EMAIL:
        person = {**person, "email": None}
    first = _change(person, registered)
    moved_at = registered + span(chance, 4 * _HOURS, 3 * _DAYS)
    abroad = {**person, "country": chance.choice(_COUNTRIES)}
    moved = _change(abroad, moved_at)
    promoted = _change({**abroad, "tier": chance.choice(_TIERS)}, moved_at + span(chance, _HOURS, 4 * _DAYS))
    if group == _LEAVES:
        yield from (first, moved, _change(abroad, moved_at + _DAYS, deleted=True))
    elif group == _DUPLICATE_NEXT_DAY:
        yield from (*send_twice(first, _DAYS), moved)
    elif group == _LATE:
        yield from (first, replace(moved, arrives=moved.arrives + 2 * _DAYS, trouble="late"))
    elif group == _OUT_OF_ORDER:
        overtaken = promoted.arrives + timedelta(seconds=5)
        yield from (first, promoted, replace(moved, arrives=overtaken, trouble="out of order"))
    else:
        yield first
        yield moved
        if chance.random() < 0.6:
            yield promoted


def _bad(calendar: Calendar, day: date) -> Iterator[Record]:
    chance = calendar.chance("customers", day, "bad")
    record = _change(_person(calendar, day, 900_000, chance), moment(day, chance))
    kind = tuple(_BAD)[calendar.index(day) % len(_BAD)]
    line = None
    if kind == "malformed":  # an unquoted comma: one cell too many
        line = ",".join(str(record.fields[column]) for column in COLUMNS).replace(" ", ", ", 1)
    yield replace(record, fields={**record.fields, **_BAD[kind]}, row=None, trouble=kind, raw=line)


def _born(calendar: Calendar, day: date) -> list[Record]:
    records: list[Record] = []
    for position in range(_newcomers(calendar, day)):
        chance = calendar.chance("customers", day, position)
        # the initial address book exists before the first export
        opening = midnight(day) + span(chance, timedelta(0), 4 * _HOURS)
        registered = opening if day == calendar.opened else moment(day, chance)
        group = (calendar.index(day) + position) % _GROUP
        records += _life(_person(calendar, day, position, chance), registered, group, chance)
    # not at the opening, because in the short second export of a small shop one bad record is too large a share
    return records if day == calendar.opened else records + list(_bad(calendar, day))


def _correct(record: Record, chance: Random) -> Record:
    name = f"{chance.choice(_FIRST)} {chance.choice(_LAST)}-{chance.choice(_LAST)}"
    row = {**(record.row or {}), "name": name}
    return replace(record, fields={**record.fields, "name": name}, row=row, trouble="corrected")


CUSTOMERS = RecordFeed(
    table="customers",
    keys=("customer_id",),
    sequence=("updated_at",),
    every=timedelta(days=1),
    closes=timedelta(hours=5),
    file_name="customers.csv",
    encode=csv_with_header(COLUMNS),
    born=_born,
    correct=_correct,
    lookback=10,
    rewritten_every=4,
    rewritten_on=3,
    rewritten_age=1,
)
"""One CSV file a day, at five in the morning; one row per customer; rewritten the day after on every fourth day."""
