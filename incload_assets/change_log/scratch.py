"""The scratch of a load that only shows its effect: it takes what the load would write, and the lake stays as it is.

Such a load is an ordinary one whose context has this lake. It reads what the lake holds, with the rows that it has
landed and merged so far in the place of what they would replace.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, NoReturn

import pyarrow as pa
import pyspark.sql.types as T
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from pyspark.sql import DataFrame

from incload_assets.change_log.read_view import ReadView
from incload_assets.change_log.staged import Staged
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.contract.adaptation import Adaptation, Stored, widened_columns
from incload_assets.delta.tables import Adapted, check_table, schema_of
from incload_assets.platform.errors import SchemaMismatch
from incload_assets.platform.lake import FollowedLake, Lake


@dataclass(frozen=True)
class Change:
    """The effect that a merge would have.

    Args:
        rows: Each row of the table (alias ``t``) or action (alias ``s``) that would change, with a column that says
            what the merge does: insert, update or delete.
        by_key: Whether rows and actions are joined, so that an updated row has both.
        has_id: Whether actions have ``_id``, which identifies a row by its content.
    """

    at: ReadView
    rows: DataFrame
    by_key: bool
    has_id: bool


@dataclass
class Landed:
    """The rows of the log that a load has landed in its scratch; if not ``replaces``, they are added to windows."""

    staged: list[Staged] = field(default_factory=list)
    present: list[Staged] = field(default_factory=list)
    records: dict[str, WindowRecord] = field(default_factory=dict)
    replaces: bool = False


@dataclass
class Merged:
    """The merges of a load in its scratch, in their order, with the number that the last one would have committed.

    ``near``: the rows that the touched part of the table would have, None before any merge; ``others``: all other rows.
    """

    changes: list[Change] = field(default_factory=list)
    near: DataFrame | None = None
    others: DataFrame | None = None
    fence: int = 0

    def rows(self, *, near: bool) -> DataFrame | None:
        """The rows that the table, or its touched part, would have; None before any merge."""
        if near or self.near is None or self.others is None:
            return self.near
        return self.near.unionByName(self.others)


@dataclass(frozen=True)
class ScratchLake(FollowedLake):
    """A lake for one load that changes nothing in it; ``aside`` is a folder of this machine for the load alone.

    A source that stores small facts while it is asked (where its windows end, what a derived window refers to) reads
    them back as if they were stored, but they are not in the lake. A table that does not exist yet is an empty one.
    """

    aside: Path = field(kw_only=True)
    landed: Landed = field(default_factory=Landed, init=False, repr=False, compare=False)
    merged: Merged = field(default_factory=Merged, init=False, repr=False, compare=False)
    is_written: ClassVar[bool] = False
    _moved: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def followed(self) -> Lake:
        """This lake, so that everything that a load does knows what it would have written."""
        return self

    def delta(self, uri: str, version: int | None = None) -> DeltaTable | None:
        """The table at ``uri`` in the lake, or what is here in its place."""
        return super().delta(self._moved.get(uri, uri), version)

    def exists(self, uri: str) -> bool:
        """True if the lake itself has the table."""
        return uri not in self._moved and self.delta(uri) is not None

    def ensure(self, uri: str, declared: Stored, table_name: str, *, whole: bool, adaptation: Adaptation) -> Adapted:
        """Checks a table against its declaration, as the load would; one that does not exist is empty from now on."""
        if (delta := self.delta(uri)) is None:
            self._moved[uri] = place = self._place(uri)
            columns = Schema.from_json(declared.columns.json())
            DeltaTable.create(place, columns, partition_by=[*declared.partitioned_by])
            return Adapted()
        check_table(delta, declared, table_name, uri=uri, whole=whole, adaptation=adaptation)
        if widened := widened_columns(schema_of(delta), declared.columns, adaptation):
            raise SchemaMismatch(
                f"{table_name}: the load would first widen {', '.join(widened)}, which rewrites {uri}",
                rule="a preview computes on the types that the table has",
                remedy="load any partition, which widens them, and look again",
            )
        return Adapted()

    def lacking(self, uri: str, columns: T.StructType) -> list[str]:
        """The columns that a load would add to a table."""
        delta = self.delta(uri)
        known = columns.names if delta is None else schema_of(delta).names
        return [name for name in columns.names if name not in known]

    def seen(self, at: ReadView, lacking: Sequence[str]) -> ReadView:
        """A read view of the lake as the load would have it, with the columns that it would add to the log."""
        if lacking:
            at = replace(at, log_files=None, window_files=None)  # the files lack them
        if self.merged.near is None:
            return at
        there = max(at.near_bytes, 1)  # rows that are in no file are not known to be older than anything
        fence, in_all = self.merged.fence, max(at.table_bytes, 1)
        return replace(at, fence=fence, newer=False, near_bytes=there, table_bytes=in_all)

    def append(self, uri: str, rows: pa.Table, app_id: str, number: int, *, replacing: bool = False) -> bool:
        """Appends rows to a copy of the table, see :meth:`incload_assets.platform.lake.Lake.append`."""
        if uri not in self._moved:
            place, there = self._place(uri), self.delta(uri)
            known = rows.schema.empty_table() if there is None else there.to_pyarrow_table()
            before = there.transaction_version(app_id) if there is not None else None
            fence = CommitProperties(app_transactions=[Transaction(app_id, before)]) if before else None
            write_deltalake(place, known, commit_properties=fence)
            self._moved[uri] = place
        return super().append(uri, rows, app_id, number, replacing=replacing)

    def commit(self, *_: object, **__: object) -> NoReturn:
        """Refuses: a load that only shows its effect commits nothing."""
        raise AssertionError("a load with a scratch commits nothing to the lake")

    def _place(self, uri: str) -> str:
        return str(self.aside / f"{len(self._moved)}" / uri.rpartition("/")[2])
