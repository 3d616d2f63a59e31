"""The way of a run through its tables: how far it is, and what an attempt of it that did not end has done already."""

import json
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import dagster as dg

from incload_assets.platform.dagster_private import CODE_LOCATION_TAG
from incload_assets.platform.wording import length, several

_KEPT = "incload/done by "
_SAID_EVERY = timedelta(minutes=1)


class Through:
    """The tables of a run that are left to process, and the messages about them.

    Dagster repeats a run whose process was killed, and a person may repeat one that failed. Either goes on with the
    tables that its former attempts have not done, whatever the job of the same name in another code location did.
    """

    def __init__(self, context: dg.OpExecutionContext, names: Sequence[str]) -> None:
        self.instance, self.say = context.instance, context.log.info
        self.key = f"{_KEPT}{context.job_name} {context.run.tags.get(CODE_LOCATION_TAG, '')}".rstrip()
        self.run, self.total = context.run.root_run_id or context.run.run_id, len(names)
        values = self.instance.daemon_cursor_storage.get_cursor_values({self.key})
        kept: dict[str, Any] = json.loads(values.get(self.key) or "{}")
        self.done: list[str] = kept["tables"] if kept.get("run") == self.run else []
        self.left = [name for name in names if name not in self.done]
        self.began = self.said = time.monotonic()
        self.longest = (0.0, "")
        if len(self.left) < self.total:
            self.say(f"An attempt before this one has done {several(self.total - len(self.left), 'table')}.")

    def did(self, name: str, seconds: float) -> None:
        """Keeps that a table is done, and says once a minute how far the run is."""
        self.done.append(name)
        self._keep(self.done)
        self.longest = max(self.longest, (seconds, name))
        if time.monotonic() - self.said >= _SAID_EVERY.total_seconds():
            self.said = time.monotonic()
            self.say(f"{len(self.done)} of {several(self.total, 'table')}, after {length(self.said - self.began)}")

    def end(self, *, complete: bool) -> None:
        """Says how long the run took; after a complete one, the next attempt begins with the first table again."""
        if complete:
            self._keep([])
        most = f"; the longest, {self.longest[1]}, {length(self.longest[0])}" if self.longest[1] else ""
        took = length(time.monotonic() - self.began)
        self.say(f"{len(self.done)} of {several(self.total, 'table')} done, in {took}{most}")

    def _keep(self, done: Sequence[str]) -> None:
        self.instance.daemon_cursor_storage.set_cursor_values({self.key: json.dumps({"run": self.run, "tables": done})})
