"""The shop's state: when it opened and how far it has traded, in two small files in the home folder."""

import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from incload_assets.declaration.window import now
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.local_servers.locks import exclusive
from incload_assets.platform.settings import Settings
from incload_assets.platform.whole_files import replace_file
from incload_assets.shop.calendar import PLATFORM_AFTER, midnight

_OPENED_BEFORE_TODAY = timedelta(days=7)
_OPENING_PATIENCE = timedelta(seconds=30)
_DEFAULT_SEED, _DEFAULT_SCALE = 20, 1.0


class ShopBusy(IncrementalLoadError):
    """Raised if another process is advancing the shop."""

    transient = True


@dataclass(frozen=True)
class Opening:
    """The parameters that are fixed when the shop opens and determine everything it does; days are in UTC.

    ``founded`` is the real day of the first use, before which the shop's database is empty; if the first day of trade
    was configured, that day.
    """

    opened: date
    seed: int
    scale: float
    founded: date


def opening_date(settings: Settings | None = None) -> date:
    """The first day of trade, UTC: a week before the first use, or ``INCLOAD_SHOP_OPENED``."""
    return Clock(settings or Settings()).opening().opened


def founding_date(settings: Settings | None = None) -> date:
    """The first real day, UTC, on which the shop's database may have been written."""
    return Clock(settings or Settings()).opening().founded


def platform_date(settings: Settings | None = None) -> date:
    """The first day of the shop's platform (logs and settings), UTC: a week after the opening, so by default today."""
    return opening_date(settings) + PLATFORM_AFTER


class Clock:
    """The shop's state files, under ``<home>/shop``."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.home_root / "shop"

    def opening(self, *, opened: date | None = None, seed: int | None = None, scale: float | None = None) -> Opening:
        """The shop's opening, fixed by the first call in any process; other parameters are refused later."""
        opened = opened or _opened_by_environment()
        file = self._folder / "opening.json"
        if not file.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            with _alone(self._folder / "opening.lock", _OPENING_PATIENCE):
                if not file.exists():
                    today = now().date()
                    chosen = Opening(
                        opened or today - _OPENED_BEFORE_TODAY,
                        _DEFAULT_SEED if seed is None else seed,
                        _DEFAULT_SCALE if scale is None else scale,
                        opened or today,  # the same on all machines with the same configuration
                    )
                    replace_file(file, json.dumps(asdict(chosen), default=str).encode())
        facts = _read(file)
        founded = facts.get("founded", facts["opened"])
        opening = Opening(
            date.fromisoformat(facts["opened"]), facts["seed"], facts["scale"], date.fromisoformat(founded)
        )
        for name, asked in {"opened": opened, "seed": seed, "scale": scale}.items():
            if asked is not None and asked != getattr(opening, name):
                raise IncrementalLoadError(
                    f"shop: {name} is {asked} now and was {getattr(opening, name)} when the shop opened ({file})",
                    rule="a shop keeps its opening day, seed and scale, which determine every file it writes",
                    remedy=f"use {getattr(opening, name)}, or remove the landing area, the lake and "
                    f"{self._folder} to open another shop",
                )
        return opening

    def read(self) -> datetime:
        """How far the shop has traded, UTC; the midnight of its opening if it has not traded yet."""
        file = self._folder / "clock.json"
        if not file.exists():
            return midnight(self.opening().opened)
        return datetime.fromisoformat(_read(file)["now"])

    def save(self, instant: datetime) -> None:
        """Stores how far the shop has traded."""
        replace_file(self._folder / "clock.json", json.dumps({"now": instant.astimezone(UTC).isoformat()}).encode())

    def held(self, patience: timedelta) -> AbstractContextManager[None]:
        """A lock that prevents other processes from advancing; the system releases it if this process dies.

        Raises ShopBusy if another process holds it for longer than ``patience``.
        """
        return _alone(self._folder / "clock.lock", patience)


@contextmanager
def _alone(lock: Path, patience: timedelta) -> Iterator[None]:
    with exclusive(lock, patience.total_seconds()) as held:
        if not held:
            raise ShopBusy(
                f"shop: another process has been advancing it for more than {patience.total_seconds():g} s ({lock})",
                rule="only one process at a time advances the shop",
                remedy="wait until it is done and try again",
            )
        yield


def _opened_by_environment() -> date | None:
    text = os.environ.get("INCLOAD_SHOP_OPENED")
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise IncrementalLoadError(
            f"shop: INCLOAD_SHOP_OPENED is {text!r}", rule="it is a date", remedy="write it as 2026-01-31"
        ) from None


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except ValueError as error:
        raise IncrementalLoadError(
            f"shop: {file} is not JSON: {error}",
            remedy=f"restore the file, or remove the landing area, the lake and {file.parent} to open another shop",
        ) from error
