"""The output of ``incload dev`` while Dagster runs: when Dagster and Spark are up, loads, and errors."""

import subprocess
import time
from contextlib import ExitStack
from typing import Self

import dagster as dg
from rich.markup import escape

from incload_assets.cli.support import screen
from incload_assets.cli.support.dagster_log import DagsterLog
from incload_assets.cli.support.dagster_process import DagsterProcess
from incload_assets.cli.support.watching import Watch
from resources.progress import tell


class Telling:
    """Reports on Dagster, on Spark's start and on the runs at each call of :meth:`look`.

    Args:
        dagster: The Dagster process.
        spark: The process that starts Spark; None if there is none.
        began: When the user began to wait, by the monotonic clock.
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
