"""State of an upstream table: its data files for each window of the tables derived from it, without Spark."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import pyspark.sql.types as T

from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window
from incload_assets.sources.upstream.delta_files import DataFile, DeltaFiles, Value, digest


@dataclass(frozen=True, kw_only=True)
class UpstreamTable:
    """Declaration of a table that others are derived from.

    Args:
        name: Name of the function's argument that takes the table's rows.
        partition: Partition column, which assigns rows to windows; None: every window gets all rows.
        on: The column by which partitioned tables refer to this one; None: any change concerns all windows.
        groups: The columns that hold the groups of the derived table, in its order, with the types that they have, None
            for a column that the table lacks. Empty: the derived table declares none, or the table has no partition.
    """

    name: str
    path: tuple[str, ...]
    partition: str | None = None
    kind: T.DataType | None = None
    on: str | None = None
    groups: tuple[tuple[str, T.DataType | None], ...] = ()

    @property
    def group_columns(self) -> list[str]:
        """The names of the columns in ``groups``."""
        return [name for name, _ in self.groups]


@dataclass(frozen=True, eq=False)
class UpstreamState:
    """An upstream table at one version, for some windows (oldest first); a date is a day in ``timezone``."""

    upstream: UpstreamTable
    delta: DeltaFiles
    windows: Sequence[Window]
    timezone: str

    def files(self, window: Window) -> list[DataFile]:
        """The files that hold the window's rows."""
        return self._by_window.get(None if self._whole else window, [])

    def state(self, window: Window, before: Position | None) -> dict[str, Any]:
        """The table's entry in the position of a window; ``before`` is the position that was ingested last.

        It has ``id`` and ``version`` of the table; ``files``, a digest of the window's files; ``rows``, which
        identifies the window's rows and stays the same if the files were only rewritten since ``before``.
        """
        files = self.digest(window)
        now = {"id": self.delta.table_id, "version": self.delta.version, "files": files}
        then = before.detail.get("tables", {}).get(self.upstream.name) if before else None
        if then is None or then["id"] != now["id"]:
            return now | {"rows": files}
        same = then["files"] == files or self._only_rewritten(window, then["files"], then["version"])
        return now | {"rows": then["rows"] if same else files}

    @property
    def _whole(self) -> bool:
        return self.upstream.partition is None

    def values(self) -> Collection[Value]:
        """All values of the partition column, in other windows, too."""
        return self._by_value.keys()

    @cached_property
    def _by_value(self) -> Mapping[Value, list[DataFile]]:
        return self.delta.by_value()

    @cached_property
    def _by_window(self) -> Mapping[Window | None, list[DataFile]]:
        found: dict[Window | None, list[DataFile]] = defaultdict(list)
        for value, files in self._by_value.items():
            window = self.window_of(value)
            if self._whole or window is not None:
                found[window] += files
        return found

    @cached_property
    def _known(self) -> dict[Any, Any]:
        """Cache of results, shared by all windows with the same key."""
        return {}

    def digest(self, window: Window) -> str:
        """The digest of the window's files."""
        key = None if self._whole else window
        if key not in self._known:
            self._known[key] = digest(file.name for file in self.files(window))
        return str(self._known[key])

    def _only_rewritten(self, window: Window, files: str, version: int) -> bool:
        key = (None if self._whole else window, files, version)
        if key not in self._known:
            names = [file.name for file in self.files(window)]
            self._known[key] = self.delta.only_rewritten(
                names, files, version, lambda value: self._whole or self.window_of(value) == window
            )
        return bool(self._known[key])

    def window_of(self, value: Value) -> Window | None:
        """The window that rows with this partition value belong to, if any."""
        if self._whole or value is None or (place := bisect_right(self._starts, value) - 1) < 0:
            return None
        window = self.windows[place]
        end: Any = self._bound(window.end)
        return window if value < end else None

    @cached_property
    def _starts(self) -> list[Any]:
        return [self._bound(window.start) for window in self.windows]

    def _bound(self, instant: datetime) -> date | datetime:
        by_date = isinstance(self.upstream.kind, T.DateType)
        return instant.astimezone(ZoneInfo(self.timezone)).date() if by_date else instant
