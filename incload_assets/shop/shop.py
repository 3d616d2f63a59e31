"""The sample shop: as its clock advances, it writes files, sets prices in its database and sends events to Kafka."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from incload_assets.declaration.window import now as real_now
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.settings import Settings
from incload_assets.shop.calendar import Calendar, midnight
from incload_assets.shop.clock import Clock
from incload_assets.shop.database import write_prices
from incload_assets.shop.feed import Delivery, Record
from incload_assets.shop.landing import write_file
from incload_assets.shop.plan import FEEDS, TOPICS, TradingPlan
from incload_assets.shop.stream import TOPIC, send_web_events
from incload_assets.shop.truth import Key, Truth, truth

_DAY = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Written:
    """One file that was written: path under the landing root, number of records, bytes, unusual records by kind."""

    table: str
    partition: str
    path: str
    rows: int
    size: int
    rewritten: bool
    troubles: Counter[str]


@dataclass(frozen=True, kw_only=True)
class Advance:
    """The result of one advance of the shop, between two instants in UTC.

    ``prices`` were set in the database, ``messages`` were sent to Kafka. A failure says why none were, so that the next
    advance makes up for it; None if they were. Troubles are numbers of unusual records by kind.
    """

    since: datetime
    now: datetime
    files: tuple[Written, ...]
    prices: int = 0
    database_failure: str | None = None
    messages: int = 0
    message_troubles: Counter[str] = field(default_factory=Counter)
    kafka_failure: str | None = None

    @property
    def rows(self) -> dict[str, int]:
        """Numbers of written records by table; 0 for a table without any."""
        in_files = {table: sum(file.rows for file in self.files if file.table == table) for table in FEEDS}
        return {**in_files, "prices": self.prices, TOPIC: self.messages}

    @property
    def troubles(self) -> Counter[str]:
        """Numbers of unusual records by kind."""
        return sum((file.troubles for file in self.files), self.message_troubles)


class Shop:
    """The sample shop of a home folder.

    Its behaviour depends only on the opening day, the seed and the scale: advanced by days or by minutes, twice or
    after a crash, it writes the same bytes under the same names, sets the same prices in its database, and sends the
    same events. If the database or Kafka is not available, it trades without it.

    Args:
        opened: First day of trade, UTC; needed, as are seed and scale, only when the shop opens. Default: a week
            before today. A shop that opened with other parameters raises IncrementalLoadError.
        scale: Volume relative to about a hundred rows per table and day.
        present: Returns the real time, beyond which the shop never trades.
        patience: How long to wait for another process that advances the shop.

    Example:
        >>> shop = Shop(Settings(home="/tmp/home"), opened=date(2026, 1, 5))
        >>> shop.advance(days=1).now.isoformat()
        '2026-01-06T00:00:00+00:00'
    """

    def __init__(
        self,
        settings: Settings,
        *,
        opened: date | None = None,
        seed: int | None = None,
        scale: float | None = None,
        present: Callable[[], datetime] = real_now,
        patience: timedelta = timedelta(seconds=30),
    ) -> None:
        self._clock = Clock(settings)
        opening = self._clock.opening(opened=opened, seed=seed, scale=scale)
        self._plan = TradingPlan(Calendar(opening.opened, opening.seed, opening.scale))
        self._settings, self._landing = settings, settings.landing_root
        self._present, self._patience = present, patience

    @property
    def opened(self) -> date:
        """First day of trade, UTC."""
        return self._plan.calendar.opened

    @property
    def now(self) -> datetime:
        """How far the shop has traded, UTC."""
        return self._clock.read()

    def behind(self) -> timedelta:
        """How far the shop's clock is behind the present; never negative."""
        return max(self._present() - self.now, timedelta(0))

    def next_due(self) -> datetime:
        """When the next file is due, UTC."""
        since = self.now
        reach = timedelta(hours=1)
        while not (deliveries := self._plan.due(since, since + reach)):
            reach *= 2
        return deliveries[0].due

    def advance(self, days: int = 0, minutes: int = 0, *, until: datetime | None = None) -> Advance:
        """Advances the shop by days and minutes or to an aware instant: writes files, sets prices and sends events.

        The clock is saved last: after a crash the same files are written again, with the same content. The database
        itself records which prices it has, and the topic which events. Raises ShopBusy if another process is advancing
        it, IncrementalLoadError if a length is negative, or the landing area cannot be written.
        """
        if days < 0 or minutes < 0:
            raise IncrementalLoadError(
                f"shop: cannot advance by {days} days and {minutes} minutes",
                rule="the shop only trades forward",
                remedy="give 0 or more for both",
            )
        with self._clock.held(self._patience):
            since = self.now
            wanted = until or since + timedelta(days=days, minutes=minutes)
            reached = max(since, min(wanted, self._present()))
            # if a file is written and rewritten in between, only its last version
            newest = {delivery.path: delivery for delivery in self._plan.due(since, reached)}
            files = tuple(self._write(delivery) for delivery in newest.values())
            prices, failure = self._set_prices(reached)
            sent, kafka_failure = self._send_events(reached)
            self._clock.save(reached)
        return Advance(
            since=since,
            now=reached,
            files=files,
            prices=prices,
            database_failure=failure,
            messages=len(sent),
            message_troubles=_troubles(sent),
            kafka_failure=kafka_failure,
        )

    def catch_up(self, step: timedelta = _DAY) -> Iterator[Advance]:
        """Advances the shop to the present in steps, and yields the result of each."""
        end = self._present()
        while (since := self.now) < end:
            yield self.advance(until=min(since + step, end))

    def expected(self, table_name: str, until: datetime | None = None) -> dict[Key, dict[str, Any]]:
        """The expected rows of a table after all that the shop sent until an instant (UTC; default: now) is loaded.

        The keys are tuples; the values are in Python's types, instants aware and in UTC.
        """
        return self._truth(table_name, until).rows

    def quarantined(self, table_name: str, until: datetime | None = None) -> dict[str, int]:
        """The expected numbers of rejected records of a table by partition key, without partitions that have none.

        For messages, by the hour in which they were due by the shop's clock.
        """
        return self._truth(table_name, until).quarantined

    def _truth(self, table_name: str, until: datetime | None) -> Truth:
        feeds = FEEDS | TOPICS
        if table_name not in feeds:
            raise IncrementalLoadError(
                f"shop: there is no table {table_name!r}",
                rule=f"its tables are {', '.join(feeds)}",
                remedy="name one of them",
            )
        since = midnight(self.opened)
        return truth(feeds[table_name], self._plan.due(since, until or self.now, [table_name]))

    def _set_prices(self, until: datetime) -> tuple[int, str | None]:
        try:
            return write_prices(self._settings, self._plan.calendar, until), None
        except IncrementalLoadError as error:
            return 0, str(error)

    def _send_events(self, until: datetime) -> tuple[list[Record], str | None]:
        try:
            return send_web_events(self._settings, self._plan, until), None
        except IncrementalLoadError as error:
            return [], str(error)

    def _write(self, delivery: Delivery) -> Written:
        content = delivery.content()
        write_file(self._landing, delivery.path, content)
        return Written(
            table=delivery.feed.table,
            partition=delivery.partition,
            path=delivery.path,
            rows=len(delivery.records),
            size=len(content),
            rewritten=delivery.rewritten,
            troubles=_troubles(delivery.records),
        )


def _troubles(records: Iterable[Record]) -> Counter[str]:
    return Counter(record.trouble for record in records if record.trouble)
