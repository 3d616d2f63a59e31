"""Path templates, found from the names of files."""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from os.path import commonpath

_PARTS = {
    "%Y": r"(?:19|20)\d\d", "%m": r"(?:0[1-9]|1[0-2])", "%d": r"(?:0[1-9]|[12]\d|3[01])", "%H": r"(?:[01]\d|2[0-3])",
}  # fmt: skip
_FORMATS = {
    "hourly": ("%Y-%m-%dT%H", "%Y-%m-%d-%H", "%Y-%m-%d_%H", "%Y-%m-%d/%H", "%Y/%m/%d/%H", "%Y%m%dT%H", "%Y%m%d%H",
               "%Y%m%d_%H", "%Y%m%d-%H", "date=%Y-%m-%d/hour=%H", "year=%Y/month=%m/day=%d/hour=%H"),
    "daily": ("%Y-%m-%d", "%Y_%m_%d", "%Y%m%d", "%Y/%m/%d", "year=%Y/month=%m/day=%d", "%Y.%m.%d", "%d-%m-%Y",
              "%d.%m.%Y"),
    "monthly": ("%Y-%m", "%Y_%m", "%Y/%m", "%Y%m", "year=%Y/month=%m"),
}  # fmt: skip
_FORMS = tuple(
    (cadence, fmt, rf"(?<!\d){re.sub('%[YmdH]', lambda found: _PARTS[found[0]], fmt)}(?!\d)")
    for cadence, formats in _FORMATS.items()
    for fmt in formats
)
"""Cadence, strftime format and pattern of the dates that names may have, the finest first."""
_DATED = "\0"


@dataclass(frozen=True)
class Named:
    """A template for files, and what it is from.

    Args:
        path: The template, for example ``{landing}/orders/{window:%Y-%m-%d}.csv``.
        cadence: ``hourly``, ``daily`` or ``monthly``; None: no date in the names.
        windows: The starts of the windows of the files, oldest first.
        files: The files that match.
        others: Those that do not.
    """

    path: str
    cadence: str | None
    windows: tuple[datetime, ...]
    files: tuple[str, ...]
    others: tuple[str, ...] = ()


def named(paths: Sequence[str], base: str) -> Named:
    """The template that most of the files have; their names are looked at below ``base``, their common folder.

    Example:
        >>> named(["/in/orders/2026-01-05.csv", "/in/orders/2026-01-06.csv"], "/in").path
        '/in/orders/{window:%Y-%m-%d}.csv'
    """
    names = sorted(paths)
    cadence, fmt, pattern = _form(names, base)
    if cadence is None:
        kinds = Counter(_extension(name) for name in names)
        usual = kinds.most_common(1)[0][0]
        mine = tuple(name for name in names if _extension(name) == usual)
        return Named(_joined(list(mine), base), None, (), mine, tuple(sorted({*names} - {*mine})))
    shapes: dict[tuple[str, int, str], list[str]] = {}
    for name in names:
        below = name[len(base) :]
        if found := re.search(pattern, below):
            bare = below[: found.start()] + _DATED + below[found.end() :]
            folder = "/" in bare.partition(_DATED)[2]  # files in a folder of a date may have any name
            kind = (bare.rpartition("/")[0] if folder else re.sub(r"\d+", "#", bare), bare.count("/"), _extension(name))
            shapes.setdefault(kind, []).append(name)
    mine = tuple(sorted(shapes.values(), key=len)[-1])
    bare_names = [re.sub(pattern, _DATED, name[len(base) :], count=1) for name in mine]
    path = _joined(bare_names, "").replace(
        _DATED, f"{{window:{fmt}}}" if "=" not in fmt and "/" not in fmt else _of(fmt)
    )
    dates = {found[0] for name in mine if (found := re.search(pattern, name[len(base) :]))}
    starts = sorted(start for date in dates if (start := _start(date, fmt)))
    return Named(f"{base}{path}", cadence, tuple(starts), mine, tuple(sorted({*names} - {*mine})))


def _form(names: Sequence[str], base: str) -> tuple[str | None, str, str]:
    """The finest form of a date that more than half of the names have."""
    for cadence, fmt, pattern in _FORMS:
        matching = [found[0] for name in names if (found := re.search(pattern, name[len(base) :]))]
        if 2 * len(matching) > len(names):
            return cadence, fmt, pattern
    return None, "", ""


def _start(date: str, fmt: str) -> datetime | None:
    with suppress(ValueError):  # the 31st of February
        return datetime.strptime(date, fmt)
    return None


def _of(fmt: str) -> str:
    """A format with time fields around its directives alone: ``year={window:%Y}/month={window:%m}``."""
    return re.sub(r"(?:%\w[-T_.]?)*%\w", lambda found: f"{{window:{found[0]}}}", fmt)


def _joined(names: Sequence[str], base: str) -> str:
    """One path for all names, with ``*`` for what differs in the last part."""
    if len({*names}) == 1:
        return names[0]
    folders = {name.rpartition("/")[0] for name in names}
    lasts = [name.rpartition("/")[2] for name in names]
    begin = _common(lasts)
    end = _common([last[len(begin) :][::-1] for last in lasts])[::-1]
    begin = re.sub(r"\d+$", "", begin)  # numbers that happen to begin alike
    end = end[end.index(".") :] if "." in end else end
    folder = folders.pop() if len(folders) == 1 else f"{commonpath(sorted(folders))}/**"
    return f"{folder}/{begin}*{end}"


def _common(texts: Sequence[str]) -> str:
    """The beginning that all texts have."""
    return "".join(letters[0] for letters in takewhile(lambda letters: len({*letters}) == 1, zip(*texts, strict=False)))


def _extension(name: str) -> str:
    last = name.rpartition("/")[2].lower()
    stem, dot, end = last.rpartition(".")
    return f"{stem.rpartition('.')[2]}.{end}" if end in ("gz", "zst") and "." in stem else end if dot else ""
