"""Tables of the lake as the source of derived tables, which follow every change upstream, whatever made it.

A window's position is the set of data files that hold its rows upstream, see :mod:`.delta_files`. So no change data
feed needs to be enabled, kept or read, or can have been vacuumed. Spark reads the detected versions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, ClassVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.declaration.declared import Declared
from incload_assets.declaration.field_types import check_type
from incload_assets.declaration.source import Absent, DetectRequest, Position, Shows, Source
from incload_assets.declaration.window import Window
from incload_assets.platform.errors import DeclarationError, SourceChanged, SourceMissing
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import current_settings
from incload_assets.platform.sql import col
from incload_assets.platform.wording import several
from incload_assets.sources.upstream.delta_files import DeltaFiles, digest
from incload_assets.sources.upstream.groups import (
    SINCE,
    changed_groups,
    check_groups,
    marked_if_other,
    of_groups,
    of_other_groups,
    position_since,
)
from incload_assets.sources.upstream.references import (
    open_questions,
    read_notes,
    rows_in,
    states_of,
    unconcerned,
    write_notes,
)
from incload_assets.sources.upstream.state import UpstreamState, UpstreamTable

DerivedFunction = Callable[..., DataFrame]

OTHER = "_is_of_other_group"
"""Column of rows that a function has made of one group and given to another."""


@dataclass(frozen=True, kw_only=True)
class Tables(Source):
    """Rows computed from the rows of upstream tables; made by :func:`~incload_assets.assets.derived_asset`.

    - A window has the rows that the function returns for the window's rows upstream. If no partitioned table has rows
      for the window, the window is empty, without a call of the function.
    - Another set of data files upstream is another position of the window. Files that were only rewritten (compaction)
      are not, as long as the upstream log has the commits; after that the window is read once more, and found equal.
    - A change of a table without ``partition`` concerns all windows; with ``on`` it concerns only windows whose rows
      refer to a changed key, see :mod:`incload_assets.sources.upstream.references`.
    - With ``groups``, only the groups whose rows have changed are computed again where that is cheaper, see
      :mod:`incload_assets.sources.upstream.groups`; the other rows of the window stay.
    - A window waits until all tables exist, even with ``absent="empty"``: a removed table does not show what it held.

    Args:
        of: The upstream tables.
        function: From their rows, one frame for each table, to the contract's columns.
        timezone: Time zone of the partitions definition.
        groups: Columns of the contract whose values make a group: its rows are made of the group's rows upstream alone.
        absent: Whether a window without rows upstream waits, or is an empty window.
    """

    of: tuple[UpstreamTable, ...]
    function: DerivedFunction = field(repr=False)
    timezone: str = "UTC"
    groups: tuple[str, ...] = ()
    absent: Absent = "wait"

    shows: ClassVar[Shows] = Shows(inserts=True, updates=True, deletes=True)

    def __str__(self) -> str:
        return f"Tables({', '.join('/'.join(upstream.path) for upstream in self.of)})"

    def explained(self) -> list[str]:
        """Sentences for people; see :meth:`Source.explained`."""

        def of(upstream: UpstreamTable) -> str:
            name = "/".join(upstream.path)
            if upstream.partition is not None:
                return (
                    f"A window has the rows of {name} whose {upstream.partition} lies in it; their changes "
                    "load it again."
                )
            if upstream.on is not None:
                return (
                    f"A window has all rows of {name}; a change loads the windows whose rows have its "
                    f"{upstream.on} again."
                )
            return f"A window has all rows of {name}; any change loads all windows again."

        return [
            "Rows are computed from tables upstream, by the table's function.",
            *map(of, self.of),
            *self._grouped(),
            "A window waits until all of these tables exist.",
        ]

    def _grouped(self) -> list[str]:
        if not self.groups:
            return []
        return [
            f"Rows of a group ({', '.join(self.groups)}) are made of the group's rows alone: where few files of a "
            "large window have changed, only the groups with changed rows are computed again."
        ]

    def validate(self, table_name: str) -> None:
        """Checks ``absent``; ``derived_asset`` has checked the tables."""
        check_type(table_name, "absent", self.absent, Absent)

    def validate_changes(self, declared: Declared) -> None:
        """Checks the groups; see :meth:`Source.validate_changes`."""
        check_groups(declared, self.groups, self.of)

    def detect(self, request: DetectRequest) -> dict[str, Position]:
        """The positions of windows by their data files; see :meth:`Source.detect`. Each table's log is read once."""
        looks = self._looks(request.lake, request.windows)
        notes = read_notes(request.lake, request.table_name) if self._refers else {}
        positions = {}
        for window in request.windows if looks else ():
            before = request.ingested.get(window.key)
            there = any(look.upstream.partition is not None and look.files(window) for look in looks)
            # A window that was ingested keeps having a position: without rows it is ingested empty.
            if there or (before is not None and before.fingerprint != "empty"):
                positions[window.key] = _position(window, looks, states_of(window, looks, before, notes), there)
        return positions

    def prepare(self, spark: SparkSession, request: DetectRequest) -> None:
        """Finds the ingested windows that a change of a table with ``on`` does not concern, for all of them at once."""
        if missing := ", ".join(self._missing(request.lake)):
            raise SourceMissing(
                f"{request.table_name}: it is derived from {missing}, not created yet or removed",
                rule="a window waits until all upstream tables exist, and keeps its rows until then",
                remedy=f"load {missing} first",
            )
        if not self._refers:
            return
        notes, looks = read_notes(request.lake, request.table_name), self._looks(request.lake, request.windows)
        if not open_questions(request.windows, looks, request.ingested, notes):
            return
        known = sorted(
            _window_in(key, position) for key, position in request.ingested.items() if "window" in position.detail
        )
        if any(one.end > next_one.start for one, next_one in pairwise(known)):  # some have a former definition
            known = list(request.windows)
        looks = self._looks(request.lake, known)
        for look, questions in open_questions(known, looks, request.ingested, notes).items():
            notes |= unconcerned(spark, read_from(request.lake), look, looks, questions)
        write_notes(
            request.lake,
            request.table_name,
            {place: note for place, note in notes.items() if place[0] in request.ingested},
        )

    def empty_positions(self, windows: Sequence[Window], lake: Lake) -> dict[str, Position]:
        """The positions of :meth:`Source.empty_positions`; none if an upstream table does not exist."""
        empty = super().empty_positions(windows, lake)
        return {} if empty and self._missing(lake) else empty

    def extract(self, spark: SparkSession, table_name: str, position: Position, fields: Sequence[str]) -> DataFrame:
        """The rows that the function returns for a position; see :meth:`Source.extract`.

        ``_source.file`` names the versions of the tables; ``block`` and ``row`` are NULL. A version that no longer
        exists raises SourceChanged, other columns than the contract's DeclarationError.
        """
        if not position.detail.get("rows"):
            nothing = ", ".join(f"`{name.replace('`', '``')}`: string" for name in fields)
            return _as_extracted(spark.createDataFrame([], f"_raw struct<{nothing}>, _malformed string"), "")
        try:
            touched = self._touched(spark, position)
            out = self.function(**{one.name: self._rows(spark, one, position, touched) for one in self.of})
            returned = set(out.columns)
        except PySparkException as error:
            if "DELTA_VERSION_NOT_FOUND" in str(error) or "time travel" in str(error):
                raise SourceChanged(
                    f"{table_name}: a version upstream ({position.summary}) is gone",
                    rule="rows are read at the versions that were detected",
                    remedy="none: the load detects again; keep versions for longer than a load takes",
                ) from error
            raise
        self._check_columns(table_name, returned, fields)
        versions = ", ".join(f"{name}@{at['version']}" for name, at in position.detail["tables"].items())
        of_others = F.lit(None).cast("string")
        if touched is not None:
            out = marked_if_other(out.select(*map(col, fields)), touched, self.groups, OTHER)
            of_others = F.when(F.col(OTHER), f"its {', '.join(self.groups)} is not one of the rows it is made of")
        return _as_extracted(
            out.select(F.struct(*map(col, fields)).alias("_raw"), of_others.alias("_malformed")), versions
        )

    def renewed(self, before: Position, now: Position) -> Position | None:
        """The groups of a window whose rows upstream have changed; see :meth:`Source.renewed`."""
        if not (self.groups and before.detail.get("rows") and now.detail.get("rows")):
            return None
        return position_since(read_from(), self.of, _window_in("", now), self.timezone, before, now)

    def staying(self, spark: SparkSession, ingested: DataFrame, position: Position) -> DataFrame | None:
        """The rows of groups that a position of :meth:`renewed` leaves as they are; see :meth:`Source.staying`."""
        touched = self._touched(spark, position)
        return None if touched is None else of_other_groups(ingested, touched, self.groups)

    def _touched(self, spark: SparkSession, position: Position) -> DataFrame | None:
        """The groups that are computed again; None: all."""
        if SINCE not in position.detail:
            return None
        window = _window_in("", position)
        return changed_groups(spark, read_from(), self.of, self.groups, window, self.timezone, position)

    @property
    def _refers(self) -> bool:
        return any(upstream.on is not None for upstream in self.of)

    def _missing(self, lake: Lake) -> list[str]:
        above = read_from(lake)
        return ["/".join(u.path) for u in self.of if above.version(above.table_uri(u.path)) is None]

    def _looks(self, lake: Lake, windows: Sequence[Window]) -> list[UpstreamState]:
        """The state of each upstream table; empty if one of them does not exist yet."""
        above = read_from(lake)
        deltas = [(upstream, above.delta(above.table_uri(upstream.path))) for upstream in self.of]
        return [
            UpstreamState(upstream, DeltaFiles(delta, upstream.partition), windows, self.timezone)
            for upstream, delta in deltas
            if delta is not None and all(other is not None for _, other in deltas)
        ]

    def _rows(
        self, spark: SparkSession, upstream: UpstreamTable, position: Position, touched: DataFrame | None
    ) -> DataFrame:
        version = position.detail["tables"][upstream.name]["version"]
        rows = rows_in(spark, read_from(), upstream, _window_in("", position), self.timezone, version)
        if touched is None or upstream.partition is None:
            return rows
        return of_groups(rows, upstream.group_columns, touched, self.groups)

    def _check_columns(self, table_name: str, returned: set[str], fields: Sequence[str]) -> None:
        missing, extra = [name for name in fields if name not in returned], sorted(returned - set(fields))
        if missing or extra:
            wrong = [f"no column {name!r}" for name in missing] + [f"a column {name!r}" for name in extra]
            raise DeclarationError(
                f"{table_name}: its function returns {', '.join(wrong)}",
                rule=f"it returns the contract's columns ({', '.join(fields)}), and no others",
                remedy="select these columns at its end, or change the contract",
            )


def _position(
    window: Window, looks: Sequence[UpstreamState], tables: Mapping[str, Mapping[str, Any]], there: bool
) -> Position:
    parts, size, decisive = [], 0, []
    for look in looks:
        state = tables[look.upstream.name]
        if there or look.upstream.partition is not None:  # an empty window looks nothing up in the other tables
            decisive.append(f"{look.upstream.name}:{state['id']}:{state['rows']}")
        files = look.files(window)
        parts.append(f"{look.upstream.name}@{look.delta.version}: {several(len(files), 'file')}")
        size += sum(file.size for file in files)
    return Position(
        fingerprint=digest(decisive),
        detail={"window": [window.start.isoformat(), window.end.isoformat()], "rows": there, "tables": tables},
        summary=", ".join(parts),
        size=size,
    )


def _window_in(key: str, position: Position) -> Window:
    start, end = (datetime.fromisoformat(bound) for bound in position.detail["window"])
    return Window(start, end, key)


def _as_extracted(rows: DataFrame, versions: str) -> DataFrame:
    nothing, number = F.lit(None).cast("string"), F.lit(None).cast("long")
    place = F.struct(F.lit(versions).alias("file"), number.alias("block"), number.alias("row"))
    payload = F.to_json("_raw").alias("_payload")
    return rows.select("_raw", payload, nothing.alias("_rescued"), "_malformed", place.alias("_source"))


def read_from(lake: Lake | None = None) -> Lake:
    """The lake of the upstream tables: by default the given one, or if none is given that of the settings."""
    settings = current_settings()
    return Lake(settings.upstream_root) if settings.upstream_root else lake or Lake.of(settings)
