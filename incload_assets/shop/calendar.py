"""The shop's seeded calendar, which determines when and how much it trades."""

import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone

PLATFORM_AFTER = timedelta(days=7)
"""Time from the opening to the first day of the shop's platform. Its logs are large; without them opening is quick."""

_BUSY_HOURS = (1, 1, 1, 1, 1, 2, 4, 6, 8, 9, 9, 9, 10, 9, 8, 8, 9, 11, 13, 14, 12, 8, 4, 2)
_OFFSETS = (0, 60, 120, 0, -300, 330)


@dataclass(frozen=True)
class Calendar:
    """The shop's days since its opening (UTC), with reproducible random numbers for each.

    Results do not depend on when or in which steps the shop is advanced: random numbers are drawn from the seed and the
    name of their purpose, never from earlier draws. At scale 1 there are about a hundred rows per table and day.

    Example:
        >>> Calendar(date(2026, 1, 5), seed=1, scale=1.0).volume(date(2026, 1, 11), 40)  # a Sunday
        20
    """

    opened: date
    seed: int
    scale: float

    def index(self, day: date) -> int:
        """Days since the opening; 0 on the first day."""
        return (day - self.opened).days

    def days(self, first: date, last: date) -> list[date]:
        """The days of trade from ``first`` to ``last``, both included, none before the opening."""
        start = max(first, self.opened)
        return [start + timedelta(days=n) for n in range((last - start).days + 1)]

    def chance(self, *name: object) -> random.Random:
        """A separate random generator for a named purpose."""
        return random.Random("/".join(map(str, (self.seed, self.opened, *name))))

    def volume(self, day: date, base: int) -> int:
        """The number of events on a day: ``base`` on a weekday, fewer at weekends, at least one."""
        weekend = {5: 0.8, 6: 0.5}.get(day.weekday(), 1.0)
        return max(1, round(base * self.scale * weekend))

    def number(self, day: date, position: int) -> int:
        """An identifier for the ``position``-th item of a day, increasing over the days."""
        return (self.index(day) + 1) * 1_000_000 + position + 1


def midnight(day: date) -> datetime:
    """The first instant of a day, UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def moment(day: date, chance: random.Random) -> datetime:
    """A random instant on a day, more likely in the evening, to the microsecond."""
    hour = chance.choices(range(24), _BUSY_HOURS)[0]
    return midnight(day) + timedelta(hours=hour, microseconds=chance.randrange(3_600_000_000))


def span(chance: random.Random, shortest: timedelta, longest: timedelta) -> timedelta:
    """A random duration between two bounds, to the microsecond."""
    return shortest + timedelta(microseconds=chance.randrange(int((longest - shortest) / timedelta(microseconds=1))))


def clock_text(instant: datetime, chance: random.Random | None = None) -> str:
    """An instant as ISO text; with ``chance``, in a random UTC offset."""
    offset = chance.choice(_OFFSETS) if chance else 0
    local = instant.astimezone(timezone(timedelta(minutes=offset))).isoformat(timespec="microseconds")
    return local if offset else local.replace("+00:00", "Z")
