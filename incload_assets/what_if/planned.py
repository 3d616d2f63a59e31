"""The plan of some loads: what each would change, and its basis, which shows whether the plan is outdated."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime

import pyarrow as pa
from deltalake import DeltaTable
from pydantic import TypeAdapter

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import data_files

FORMAT = 1
"""The version of the plan's form as JSON."""
NOTHING, CHANGES, STOPS = "nothing to do", "changes", "would stop"


@dataclass(frozen=True)
class Sample:
    """A row that would change. Values are shown if asked for, else the key is empty; personal columns are masked."""

    key: Mapping[str, str | None]
    changed: Mapping[str, tuple[str | None, str | None]]


@dataclass(frozen=True)
class Follower:
    """A derived table whose windows would be loaded again; None: only its load finds them, by the changed rows."""

    table: str
    windows: Sequence[str] | None


@dataclass(frozen=True)
class Basis:
    """The basis of the plan of a window: the source's position, and digests of names of files, which never change.

    Args:
        log: Digest of the window's files in the change log.
        table: Digest of the files that the window touches in the table.
        touched: Digests of the partitions or buckets of the table that the window touches; None: all.
    """

    source: str
    summary: str = ""
    log: str = ""
    table: str = ""
    touched: Sequence[str] | None = None


@dataclass(frozen=True)
class WindowPlan:
    """The effect that the load of one window would have; numbers of rows are as the load reports them.

    Args:
        error: Why the load would stop, which leaves ``basis`` None; empty if it would not.
        again: Whether the log has the source's present content already.
        unchanged: Keys of the window whose rows in the table would stay as they are.
        moved: Keys that would be in another partition of the table than now; None: not counted, for a large table.
        files, bytes: Most data files of the table, and their size, that a load would rewrite.
    """

    partition: str
    error: str = ""
    basis: Basis | None = None
    again: bool = False
    rows_read: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    stale: int = 0
    duplicate: int = 0
    quarantined: int = 0
    waiting: int = 0
    skipped: int = 0
    erased: int = 0
    moved: int | None = 0
    files: int = 0
    bytes: int = 0
    followers: Sequence[Follower] = ()
    samples: Sequence[Sample] = ()

    @property
    def outcome(self) -> str:
        """``nothing to do``, ``changes`` or ``would stop``."""
        if self.error:
            return STOPS
        return NOTHING if self.again and not (self.inserted or self.updated or self.deleted) else CHANGES


@dataclass(frozen=True)
class Pace:
    """How long loads of the table took, in seconds; four of five took between ``low`` and ``high``."""

    loads: int
    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Plan:
    """The plan of loads of one table, oldest window first. Each is planned alone, against the table as it was.

    ``made_at`` is aware; the code version includes contract and declaration; ``pace`` is None if there was no load.
    """

    table: str
    code_version: str
    made_at: datetime
    windows: Sequence[WindowPlan] = field(default_factory=list)
    pace: Pace | None = None

    @property
    def exit_code(self) -> int:
        """1 if a load would stop, 2 if one would change something, else 0."""
        outcomes = {window.outcome for window in self.windows}
        return 1 if STOPS in outcomes else 2 if CHANGES in outcomes else 0

    def without_values(self) -> "Plan":
        """The plan without values of columns and keys."""
        return replace(self, windows=[replace(window, samples=()) for window in self.windows])

    def as_json(self) -> str:
        """The plan as JSON; :meth:`of_json` reads it."""
        windows = [asdict(window) | {"outcome": window.outcome} for window in self.windows]
        whole = asdict(self) | {"format": FORMAT, "made_at": self.made_at.isoformat(), "windows": windows}
        return json.dumps(whole, indent=2)

    @classmethod
    def of_json(cls, text: str, place: str) -> "Plan":
        """The plan in a file, whose ``place`` is for messages.

        Raises:
            IncrementalLoadError: It is no plan of this version.
        """
        try:
            found = json.loads(text)
            assert found.pop("format") == FORMAT
            return TypeAdapter(cls).validate_python(found)
        except (ValueError, KeyError, TypeError, AttributeError, AssertionError):
            raise IncrementalLoadError(
                f"{place} is not a plan of loads that this version can read",
                rule="a plan is a file written by incload plan --out",
                remedy=f"plan again: incload plan TABLE --partitions … --out {place}",
            ) from None


def digest(names: Iterable[str]) -> str:
    """A short hash of some names, whatever their order."""
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]


def log_digest(log: DeltaTable | None, window: str) -> str:
    """The digest of a window's files in a log; empty if there are none."""
    files = data_files(log) if log is not None else None
    if files is None or not files.num_rows:
        return ""
    keys, paths = files["partition._window"].to_pylist(), files["path"].to_pylist()
    here = [path for key, path in zip(keys, paths, strict=True) if key == window]
    return digest(here) if here else ""


def table_digest(table: DeltaTable | None, column: str | None, touched: Collection[str] | None) -> str:
    """The digest of the files of some partitions of a table; empty if there are none.

    ``touched`` has digests of values of the column that lays it out, as :func:`digest` makes them; None: of all files.
    """
    if table is None:
        return ""
    files = data_files(table)
    paths = files["path"].to_pylist()
    if column is not None and touched is not None:
        values = files[f"partition.{column}"].cast(pa.string()).to_pylist() if paths else []
        paths = [path for path, value in zip(paths, values, strict=True) if digest([str(value)]) in touched]
    return digest(paths) if paths else ""
