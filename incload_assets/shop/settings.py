"""Settings of the shop's services: full extracts, rewritten whenever a setting has changed.

They contain secrets only as keyed hashes, with which a service can verify that it has the right secret.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import count
from random import Random
from typing import Any

from incload_assets.shop.calendar import PLATFORM_AFTER, Calendar, clock_text, midnight
from incload_assets.shop.feed import Export, ExportFeed, Record, json_lines
from incload_assets.shop.service_logs import SERVICES

_NAMES = ("api_key", "timeout_ms", "retries", "currency")
_SECRET = "api_key"
_EVENTS = ("changed", "removed", "added", "changed")
"""The kinds of changes to a random setting, in turn."""
_BROKEN: tuple[dict[str, Any], ...] = ({"value": "correct horse battery staple"}, {"changed_at": "yesterday"})
"""The wrong field of one secret in a broken export, by day in turn: the plain secret, or an invalid time."""
_TROUBLES = ("plain secret", "wrong type")
_FIRST_EXPORT = timedelta(minutes=1)


@dataclass(frozen=True)
class _Setting:
    name: str
    value: str
    changed_at: datetime

    @property
    def is_secret(self) -> bool:
        return self.name.endswith(_SECRET)

    def record(self, exported: datetime) -> Record:
        fields = {"name": self.name, "value": self.value, "is_secret": self.is_secret}
        row = {
            **fields,
            "value": None if self.is_secret else self.value,
            "secret_hash": self.value if self.is_secret else None,
            "changed_at": self.changed_at,
        }
        return Record(arrives=exported, fields={**fields, "changed_at": clock_text(self.changed_at)}, row=row)


_Settings = dict[int, _Setting]


def _setting(number: int, at: datetime, chance: Random) -> _Setting:
    service, name = SERVICES[number % len(SERVICES)], _NAMES[number // len(SERVICES) % len(_NAMES)]
    return _with_value(_Setting(f"{service}.{number}.{name}", "", at), at, chance)


def _with_value(setting: _Setting, at: datetime, chance: Random) -> _Setting:
    """The setting with another value; for a secret only a hash exists, the secret itself does not."""
    value = f"hmac-sha256:{chance.getrandbits(256):064x}" if setting.is_secret else str(chance.randrange(100_000))
    return replace(setting, value=value, changed_at=at)


@dataclass(frozen=True)
class _State:
    """All settings after a change, and the pause until the next one."""

    at: datetime
    settings: _Settings
    pause: timedelta


def _states(calendar: Calendar, last: date) -> Iterator[_State]:
    """The settings after each change, from the platform's first day to the last requested day."""
    first = calendar.opened + PLATFORM_AFTER
    chance, start = calendar.chance("settings"), midnight(first)
    held = {number: _setting(number, start, chance) for number in range(max(8, calendar.volume(first, 40)))}
    happened, created = count(), count(len(held))
    for day in calendar.days(first, last):
        changes = calendar.volume(day, 12)
        pause = timedelta(days=1) / (changes + 1)
        yield _State(midnight(day) + _FIRST_EXPORT, held, pause)
        for position in range(1, changes + 1):
            chance = calendar.chance("settings", day, position)
            at = midnight(day) + (position + chance.uniform(0.1, 0.5)) * pause
            held = _after(held, _EVENTS[next(happened) % len(_EVENTS)], at, created, chance)
            yield _State(at, held, pause)


def _after(held: _Settings, event: str, at: datetime, created: "count[int]", chance: Random) -> _Settings:
    if event == "added":
        number = next(created)
        return {**held, number: _setting(number, at, chance)}
    number = chance.choice(list(held)[1:])  # the first one, a secret, is kept for the broken exports
    if event == "removed":
        return {other: setting for other, setting in held.items() if other != number}
    return {**held, number: _with_value(held[number], at, chance)}


def _exports(calendar: Calendar, day: date) -> list[Export]:
    if calendar.index(day) < PLATFORM_AFTER.days:
        return []
    states = [state for state in _states(calendar, day) if state.at.date() == day]
    exports = [_export(state, state.at) for state in states]
    breaks = min(2, len(states) - 1)
    broken, kind = exports[breaks], calendar.index(day) % len(_BROKEN)
    first = broken.records[0]
    wrong = replace(first, fields={**first.fields, **_BROKEN[kind]}, row=None, trouble=_TROUBLES[kind])
    repaired = _export(states[breaks], broken.due + 0.3 * states[breaks].pause)
    return [*exports[:breaks], replace(broken, records=(wrong, *broken.records[1:])), repaired, *exports[breaks + 1 :]]


def _export(state: _State, due: datetime) -> Export:
    return Export(due=due, records=tuple(setting.record(due) for setting in state.settings.values()))


SETTINGS = ExportFeed(
    table="settings",
    keys=("name",),
    encode=json_lines,
    folder="",
    file_name="%Y-%m-%d.json",
    exports=_exports,
)
"""JSON lines, one file a day, rewritten several times; one row per setting; from the platform's first day on."""
