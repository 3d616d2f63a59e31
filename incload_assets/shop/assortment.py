"""The stores' assortment: files of changes, and every third day a full extract, because some changes get lost."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from random import Random

from incload_assets.shop.calendar import Calendar, clock_text, midnight
from incload_assets.shop.feed import Export, ExportFeed, Record, RecordFeed, csv_with_header, json_lines, send_twice

COLUMNS = ("store", "sku", "shelves", "as_of")
"""The header of the full extract."""

_STORES = ("STO", "BER", "LIS")
_ARTICLES = 25
_CHANGES = 60
_FULL_EVERY, _FULL_AT = 3, timedelta(hours=1)
_LOST, _REPEATED, _LATE = 0.05, 0.1, 0.15
"""Upper bounds of a random number for a change that is lost, sent twice, or hours late; above, it is sent at once."""
_MINUTES, _HOURS = timedelta(minutes=1), timedelta(hours=1)

_Place = tuple[str, str]


@dataclass(frozen=True)
class _Change:
    place: _Place
    shelves: int | None
    at: datetime

    def record(self) -> Record:
        """The record that is sent; an article that is removed from a store has no shelves there."""
        record = _record(self.place, self.shelves or 0, self.at)
        fields = {**record.fields, "op": "d" if self.shelves is None else "u"}
        return replace(record, fields=fields, delete=self.shelves is None)


def _record(place: _Place, shelves: int, as_of: datetime) -> Record:
    row = {"store": place[0], "sku": place[1], "shelves": shelves, "as_of": as_of}
    return Record(arrives=as_of + timedelta(seconds=1), fields={**row, "as_of": clock_text(as_of)}, row=row)


def _opening(calendar: Calendar) -> dict[_Place, int]:
    chance = calendar.chance("assortment")
    places = [(store, f"SKU-{number:03}") for store in _STORES for number in range(1, _ARTICLES + 1)]
    return {place: chance.randrange(1, 5) for place in places if chance.random() < 0.8}


def _changes(calendar: Calendar, day: date) -> list[_Change]:
    """The changes of a day, in order; a place is filled, resized or cleared, regardless of its earlier state."""
    chance = calendar.chance("assortment", day)
    count = calendar.volume(day, _CHANGES)
    pause = timedelta(days=1) / (count + 1)
    found = []
    for number in range(1, count + 1):
        place = (chance.choice(_STORES), f"SKU-{chance.randrange(1, _ARTICLES + 1):03}")
        shelves = None if chance.random() < 0.25 else chance.randrange(1, 9)
        at = midnight(day) + (number + chance.uniform(0.1, 0.5)) * pause
        found.append(_Change(place, shelves, at.replace(microsecond=0)))
    return found


def _sent(change: _Change, chance: Random) -> Iterator[Record]:
    record, fate = change.record(), chance.random()
    if fate < _LOST:
        return
    if fate < _REPEATED:
        yield from send_twice(record, 40 * _MINUTES)
    elif fate < _LATE:
        yield replace(record, arrives=record.arrives + 9 * _HOURS, trouble="late")
    else:
        yield record


def _born(calendar: Calendar, day: date) -> list[Record]:
    chance = calendar.chance("assortment", day, "sent")
    records = [record for change in _changes(calendar, day) for record in _sent(change, chance)]
    wrong = _record(("OSL", "SKU-001"), 1, midnight(day) + 20 * _HOURS)
    bad = replace(wrong, fields={**wrong.fields, "op": "u"}, row=None, trouble="value outside the set")
    return [*records, bad]


def _exports(calendar: Calendar, day: date) -> list[Export]:
    if calendar.index(day) % _FULL_EVERY:
        return []
    as_of, held = midnight(day) + _FULL_AT, _opening(calendar)
    for each in calendar.days(calendar.opened, day):
        for change in _changes(calendar, each):
            if change.at < as_of:
                held.pop(change.place, None)
                if change.shelves is not None:
                    held[change.place] = change.shelves
    records = tuple(_record(place, shelves, as_of) for place, shelves in sorted(held.items()))
    return [Export(due=as_of + 5 * _MINUTES, records=records)]


ASSORTMENT_FULL = ExportFeed(
    table="assortment_full",
    part_of="assortment",
    keys=("store", "sku"),
    encode=csv_with_header(COLUMNS),
    file_name="assortment.csv",
    exports=_exports,
)
"""One CSV file on every third day, an hour past midnight; one row per article and store."""

ASSORTMENT_CHANGES = RecordFeed(
    table="assortment_changes",
    part_of="assortment",
    keys=("store", "sku"),
    sequence=("as_of",),
    every=timedelta(hours=2),
    file_name="changes-%H.json",
    encode=json_lines,
    born=_born,
    lookback=1,
)
"""JSON lines every two hours; one line per change."""
