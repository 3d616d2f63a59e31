"""Prices in the database of the shop's application, as a function of the calendar alone."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

from incload_assets.shop.calendar import Calendar, midnight, moment

_FIRST_ARTICLES, _MOST_ARTICLES = 30, 999
_CHANGES = 12


@dataclass(frozen=True)
class Price:
    """An article's price in euros from an instant of the shop's clock on (UTC), unique for each article.

    An article that is discontinued is no longer sold, until a later price lists it again.
    """

    sku: str
    price: Decimal
    discontinued: bool
    valid_from: datetime


def prices(calendar: Calendar, since: datetime | None, until: datetime) -> list[Price]:
    """The prices that were set in ``(since, until]`` (UTC), in order; None is the opening."""
    days = calendar.days((since or midnight(calendar.opened)).date(), until.date())
    found = [price for day in days for price in _set_on(calendar, day)]
    return sorted((p for p in found if p.valid_from <= until and (since is None or p.valid_from > since)), key=_when)


def _set_on(calendar: Calendar, day: date) -> list[Price]:
    """The prices set on a day: all at the opening; later changes and a new article, every second day an end of sale."""
    chance, index = calendar.chance("prices", day), calendar.index(day)
    known = min(_FIRST_ARTICLES + index, _MOST_ARTICLES)

    def set_price(number: int, at: datetime, *, discontinued: bool = False) -> Price:
        return Price(f"SKU-{number:03}", Decimal(chance.randrange(99, 20_000)) / 100, discontinued, at)

    if not index:
        return [set_price(number, midnight(day) + timedelta(seconds=number)) for number in range(1, known + 1)]
    found = [set_price(chance.randrange(1, known), moment(day, chance)) for _ in range(calendar.volume(day, _CHANGES))]
    if index % 2:
        found.append(set_price(chance.randrange(1, known), moment(day, chance), discontinued=True))
    if known < _MOST_ARTICLES:
        found.append(set_price(known, moment(day, chance)))
    return list({(price.sku, price.valid_from): price for price in found}.values())


def _when(price: Price) -> tuple[datetime, str]:
    return price.valid_from, price.sku
