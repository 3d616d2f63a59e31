"""A lake that a preview reads and never changes: what would be written is kept in a folder of this machine."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NoReturn

import pyarrow as pa
import pyspark.sql.types as T
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake

from incload_assets.platform.lake import FollowedLake, Lake


@dataclass(frozen=True)
class PreviewLake(FollowedLake):
    """A lake for one preview.

    A source that stores small facts while it is asked (where its windows end, what a derived window refers to) reads
    them back as if they were stored, but they are not in the lake. A table that does not exist yet is an empty one.

    Args:
        root: As in :class:`~incload_assets.platform.lake.Lake`.
        aside: A folder of this machine for the preview alone.
    """

    aside: Path = field(kw_only=True)
    is_written: ClassVar[bool] = False
    _moved: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def followed(self) -> Lake:
        """This lake, so that everything that a preview does knows what it would have written."""
        return self

    def delta(self, uri: str, version: int | None = None) -> DeltaTable | None:
        """The table at ``uri`` in the lake, or what the preview has in its place."""
        return super().delta(self._moved.get(uri, uri), version)

    def exists(self, uri: str) -> bool:
        """True if the lake itself has the table."""
        return uri not in self._moved and self.delta(uri) is not None

    def stand_in(self, uri: str, schema: T.StructType, partition_by: Sequence[str]) -> None:
        """Puts an empty table in the place of one that does not exist yet.

        Args:
            uri: The table's URI.
            schema: Its columns.
            partition_by: Its partition columns.
        """
        place = self._place(uri)
        DeltaTable.create(place, Schema.from_json(schema.json()), partition_by=[*partition_by])
        self._moved[uri] = place

    def append(self, uri: str, rows: pa.Table, app_id: str, number: int, *, anew: bool = False) -> bool:
        """Appends rows to a copy of the table, see :meth:`incload_assets.platform.lake.Lake.append`."""
        if uri not in self._moved:
            place, there = self._place(uri), self.delta(uri)
            known = rows.schema.empty_table() if there is None else there.to_pyarrow_table()
            before = there.transaction_version(app_id) if there is not None else None
            fence = CommitProperties(app_transactions=[Transaction(app_id, before)]) if before else None
            write_deltalake(place, known, commit_properties=fence)
            self._moved[uri] = place
        return super().append(uri, rows, app_id, number, anew=anew)

    def commit(self, *_: object, **__: object) -> NoReturn:
        """Refuses.

        Raises:
            AssertionError: Always.
        """
        raise AssertionError("a preview commits nothing to the lake")

    def _place(self, uri: str) -> str:
        return str(self.aside / f"{len(self._moved)}" / uri.rpartition("/")[2])
