"""Logs of the shop's services: one line per request, shipped every minute as gzipped JSON lines."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

from incload_assets.shop.calendar import PLATFORM_AFTER, Calendar, clock_text, midnight, span
from incload_assets.shop.feed import Record, RecordFeed, gzipped_json_lines, send_twice

SERVICES = ("cart", "checkout", "login", "payments", "search")
_STATUSES = (200, 200, 200, 201, 204, 302, 404, 429, 500, 503)
_SECONDS, _MINUTES = timedelta(seconds=1), timedelta(minutes=1)
_MINUTES_A_DAY = 24 * 60
_BAD_AT = 40
"""Minute at which the bad line of an hour is sent, when the hour's window already has enough good lines."""


def _line(start: datetime, position: int, chance: Random) -> Record:
    logged_at, status = start + span(chance, timedelta(0), _MINUTES), chance.choice(_STATUSES)
    row = {
        "log_id": f"{start:%Y%m%dT%H%M}-{position:04}",
        "service": chance.choice(SERVICES),
        "level": "ERROR" if status >= 500 else "WARN" if status >= 400 else "INFO",
        "status": status,
        "latency_ms": round(chance.lognormvariate(4, 1)),
        "logged_at": logged_at,
        "logged_hour": logged_at.replace(minute=0, second=0, microsecond=0),
    }
    fields = {name: value for name, value in row.items() if name != "logged_hour"} | {
        "logged_at": clock_text(logged_at)
    }
    return Record(arrives=logged_at + span(chance, timedelta(0), 5 * _SECONDS), fields=fields, row=row)


def _shipped(line: Record, chance: Random) -> Iterator[Record]:
    fate = chance.random()
    if fate < 0.02:  # a node that was disconnected for a while
        yield replace(line, arrives=line.arrives + span(chance, 2 * _MINUTES, 40 * _MINUTES), trouble="late")
    elif fate < 0.05:  # a shipper that missed the acknowledgement of its lines
        yield from send_twice(line, span(chance, 30 * _SECONDS, 3 * _MINUTES))
    else:
        yield line


def _bad(line: Record, hour: int) -> Record:
    """A line that the contract rejects: truncated because the disk was full, or with a value of the wrong type."""
    if hour % 2:
        cut = json.dumps(dict(line.fields))[:-30]
        return replace(line, row=None, trouble="malformed", raw=cut)
    wrong: dict[str, Any] = {**line.fields, "latency_ms": "fast"}
    return replace(line, row=None, trouble="wrong type", fields=wrong)


def _born(calendar: Calendar, day: date) -> list[Record]:
    if calendar.index(day) < PLATFORM_AFTER.days:
        return []
    records: list[Record] = []
    a_minute = calendar.volume(day, 4 * _MINUTES_A_DAY) / _MINUTES_A_DAY
    for minute in range(_MINUTES_A_DAY):
        chance, start = calendar.chance("service_logs", day, minute), midnight(day) + minute * _MINUTES
        lines = max(1, round(a_minute * chance.uniform(0.5, 1.5)))
        for position in range(lines):
            records += _shipped(_line(start, position, chance), chance)
        hour, past = divmod(minute, 60)
        if past == _BAD_AT and hour % 3 == 0:
            records.append(_bad(_line(start, lines, chance), hour))
    return records


SERVICE_LOGS = RecordFeed(
    table="service_logs",
    keys=("log_id",),
    sequence=("logged_at",),
    every=timedelta(minutes=1),
    window=timedelta(hours=1),
    folder="%Y-%m-%dT%H",
    partition="%Y-%m-%d-%H:%M",
    file_name="log-%M.json.gz",
    encode=gzipped_json_lines,
    born=_born,
    lookback=1,
)
"""Gzipped JSON lines every minute, in hourly folders; one row per line; from the platform's first day on."""
