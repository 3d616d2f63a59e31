"""Path templates, which assign the keys of a store to windows.

A template is a path with

- ``{landing}`` at its start: the root of the landing area,
- ``{window:%Y-%m-%d}``, any number of times: the start of the window in the time zone of the table's partitions, in the
  strftime directives below; ``{window_utc:%Y-%m-%d}``: the start in UTC, for files that are named by UTC,
- ``*`` and ``?`` within a name, and ``**`` between two slashes for any number of folders, including none.

Everything else is literal, including square brackets. A glob never matches a name that begins with ``.`` or ``_``
(``_SUCCESS``, ``_temporary``, ``.staging``). Files with such names are hidden from Spark as well, so no path may end in
one; a folder may have such a name. If ``*`` leaves several choices for the time in a name, the leftmost counts, so each
file belongs to one window at most. The time fields must distinguish all windows, and may not include directives of the
time of day beyond that.
"""

import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Literal

from incload_assets.declaration.window import Window
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.object_stores import STORES, better_address, with_own_scheme
from incload_assets.sources.files.names import check_last

DIRECTIVES: Mapping[str, str] = {
    "Y": r"\d{4}", "m": r"\d\d", "d": r"\d\d", "H": r"\d\d", "M": r"\d\d", "S": r"\d\d",
    "j": r"\d{3}", "y": r"\d\d", "G": r"\d{4}", "V": r"\d\d", "u": r"\d", "%": "%",
}  # fmt: skip
"""Strftime directives of fixed width that mean the same on every machine, with their patterns."""

_BETWEEN = "/"  # which is in no time
_EXAMPLE = "for example {window:%Y-%m-%d}"
_ADDRESSES = ", ".join(kind.form for kind in STORES)


@dataclass(frozen=True)
class Part:
    """One piece of a template: its kind and its text; for a time, the strftime format, and whether it is in UTC."""

    kind: Literal["text", "time", "glob"]
    text: str
    in_utc: bool = False

    def of(self, window: Window) -> str:
        """The text of the piece, which is not a glob, for a window."""
        if self.kind == "text":
            return self.text
        return (window.start if self.in_utc else window.local_start).strftime(self.text)


@dataclass(frozen=True)
class Template:
    """A parsed template: the folder, or path in an object store, of ``{landing}`` (empty if unused), and all pieces."""

    root: str
    parts: tuple[Part, ...]

    @classmethod
    def parse(cls, table_name: str, path: str, landing_root: str) -> "Template":
        """Parses a template as declared; refuses one that breaks a rule of this module, with what to write instead."""
        root = ""
        if path.startswith("{landing}/"):
            root, path = absolute(landing_root), path.removeprefix("{landing}").lstrip("/")
        elif re.match(r"[a-z0-9]+://[^/{}*?]+/", path) and better_address(path) is None:
            path = absolute(path)
        elif not path.startswith("/"):
            raise _wrong(
                table_name, f"path {path!r} does not begin with a root",
                f"a path begins with {{landing}}/, a slash, or the address of an object store: {_ADDRESSES}",
                f"write '{{landing}}/{path.lstrip('/') or 'orders/*.json'}'",
            )  # fmt: skip
        scheme, _, rest = path.rpartition("://")
        rest = re.sub(r"/{2,}", "/", re.sub(r"\{(\w+):([^{}]*)\}", _with_slashes_outside, rest))
        if ".." in rest.split("/") or "." in rest.split("/"):
            raise _wrong(
                table_name, f"path {path!r} has a '.' or '..' folder", "a path names its folders", "write them out"
            )
        if any("**" in name and name != "**" for name in rest.split("/")):
            raise _wrong(
                table_name, f"path {path!r} has ** inside a name", "** stands alone between two slashes",
                "write * within a name, /**/ for any number of folders",
            )  # fmt: skip
        check_last(table_name, path, rest.rpartition("/")[2])
        text = f"{scheme}://{rest}" if scheme else rest
        parts = tuple(part for piece in re.split(r"(\{[^{}]*\})", text) for part in _parts_of(table_name, path, piece))
        return cls(root, (Part("text", f"{root}/"), *parts) if root else parts)

    @property
    def is_flat(self) -> bool:
        """True if the path has no time fields."""
        return not any(part.kind == "time" for part in self.parts)

    @property
    def in_utc(self) -> "Template":
        """The same template with its time fields in UTC."""
        return replace(self, parts=tuple(replace(part, in_utc=True) for part in self.parts))

    @property
    def base(self) -> str:
        """The folder with the files of all windows: the landing root, or the part before the first field."""
        return self.parts[0].text.rpartition("/")[0]

    @property
    def enters_hidden_folders(self) -> bool:
        """True if the template has a folder with a hidden name after a glob."""
        globs = [index for index, part in enumerate(self.parts) if part.kind == "glob"]
        after = "".join(part.text for part in self.parts[globs[0] :]) if globs else ""
        return re.search(r"/[._].*/", after, re.DOTALL) is not None

    def name_of(self, path: str) -> str:
        """The key of a full path in positions and ``_source.file``: relative to the landing root if there is one.

        So a landing area can be moved, or read on another machine, and its files keep their keys.
        """
        return path.removeprefix(f"{self.root}/") if self.root else path

    def path_of(self, key: str) -> str:
        """The full path of a key."""
        return f"{self.root}/{key}" if self.root else key

    def times_of(self, window: Window) -> tuple[str, ...]:
        """The texts of the template's time fields for a window."""
        times = [part for part in self.parts if part.kind == "time"]
        if len({part.in_utc for part in times}) != 1:
            return tuple(part.of(window) for part in times)
        together = Part("time", _BETWEEN.join(part.text for part in times), times[0].in_utc)
        return tuple(together.of(window).split(_BETWEEN))  # one instead of one per field: there are many windows

    def prefix_of(self, window: Window) -> str:
        """The literal beginning of the full paths of a window, up to the first glob."""
        times, prefix = iter(self.times_of(window)), ""
        for part in self.parts:
            if part.kind == "glob":
                break
            prefix += next(times) if part.kind == "time" else part.text
        return prefix

    def depth_below(self, folder: str) -> int | None:
        """Largest depth of a window's files below ``folder``, in folders; None if it is unlimited."""
        if any(part.text == "**" for part in self.parts):
            return None
        whole = sum(part.text.count("/") for part in self.parts)  # the text of a time has no slash
        return whole - folder.count("/") - 1

    def match(self, path: str) -> tuple[str, ...] | None:
        """The time fields in a full path; None if the template does not match it."""
        found = self._pattern.fullmatch(path)
        return found.groups() if found else None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(pattern_of(self.parts), re.DOTALL)

    def check_windows(self, table_name: str, windows: Sequence[Window]) -> None:
        """Refuses a path whose time fields do not distinguish all windows, or are finer than the windows.

        With the hour for daily windows, for example, files of other hours would belong to no window and go unnoticed.
        """
        if self.is_flat:
            return
        self.windows_by_time(table_name, windows)
        times = [part for part in self.parts if part.kind == "time"]
        for finer in ("HMS", "MS", "S"):
            named = "".join(f"%{name}" for name in finer if any(_without(name, p.text) != p.text for p in times))
            coarser = [replace(part, text=_without(finer, part.text)) for part in times]
            if named and len({tuple(part.of(window) for part in coarser) for window in windows}) == len(windows):
                raise _wrong(
                    table_name, f"path names {named} of the start of a window, which is the same for all windows",
                    "a file with another time of day in its name would belong to no window and go unnoticed",
                    f"write * instead of {named} for all files of a window, or the literal text, such as 00, for one",
                )  # fmt: skip

    def windows_by_time(self, table_name: str, windows: Sequence[Window]) -> dict[tuple[str, ...], Window]:
        """Windows by the texts of their time fields; refuses two windows with the same texts."""
        found: dict[tuple[str, ...], Window] = {}
        for window in windows:
            other = found.setdefault(self.times_of(window), window)
            if other != window:
                offsets = {one.local_start.utcoffset() for one in (other, window)}
                turned_back = len(offsets) > 1 and abs(window.start - other.start) < timedelta(days=1)
                raise _wrong(
                    table_name, f"path reads the same for the windows {other.key} and {window.key}",
                    "a file belongs to one window"
                    + (f"; when clocks are turned back, {window.zone} has the same hour twice" if turned_back else ""),
                    "write {window_utc:...} in the path for files named by UTC, or declare the partitions in UTC; for "
                    "files named by local hours, partitions by day and * in place of the hour" if turned_back else
                    "add the missing time fields to the path, for example {window:%Y-%m-%d-%H} for hourly partitions",
                )  # fmt: skip
        return found


def pattern_of(parts: Sequence[Part]) -> str:
    """The regular expression of some pieces of a template, with a group for each time field."""
    pattern, at_start = "", False
    for index, part in enumerate(parts):
        after = parts[index + 1].text if index + 1 < len(parts) else ""
        if part.kind == "text":
            # the slash after ** belongs to the folders that ** matched
            text = part.text.removeprefix("/") if index and parts[index - 1].text == "**" else part.text
            pattern += re.escape(text)
            at_start = part.text.endswith("/")
            continue
        visible = r"(?![._/])" if at_start else ""
        if part.kind == "time":
            pattern += "(" + re.sub(r"%(.)", lambda d: DIRECTIVES[d[1]], _escaped(part.text)) + ")"
        elif part.text == "**":
            pattern += r"(?:(?![._])[^/]+/)*" if after.startswith("/") else r"(?:(?![._])[^/]+/)*(?![._])[^/]+"
        else:
            pattern += visible + (r"[^/]*?" if part.text == "*" else r"[^/]")
        at_start = False
    return pattern


def _without(directives: str, fmt: str) -> str:
    return re.sub("%(.)", lambda found: "" if found[1] in directives else found[0], fmt)


def absolute(place: str) -> str:
    """A folder as an absolute path, an address with its store's own scheme; without trailing and double slashes."""
    if "://" not in place:
        return os.path.abspath(place)
    scheme, _, rest = place.partition("://")
    if scheme == "file":
        return posixpath.normpath("/" + rest.lstrip("/"))
    return with_own_scheme(f"{scheme}://{re.sub('/{2,}', '/', rest).rstrip('/')}")


def _parts_of(table_name: str, path: str, piece: str) -> list[Part]:
    if piece.startswith("{") and piece.endswith("}"):
        return [_time_part(table_name, path, piece)]
    if "{" in piece or "}" in piece:
        raise _wrong(table_name, f"path {path!r} has a lone brace", "braces enclose a placeholder", _EXAMPLE)
    return [
        Part("glob" if text in ("*", "**", "?") else "text", text)
        for text in filter(None, re.split(r"(\*\*|\*|\?)", piece))
    ]


def _time_part(table_name: str, path: str, piece: str) -> Part:
    name, _, fmt = piece[1:-1].partition(":")
    if name == "landing":
        raise _wrong(
            table_name, f"path {path!r} has {{landing}} inside", "{landing} begins a path", "move it to the start"
        )
    if name not in ("window", "window_utc"):
        raise _wrong(
            table_name,
            f"path {path!r} has the unknown placeholder {piece}",
            "there are {landing}, {window:...} and {window_utc:...}",
            _EXAMPLE,
        )
    directives = re.findall(r"%(.?)", fmt)
    if not directives or set(directives) == {"%"}:
        raise _wrong(
            table_name, f"path {path!r}: {piece} names no part of the time", "a time field has a format", _EXAMPLE
        )
    for directive in directives:
        if directive not in DIRECTIVES:
            raise _wrong(
                table_name, f"path {path!r}: {piece} has the directive '%{directive}'",
                f"directives are {', '.join(f'%{known}' for known in DIRECTIVES)}", _EXAMPLE,
            )  # fmt: skip
    return Part("time", fmt, in_utc=name == "window_utc")


def _with_slashes_outside(placeholder: re.Match[str]) -> str:
    """A placeholder split at the slashes in its format, with the initial dots and underscores of names as literals."""
    kind, fmt = placeholder.groups()
    if "%" not in fmt:
        return placeholder[0]  # refused later, because it names no part of the time
    names = []
    for name in fmt.split("/"):
        time = name.lstrip("._")
        names.append(name[: len(name) - len(time)] + (f"{{{kind}:{time}}}" if "%" in time else time))
    return "/".join(names)


def _escaped(fmt: str) -> str:
    return "".join(text if text.startswith("%") else re.escape(text) for text in re.split(r"(%.)", fmt))


def _wrong(table_name: str, problem: str, rule: str, remedy: str) -> DeclarationError:
    return DeclarationError(f"{table_name}: source: {problem}", rule=rule, remedy=remedy)
