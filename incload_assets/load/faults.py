"""The one way through many tables: a fault of one of them is translated and kept, and the others go on."""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException

from incload_assets.declaration.table import Table
from incload_assets.load.error_translation import translated, unforeseen
from incload_assets.platform.errors import IncrementalLoadError, LakeUnreadable
from incload_assets.platform.lake import AUDIT_FOLDER, DECISIONS_FOLDER, Lake
from incload_assets.platform.progress import tell
from incload_assets.platform.remembered import Remembered
from incload_assets.platform.settings import current_settings
from incload_assets.platform.unreadable import described
from incload_assets.platform.wording import largest, several

OF_A_TABLE: tuple[type[Exception], ...] = (
    IncrementalLoadError,
    DeltaError,
    PySparkException,
    pa.ArrowException,
    OSError,
)
"""The errors of lake and sources, which are about one table; others are errors of this program."""
_AT_ONCE = 16


def unheard(message: str, exc_info: BaseException | None = None) -> None:
    """Takes a fault that is asked for later."""


class Faults:
    """The faults of tables that are processed one after the other; ``hear`` gets each, as a logger's ``error`` does."""

    def __init__(
        self,
        lake: Lake,
        hear: Callable[..., object] = unheard,
        *,
        kinds: tuple[type[Exception], ...] = OF_A_TABLE,
    ) -> None:
        self.lake, self.hear, self.kinds = lake, hear, kinds
        self.errors: dict[str, BaseException] = {}
        """The translated errors by table name, in the order of the tables."""

    @property
    def found(self) -> dict[str, str]:
        """The faults for people, by table name."""
        return {name: str(error) for name, error in self.errors.items()}

    def in_threads(self, tables: Iterable[Table], do: Callable[[Table], object]) -> None:
        """Does something about each of several tables, a few at once: silent sources are waited for together."""

        def one(table: Table) -> None:
            with self.of(table):
                do(table)

        chosen, began = list(tables), time.monotonic()
        with ThreadPoolExecutor(_AT_ONCE, "incload-tables") as pool:
            for done, _ in enumerate(pool.map(one, chosen), 1):
                left = (time.monotonic() - began) / done * (len(chosen) - done)
                tell(f"{done:,} of {several(len(chosen), 'table')}, about {largest(left)} left" if left >= 1 else "")
        self.errors = {table.name: self.errors[table.name] for table in chosen if table.name in self.errors}

    @contextmanager
    def of(self, table: Table) -> Iterator[None]:
        """Keeps an error of the block as the table's fault."""
        try:
            with of_table(table, self.lake, self.kinds):
                yield
        except Exception as error:
            if not isinstance(error, (*self.kinds, IncrementalLoadError)):
                raise
            self.errors[table.name] = error
            self.hear(str(error), exc_info=error.__cause__)


@contextmanager
def of_table(table: Table, lake: Lake, kinds: tuple[type[Exception], ...] = OF_A_TABLE) -> Iterator[None]:
    """Raises errors of the block, of some kinds, as errors of this project that name the table."""
    try:
        yield
    except kinds as error:
        known = translated(error, table.name, table, lake)
        if isinstance(known, IncrementalLoadError) and not known.problem.startswith(table.name):
            known = type(known)(f"{table.name}: {known.problem}", rule=known.rule, remedy=known.remedy)
        raise known from (None if isinstance(error, OF_A_TABLE) else unforeseen(error))


def expect_readable(table: Table, lake: Lake) -> None:
    """Checks that a table and its log can be opened, or that there is neither of them yet."""
    own, log = lake.table_uri(table.key.path), lake.log_uri(table.key.path)
    here, changes = lake.expect_readable(own), lake.expect_readable(log)
    is_ours = here is not None and any(name.startswith("incload.") for name in here.metadata().configuration)
    if here is None and changes is not None and changes.file_uris():
        raise _gone(own, f"incload load {table.name} merges it from the log again")
    if is_ours and changes is None:
        raise _gone(log, f"incload load {table.name} ingests again what the source still holds")


def unreadable_tables(tables: Iterable[Table], lake: Lake) -> dict[str, str]:
    """Why the newest versions of tables cannot be opened, by table name; without the readable ones.

    Tables that were readable are opened again when the files of their Delta logs have changed.
    """
    chosen, known = list(tables), Remembered(current_settings().home_root / "readable_tables.sqlite")
    with ThreadPoolExecutor(_AT_ONCE, "incload-tables") as pool:
        found = zip(chosen, pool.map(lambda table: _state(table, lake), chosen), strict=True)
        states = {lake.table_uri(table.key.path): state for table, state in found if state is not None}
    readable = known.recall(states)
    left = [table for table in chosen if lake.table_uri(table.key.path) not in readable]
    faults = Faults(lake)
    faults.in_threads(left, lambda table: expect_readable(table, lake))
    uris = [lake.table_uri(table.key.path) for table in left if table.name not in faults.errors]
    known.keep((uri, states[uri], "") for uri in uris if uri in states)
    return faults.found


def _state(table: Table, lake: Lake) -> str | None:
    """A text that changes with the Delta logs of a table and its log; None without one, or if it cannot be listed."""
    try:
        logs = [lake.commits(uri) for uri in (lake.table_uri(table.key.path), lake.log_uri(table.key.path))]
    except OF_A_TABLE:
        return None
    return None if None in logs else " ".join(filter(None, logs))


def unreadable_of_lake(lake: Lake) -> dict[str, LakeUnreadable]:
    """The faults of what concerns all tables, by folder: of the audit, and of the decisions about rejected rows."""
    found = {}
    for folder in (AUDIT_FOLDER, DECISIONS_FOLDER):
        try:
            lake.expect_readable(f"{lake.root}/{folder}")
        except LakeUnreadable as error:
            found[folder] = error
    return found


def _gone(uri: str, then: str) -> LakeUnreadable:
    return LakeUnreadable(
        f"{described(uri)} is gone",
        rule="a table and its log of changes belong together",
        remedy=f"restore it from a copy of the lake, or {then}",
    )
