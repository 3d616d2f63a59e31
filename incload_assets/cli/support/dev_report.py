"""The output of ``incload dev`` while Dagster runs: when Dagster and Spark are up, loads, and errors."""

import re
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import dagster as dg
from rich.markup import escape

from incload_assets.cli.support import screen
from incload_assets.cli.support.dagster_process import DagsterProcess
from incload_assets.cli.support.watching import Watch
from incload_assets.platform.progress import tell

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BEGIN = re.compile(r"^(?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d )", re.MULTILINE)
_RECORD = re.compile(r"\S+ \S+ \S+ - \S+ - (\w+) - ")
_ERROR = re.compile(r"^(?:\w+\.)*([A-Z]\w+): (.+)$", re.MULTILINE)
_PLACE = re.compile(r'^ +File "([^"]+)", line (\d+)', re.MULTILINE)
_GRAVE = {"ERROR", "CRITICAL"}


class DevReport:
    """Reports on Dagster, on the process that starts Spark, and on the runs, at each call of :meth:`look`.

    ``began`` is when the user began to wait, by the monotonic clock.
    """

    def __init__(self, dagster: DagsterProcess, spark: "subprocess.Popen[str] | None", began: float) -> None:
        self._dagster, self._spark, self._began = dagster, spark, began
        self._open = ExitStack()
        self._watch: Watch | None = None
        self._log = DagsterLog(dagster.log) if dagster.log else None
        self._trouble = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def look(self) -> None:
        """Reports what is new since the last call; an error in this does not end ``incload dev``."""
        try:
            self._look()
        except Exception as error:
            if str(error) != self._trouble:
                self._say(f"Dagster's progress cannot be read now: {type(error).__name__}: {error}")
            self._trouble = str(error)

    def _look(self) -> None:
        if self._watch is None and self._dagster.is_up():
            screen.say(f"Dagster is up: {self._dagster.address} ({self._waited()}). Ctrl-C ends it.")
            instance = self._open.enter_context(dg.DagsterInstance.get())
            self._watch = Watch(instance, self._dagster.address, self._began, self._say)
        if self._spark is not None and self._spark.poll() is not None:
            problem = self._spark.stderr.read().strip() if self._spark.stderr else ""
            self._say(f"Spark is up ({self._waited()})." if self._spark.returncode == 0 else problem)
            self._spark = None
        for error in self._log.errors() if self._log else []:
            self._say(f"✗ {error}")
        if self._watch:
            self._watch.look()
        doing = self._watch.doing if self._watch else f"Dagster is starting, {self._waited()}"
        spark = f"Spark is starting, {self._waited()}" if self._spark else ""
        tell("; ".join(filter(None, [doing, spark])))

    def _waited(self) -> str:
        return f"{time.monotonic() - self._began:.0f} s"

    def _say(self, line: str) -> None:
        screen.say(escape(line))


class DagsterLog:
    """The errors in a growing log file."""

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
