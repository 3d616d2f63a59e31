"""The errors of Dagster's own log, in one line each."""

import re
from pathlib import Path

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BEGIN = re.compile(r"^(?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d )", re.MULTILINE)
_RECORD = re.compile(r"\S+ \S+ \S+ - \S+ - (\w+) - ")
_ERROR = re.compile(r"^(?:\w+\.)*([A-Z]\w+): (.+)$", re.MULTILINE)
_PLACE = re.compile(r'^ +File "([^"]+)", line (\d+)', re.MULTILINE)
_GRAVE = {"ERROR", "CRITICAL"}


class DagsterLog:
    """The errors in a growing log file.

    Args:
        path: The log file.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._read, self._rest = path, 0, ""
        self._reported: set[str] = set()

    def errors(self) -> list[str]:
        """The errors since the last call, each once; an incomplete record is returned by the next call."""
        size = self._path.stat().st_size
        if size < self._read:  # the file was truncated
            self._read, self._rest = 0, ""
        with self._path.open("rb") as file:
            file.seek(self._read)
            more = file.read()
        self._read += len(more)
        records = _BEGIN.split(self._rest + _COLOUR.sub("", more.decode(errors="replace")))
        self._rest = records.pop() if more else ""  # the last record may be incomplete
        lines = filter(None, map(_summary, records))
        fresh = [line for line in dict.fromkeys(lines) if line not in self._reported]
        self._reported.update(fresh)
        return fresh


def _summary(record: str) -> str | None:
    """An error in one line: its innermost cause, with the file and line of an error in Python code."""
    level = _RECORD.match(record)
    if level is None or level.group(1) not in _GRAVE:
        return None
    causes, places = _ERROR.findall(record), _PLACE.findall(record)
    if not causes:
        return record[level.end() :].splitlines()[0]
    name, message = causes[-1]
    where = f" ({places[-1][0]}, line {places[-1][1]})" if places and name.endswith("Error") else ""
    return f"{name}: {message}{where}"
