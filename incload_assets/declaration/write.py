"""The declaration of a write strategy: what an author chooses, and what other rooms have to know of the choice."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import dagster as dg
import pyspark.sql.types as T
from pydantic import Field
from pyspark.sql import Column

from incload_assets.contract.contract import Contract
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.source import Source
from incload_assets.declaration.window import Window

_BUCKETS = "a whole number from 2 to 1000, such that a bucket has some tens of megabytes"
Buckets = Annotated[int, Field(ge=2, le=1000, description=_BUCKETS)]
BUCKET = "_bucket"
"""Partition column of a table that is divided into hash buckets."""


@dataclass(frozen=True, kw_only=True)
class Write:
    """The declared part of a write strategy.

    The part that the engine executes is :class:`~incload_assets.writes.strategy.Strategy`, a subclass.

    Args:
        partition_by: Column that partitions the table; None: not partitioned.
        buckets: Into how many hash buckets of its keys a table without ``partition_by`` is divided, 2 to 1000; None:
            it is not. A load reads and rewrites only files of the buckets that its changes fall into, so that a few
            changes to a large table cost little; many changes touch every bucket all the same. The table gets a
            partition column ``_bucket``.
    """

    partition_by: str | None = None
    buckets: Buckets | None = field(default=None, repr=False)  # decides where a row is, not what it is

    keyed: ClassVar[bool] = True
    """Whether changes need a key."""
    ordered: ClassVar[bool] = True
    """Whether changes need a sequence."""
    deletes: ClassVar[bool] = True
    """Whether a change can be a delete."""
    ranges: ClassVar[bool] = True
    """Whether several windows can be planned and applied at once."""
    supersedes: ClassVar[bool] = False
    """Whether only the newest window counts, so that windows of another definition do no harm once there is a newer."""
    whole: ClassVar[bool] = False
    """Whether the load of any window concerns the whole table, so that all share one fence."""

    bucketed: ClassVar[bool] = False
    """Whether the table can be divided into hash buckets."""
    truncates: ClassVar[bool] = False
    """Whether a change can delete everything that is older."""

    @property
    def compacts(self) -> bool:
        """Whether the log can do without some of its changes, as :meth:`decisive` says."""
        return False

    @property
    def serialized(self) -> bool:
        """Whether loads of different windows may touch the same rows, so that they wait for each other."""
        return self.whole or self.partition_by is None

    def validate(self, table_name: str, contract: Contract, changes: Changes, source: Source) -> None:
        """Check the declaration beyond keys, sequence and partition.

        Raises:
            DeclarationError: With table, field, why, and what to write instead.
        """

    def validate_windows(
        self, table_name: str, contract: Contract, partitions_def: dg.TimeWindowPartitionsDefinition
    ) -> None:
        """Check that the table's windows fit.

        Raises:
            DeclarationError: As :meth:`validate` does.
        """

    @property
    def conditions(self) -> Mapping[str, str]:
        """SQL conditions on rows of the table, by the name of the argument that they are declared in."""
        return {}

    @property
    def stored_by(self) -> tuple[str, ...]:
        """Columns by whose values the table's files lie apart."""
        return (self.partition_by,) if self.partition_by is not None else self._stored_in_buckets

    @property
    def _stored_in_buckets(self) -> tuple[str, ...]:
        return (BUCKET,) if self.buckets is not None else ()

    @property
    def sets_named_columns(self) -> bool:
        """Whether a change sets only the columns that its record names."""
        return False

    def by_column(self, changes: Changes) -> bool:
        """Whether a change may leave columns as they are; the log then tells which ones it sets."""
        return False

    def reads_windows(self, changes: Changes) -> bool:
        """Whether a plan mostly reads no changes but those of its windows, and deletes."""
        return False

    def schema(self, contract: Contract, changes: Changes) -> T.StructType:
        """The table's columns: the contract's, and those that the way of writing adds."""
        return contract.schema

    def kept_as(self, changes: Changes) -> dict[str, str]:
        """What the rows of a table rely on, by name: an existing table is not written with anything else."""
        told = {"write": type(self).__name__, "keys": ", ".join(sorted(self.identity(changes)))}
        if self.buckets is not None:  # whose numbers are hashes of the keys in their order
            told |= {"buckets": str(self.buckets), "bucket_keys": ", ".join(changes.keys)}
        return told

    def is_content(self, changes: Changes) -> bool:
        """Whether a row is told from others by all that it holds, so that no column of a table can be left out."""
        return False

    def identity(self, changes: Changes) -> tuple[str, ...]:
        """The columns that no change may lack: the keys, and the partition column, which is part of what a row is."""
        partition = self.partition_by
        return (*changes.keys, *((partition,) if partition and partition not in changes.keys else ()))

    def marked(self, contract: Contract, changes: Changes) -> tuple[str, ...]:
        """What is kept of a row that an ingestion takes away, so that the table can be told; empty: nothing."""
        return self.identity(changes)

    def together(self) -> tuple[str, ...]:
        """Columns whose rows, where they are equal, are only accepted together; empty: each row for itself."""
        return ()

    def unique_rows(self, changes: Changes) -> tuple[tuple[str, ...], str | None]:
        """Columns that identify a row of the whole table, and a SQL condition on the rows meant; empty: none do."""
        return tuple(changes.keys), None

    def reasons(
        self, contract: Contract, partitions_def: dg.TimeWindowPartitionsDefinition, window: Window
    ) -> list[Column]:
        """Reasons (string, NULL if fine), beyond the contract's, why a row of the window cannot be accepted."""
        return []
