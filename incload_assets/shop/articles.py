"""Articles: the master data of the shop's ERP, as Debezium events shipped as JSON lines."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from incload_assets.shop.calendar import Calendar, midnight, moment, span
from incload_assets.shop.feed import Record, RecordFeed, json_lines, send_twice
from incload_assets.sources.debezium.types import UNAVAILABLE

SOURCE_TABLE = "public.articles"

_WORDS = ("sturdy", "light", "hand-made", "washable", "blue", "folding", "quiet", "spare", "small", "classic")
_THINGS = ("lamp", "kettle", "chair", "rug", "mirror", "shelf", "fan", "clock")
_MINUTES, _HOURS, _DAYS = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_FIRST_LSN = datetime(2020, 1, 1, tzinfo=UTC)

_RENUMBERED, _REPLAYED, _LATE, _DESCRIBED, _DISCONTINUED = range(5)
_GROUP = 9


@dataclass(frozen=True)
class _Article:
    sku: str
    name: str
    price: Decimal
    description: str

    def image(self, *, described: bool) -> dict[str, Any]:
        """The row image in an event; a large value that an update does not change is not in PostgreSQL's log."""
        values = {"sku": self.sku, "name": self.name, "price": str(self.price)}
        return {**values, "description": self.description if described else UNAVAILABLE}


def _event(article: _Article, op: str, at: datetime, *, described: bool = True) -> Record:
    """An event for a row, with a position in PostgreSQL's log that is derived from the time."""
    place = (at - _FIRST_LSN) // timedelta(microseconds=1)
    image = article.image(described=described)
    blank: Mapping[str, Any] = {**dict.fromkeys(image), "sku": article.sku}
    source = {
        "connector": "postgresql", "name": "erp", "db": "erp", "schema": "public", "table": "articles",
        "snapshot": "true" if op == "r" else "false", "lsn": place, "txId": place % 2**31, "ts_us": _micros(at),
        "ts_ms": _micros(at) // 1000,
        "sequence": f'[null, "{place}"]' if op == "r" else f'["{place - 1}", "{place}"]',
    }  # fmt: skip
    fields = {
        "before": blank if op == "d" else None,
        "after": None if op == "d" else image,
        "source": source,
        "op": op,
        "ts_ms": _micros(at) // 1000,
    }
    row = {**vars(article), "cdc_sequence": f"{place:016X}/{0 if op == 'r' else place:016X}"}
    return Record(arrives=at + timedelta(seconds=2), fields=fields, row=row, delete=op == "d")


def _micros(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _article(calendar: Calendar, day: date, position: int, chance: Random) -> _Article:
    words = chance.sample(_WORDS, 2)
    name = f"{words[0]} {chance.choice(_THINGS)}"
    return _Article(
        sku=f"A-{calendar.number(day, position)}",
        name=name,
        price=Decimal(chance.randrange(99, 20_000)) / 100,
        description=_described(name, chance),
    )


def _described(name: str, chance: Random) -> str:
    return f"A {name}: {', '.join(chance.choices(_WORDS, k=40))}."


def _life(article: _Article, op: str, at: datetime, group: int, chance: Random) -> Iterator[Record]:
    """The events of an article: it is listed, its price changes, and then one more thing may happen."""
    yield _event(article, op, at)
    at += span(chance, 10 * _MINUTES, _DAYS)
    article = replace(article, price=article.price + 1)
    changed = _event(article, "u", at, described=False)
    if group == _LATE:  # arrives with a file of the next day
        yield replace(changed, arrives=changed.arrives + span(chance, 20 * _HOURS, _DAYS), trouble="late")
    elif group == _REPLAYED:  # the connector was killed before it had stored its progress
        yield from send_twice(changed, span(chance, _MINUTES, 3 * _HOURS))
    else:
        yield changed
    at += span(chance, 10 * _MINUTES, _DAYS)
    if group == _RENUMBERED:
        renumbered = replace(article, sku=f"{article.sku}-N")
        yield _event(article, "d", at)
        yield replace(_event(renumbered, "c", at, described=False), trouble="new key")
    elif group == _DESCRIBED:
        yield _event(replace(article, description=_described(article.name, chance)), "u", at)
    elif group == _DISCONTINUED:
        yield _event(article, "d", at)


def _bad(calendar: Calendar, day: date) -> Record:
    """A truncated event, or one without a position; sent late in the day, when there are enough good events."""
    chance = calendar.chance("articles", day, "bad")
    record = _event(_article(calendar, day, 900_000, chance), "c", moment(day, chance))
    arrives = record.arrives.replace(hour=max(20, record.arrives.hour))
    if calendar.index(day) % 2:
        cut = json_lines([record]).decode()[:60]
        return replace(record, arrives=arrives, row=None, trouble="malformed", raw=cut)
    source = {**record.fields["source"], "lsn": None, "sequence": None}
    return replace(record, arrives=arrives, row=None, trouble="no sequence", fields={**record.fields, "source": source})


def _born(calendar: Calendar, day: date) -> list[Record]:
    records: list[Record] = []
    for position in range(calendar.volume(day, 30)):
        chance = calendar.chance("articles", day, position)
        group = (calendar.index(day) + position) % _GROUP
        first_day = day == calendar.opened
        # the connector begins with a Debezium snapshot of the existing rows
        at = midnight(day) + _MINUTES if first_day else moment(day, chance)
        records += _life(_article(calendar, day, position, chance), "r" if first_day else "c", at, group, chance)
    return [*records, _bad(calendar, day)]


ARTICLES = RecordFeed(
    table="articles",
    keys=("sku",),
    sequence=("cdc_sequence",),
    every=timedelta(hours=2),
    file_name="events-%H.json",
    encode=json_lines,
    born=_born,
    lookback=5,
)
"""JSON lines every two hours; one event per change; a row keeps its large description when it gets a new number."""
