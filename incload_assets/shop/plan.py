"""The plan of deliveries: the files of every day, including rewritten ones."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

from incload_assets.shop.articles import ARTICLES
from incload_assets.shop.assortment import ASSORTMENT_CHANGES, ASSORTMENT_FULL
from incload_assets.shop.calendar import Calendar, midnight
from incload_assets.shop.customers import CUSTOMERS
from incload_assets.shop.events import EVENTS
from incload_assets.shop.feed import Delivery, ExportFeed, Feed, Record, RecordFeed
from incload_assets.shop.inventory import INVENTORY
from incload_assets.shop.orders import ORDERS
from incload_assets.shop.service_logs import SERVICE_LOGS
from incload_assets.shop.settings import SETTINGS
from incload_assets.shop.web_events import WEB_EVENTS

_ALL: tuple[Feed, ...] = (
    *(ORDERS, CUSTOMERS, INVENTORY, EVENTS, ARTICLES),
    *(ASSORTMENT_FULL, ASSORTMENT_CHANGES, SERVICE_LOGS, SETTINGS),
)
FEEDS: dict[str, Feed] = {feed.table: feed for feed in _ALL}
"""The feeds of files by name."""
TOPICS: dict[str, Feed] = {WEB_EVENTS.table: WEB_EVENTS}
"""The feeds of messages by name; their deliveries are batches of messages."""

_REWRITTEN_AT = timedelta(hours=10)


class TradingPlan:
    """The deliveries of a shop, as a function of its calendar alone.

    A day's deliveries come from the entities that began in the days before it, so days can be requested in any order.
    """

    def __init__(self, calendar: Calendar) -> None:
        self.calendar = calendar
        self._born: dict[tuple[str, date], list[Record]] = {}
        self._written: dict[tuple[str, date], list[Delivery]] = {}

    def due(self, since: datetime, until: datetime, tables: Iterable[str] = FEEDS) -> list[Delivery]:
        """The deliveries of feeds, by default all feeds of files, in ``(since, until]`` (UTC), in order."""
        # a file belongs to the day of its last instant, which is not before `since` if the file is due after `since`
        days = self.calendar.days(since.date(), until.date())
        found = [
            delivery
            for feed in map((FEEDS | TOPICS).__getitem__, tables)
            for day in days
            for delivery in self._on(feed, day)
            if since < delivery.due <= until
        ]
        return sorted(found, key=lambda delivery: (delivery.due, delivery.path))

    def _on(self, feed: Feed, day: date) -> list[Delivery]:
        """The files for the windows of a day, and the files that are rewritten on that day."""
        if isinstance(feed, ExportFeed):
            return self._exports(feed, day)
        assert isinstance(feed, RecordFeed)
        return [*self._first_versions(feed, day), *self._rewritten(feed, day)]

    def _exports(self, feed: ExportFeed, day: date) -> list[Delivery]:
        if (feed.table, day) not in self._written:
            self._written[feed.table, day] = [
                Delivery(
                    feed=feed,
                    window=midnight(day),
                    name=day.strftime(feed.file_name),
                    due=export.due,
                    records=export.records,
                    rewritten=number > 0,
                )
                for number, export in enumerate(feed.exports(self.calendar, day))
            ]
        return self._written[feed.table, day]

    def _first_versions(self, feed: RecordFeed, windows: date) -> list[Delivery]:
        """The files of a day's windows as first written."""
        if (feed.table, windows) not in self._written:
            # if the export closes in the morning, a window may begin on the day before
            days = self.calendar.days(windows - timedelta(days=feed.lookback + bool(feed.closes)), windows)
            by_start: dict[datetime, list[Record]] = defaultdict(list)
            for day in days:
                for record in self._records(feed, day):
                    start = _file_start(feed, record.arrives)
                    if _window(feed, start).date() == windows:
                        by_start[start].append(record)
            self._written[feed.table, windows] = [
                _delivery(feed, start, records) for start, records in sorted(by_start.items())
            ]
        return self._written[feed.table, windows]

    def _rewritten(self, feed: RecordFeed, day: date) -> list[Delivery]:
        """The file that is rewritten on a day, if any: one value is corrected and, every other time, a row removed."""
        index = self.calendar.index(day)
        if feed.correct is None or not feed.rewritten_every or index % feed.rewritten_every != feed.rewritten_on:
            return []
        files = self._first_versions(feed, day - timedelta(days=feed.rewritten_age))
        chance = self.calendar.chance(feed.table, day, "rewritten")
        candidates = [delivery for delivery in files if len(_correctable(delivery)) > 1]
        if not candidates:
            return []
        former = chance.choice(candidates)
        corrected, dropped = chance.sample(_correctable(former), 2)
        records = [feed.correct(r, chance) if r is corrected else r for r in former.records]
        if index // feed.rewritten_every % 2 == 0:
            records = [record for record in records if record is not dropped]
        due = midnight(day) + _REWRITTEN_AT
        return [replace(former, due=due, records=tuple(records), rewritten=True)]

    def _records(self, feed: RecordFeed, day: date) -> Sequence[Record]:
        if (feed.table, day) not in self._born:
            self._born[feed.table, day] = feed.born(self.calendar, day)
        return self._born[feed.table, day]


def _correctable(delivery: Delivery) -> list[Record]:
    return [r for r in delivery.records if r.row is not None and not (r.delete or r.copied)]


def _file_start(feed: RecordFeed, arrives: datetime) -> datetime:
    """The start of the half-open interval that the file of a record covers."""
    first = midnight(arrives.date()) + feed.closes - timedelta(days=1)
    return first + (arrives - first) // feed.every * feed.every


def _window(feed: RecordFeed, start: datetime) -> datetime:
    """The start of a file's window, which contains the last instant that the file covers."""
    last = start + feed.every - timedelta(microseconds=1)
    day = midnight(last.date())
    return day + (last - day) // feed.window * feed.window


def _delivery(feed: RecordFeed, start: datetime, records: list[Record]) -> Delivery:
    return Delivery(
        feed=feed,
        window=_window(feed, start),
        name=start.strftime(feed.file_name),
        due=start + feed.every,
        records=tuple(sorted(records, key=lambda record: record.arrives)),
    )
